"""Figures of a training run: they are written, and their numbers are those that were given."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.statistics import Estimate
from eval.training_plots import Change, behaviour_figure, change_figure, length_figure, reward_figure
from reasoning.files import read_json

RECORDS = [
    {"step": 0, "held_out/accuracy@256": 0.4, "held_out/low@256": 0.3, "held_out/high@256": 0.5},
    *(
        {
            "step": step,
            "reward": 0.3 + 0.01 * step,
            "completion_tokens": 200.0,
            "thinking_tokens": 180.0,
            "bound_share": 0.5,
        }
        for step in range(1, 21)
    ),
    {"step": 20, "held_out/accuracy@256": 0.6, "held_out/low@256": 0.5, "held_out/high@256": 0.7},
]


def assert_written(paths: list[Path]) -> dict:
    assert [path.suffix for path in paths] == [".png", ".svg", ".json"]
    assert all(path.stat().st_size > 0 for path in paths)
    return read_json(paths[2])["numbers"]


def test_reward(tmp_path: Path) -> None:
    numbers = assert_written(reward_figure(RECORDS, tmp_path / "plots" / "reward", note="A note."))
    assert len(numbers["reward"]) == 20
    assert [point["accuracy"] for point in numbers["held_out"]["256"]] == [0.4, 0.6]


def test_length(tmp_path: Path) -> None:
    numbers = assert_written(length_figure(RECORDS, tmp_path / "length", note=""))
    assert numbers["bound_share"][0] == {"step": 1, "value": 0.5}


def test_change(tmp_path: Path) -> None:
    changes = [
        Change("64", 0.2, 0.3, Estimate(0.1, 0.05, 0.15, "bonett-price", 100)),
        Change("none", 0.6, 0.59, Estimate(-0.01, -0.05, 0.03, "bonett-price", 100)),
    ]
    numbers = assert_written(change_figure(changes, tmp_path / "change", note=""))
    assert [one["difference"] for one in numbers["budgets"]] == [0.1, -0.01]


def test_behaviours(tmp_path: Path) -> None:
    shares = {0: {"checks itself": 0.1}, 1: {"checks itself": 0.4}}
    assert assert_written(behaviour_figure(shares, tmp_path / "b", note="")) == {"checks itself": [0.1, 0.4]}


@pytest.mark.parametrize("figure", [reward_figure, length_figure])
def test_nothing_to_draw_is_no_figure(figure, tmp_path: Path) -> None:
    assert figure([], tmp_path / "x", note="") == []
    assert change_figure([], tmp_path / "x", note="") == []
    assert behaviour_figure({}, tmp_path / "x", note="") == []
    assert not list(tmp_path.iterdir())


def test_the_same_numbers_give_the_same_picture(tmp_path: Path) -> None:
    first, second = (reward_figure(RECORDS, tmp_path / name, note="") for name in ("a", "b"))
    assert first[1].read_bytes() == second[1].read_bytes()

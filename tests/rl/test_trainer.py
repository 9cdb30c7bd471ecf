"""What the trainer itself decides: what its numbers are of, and what processes do when one of them fails."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import nn

import reasoning.summary
from reasoning.engine.base import EngineError
from reasoning.files import read_json_lines
from reasoning.held_out import HeldOut
from rl.distributed import Processes
from rl.trainer import GrpoTrainer
from tests.end_to_end import training
from tests.rl.linked import together


def test_an_engine_that_takes_no_weights_stops_all_processes() -> None:
    """And whoever fails has asked for every weight first: of shards the others could not put one together alone."""
    asked: list[list[str]] = [[], []]

    class Model(nn.Linear):
        def named_parameters(self, *_: Any, **__: Any) -> Any:
            for name in ("first", "second", "third"):
                asked[self.in_features - 1].append(name)
                yield name, torch.zeros(1)

    def sync(process: Processes) -> str:
        def load_weights(weights: Any) -> None:
            for _ in weights:
                if process.index == 1:
                    raise EngineError("the engine is dead")

        maker = SimpleNamespace(engine=SimpleNamespace(load_weights=load_weights))
        trainer: Any = SimpleNamespace(
            processes=process,
            state=SimpleNamespace(global_step=1),
            generator=SimpleNamespace(maker=maker),
            model=Model(process.index + 1, 1),
            _synced_step=0,
        )
        trainer._load_weights = lambda: GrpoTrainer._load_weights(trainer)
        try:
            GrpoTrainer._sync(cast(GrpoTrainer, trainer))
        except EngineError as error:
            return str(error)
        return "fine"

    assert together(sync) == ["the engine is dead"] * 2
    assert asked == [["first", "second", "third"]] * 2


def test_the_speed_of_the_update_is_that_of_its_own_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of two steps on a generation scores all of it before, which is time of the step, not of the update."""
    monkeypatch.setattr(reasoning.summary, "show_run", lambda *_: [])
    file = training.config(training.save_model(tmp_path / "m"), tmp_path, grpo={"num_iterations": 2, "max_steps": 2})
    assert training.main(file, out=tmp_path / "run") == 0
    first, second = (line for line in read_json_lines(tmp_path / "run" / "metrics.jsonl") if "loss" in line)
    assert first["row_tokens"] / first["update_tokens_per_s"] < 0.99 * first["time/update"]
    assert second["row_tokens"] / second["update_tokens_per_s"] == pytest.approx(second["time/update"])


def test_an_engine_that_dies_over_held_out_tasks_costs_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two checkpoints, and the run that goes on ends where it would have ended."""
    monkeypatch.setattr(reasoning.summary, "show_run", lambda *_: [])
    grpo = {"max_steps": 4, "save_steps": 50}
    file = training.config(training.save_model(tmp_path / "m"), tmp_path, grpo=grpo, held_out={"limit": 4, "every": 3})
    assert training.main(file, out=tmp_path / "whole") == 0
    measure = HeldOut.measure

    def die(held_out: HeldOut, step: int) -> Any:
        if step == 3:
            raise EngineError("the engine is dead")
        return measure(held_out, step)

    with monkeypatch.context() as patched:
        patched.setattr(HeldOut, "measure", die)
        assert training.main(file, out=tmp_path / "run") == 1
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-000003"]
    assert training.main(file, out=tmp_path / "run", resume=True) == 0
    training.assert_same(tmp_path / "run", tmp_path / "whole")

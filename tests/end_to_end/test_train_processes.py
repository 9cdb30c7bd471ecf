"""Two processes on the CPU train what one does, each with its own engine; what stops one of them stops both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import reasoning.summary
from reasoning.cli import USAGE_ERRORS
from reasoning.files import read_json
from tests.end_to_end import training
from tests.end_to_end.processes import run_all

GRPO: dict[str, Any] = {
    "max_steps": 6,
    "save_steps": 2,
    "steps_per_generation": 2,
    "num_iterations": 2,
    "scale_rewards": "batch",
}
GRPO |= {"adam_epsilon": 1e-5}  # or a gradient that is all rounding moves its weight as far as any other


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process: the run that all others are compared with. Three prompts a generation are no even number."""
    folder = tmp_path_factory.mktemp("one")
    model = training.save_model(folder / "model")
    file = training.config(model, folder, curriculum=True, grpo=GRPO | {"per_device_train_batch_size": 12})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reasoning.summary, "show_run", lambda *_: [])
        assert training.main(file, out=folder / "run") == 0
    return folder


def config(one: Path, tmp_path: Path, **changes: Any) -> Path:
    """The same for two processes, which take half of a batch each."""
    grpo = GRPO | {"per_device_train_batch_size": 6}
    return training.config(one / "model", tmp_path, curriculum=True, grpo=grpo, **changes)


def assert_near(run: Path, one: Path) -> None:
    """The same rollouts; weights and metrics up to rounding."""
    weights, expected = (load_file(folder / "model/model.safetensors") for folder in (run, one / "run"))
    start = load_file(one / "model/model.safetensors")
    assert any(not torch.equal(expected[name], start[name]) for name in start)
    for name, tensor in expected.items():
        torch.testing.assert_close(weights[name], tensor, rtol=1e-5, atol=1e-7)
    lines, others = training.numbers(run), training.numbers(one / "run")
    assert len(lines) == len(others)
    for line, other in zip(lines, others, strict=True):
        assert line.keys() == other.keys()
        for name in line.keys() - {"rows", "padding"}:  # the row sizes may differ
            assert line[name] == pytest.approx(other[name], rel=1e-4, abs=1e-6), name


def test_two_processes_train_what_one_does(one: Path, tmp_path: Path) -> None:
    assert run_all([{"file": config(one, tmp_path), "out": tmp_path / "two"}], tmp_path) == [[0, 0]]
    assert_near(tmp_path / "two", one)
    assert read_json(tmp_path / "two" / "manifest.json")["processes"] == 2
    with pytest.raises(USAGE_ERRORS, match="processes 2 -> 1"):
        training.main(tmp_path / "grpo.yaml", out=tmp_path / "two", resume=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shards", [False, True], ids=["whole weights", "FSDP2"])
def test_what_stops_one_process_stops_both_and_they_go_on(one: Path, tmp_path: Path, shards: bool) -> None:
    """Rows that hold a whole step leave the second process without any."""
    file = config(one, tmp_path, update={"row_tokens": 1024, "threads": 1})
    whole, killed, stopped, died = (
        {"file": file, "out": tmp_path / name, "shards": shards} for name in ("whole", "killed", "stopped", "died")
    )
    runs: list[dict[str, Any]] = [whole, killed | {"kill": [1, 3]}, killed | {"resume": True}]
    runs += [stopped | {"interrupt": [1, 3]}, stopped | {"resume": True}]
    runs += [died | {"engine_dies_in": 1}, died | {"resume": True}]
    codes = run_all(runs, tmp_path)
    assert codes == [[0, 0], [1, -9], [0, 0], [130, 130], [0, 0], [1, 1], [0, 0]]
    assert_near(tmp_path / "whole", one)
    for name in ("killed", "stopped", "died"):
        training.assert_same(tmp_path / name, tmp_path / "whole")
    said = (tmp_path / "run-1-0.err").read_text()
    assert "another process of this training ended" in said and "Traceback" not in said
    assert "accelerate launch" in said and "--resume" in said


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("shards", [False, True], ids=["whole weights", "FSDP2"])
def test_every_engine_has_the_weights_of_the_step(one: Path, tmp_path: Path, shards: bool) -> None:
    file = config(
        one, tmp_path, rewards={"tests.end_to_end.own_rewards:first_token": {}}, budget=6, max_answer_tokens=2
    )
    run = {"file": file, "out": tmp_path / "run", "sampling": True, "shards": shards}
    assert run_all([run], tmp_path) == [[0, 0]]
    lines = [line for line in training.numbers(tmp_path / "run") if "loss" in line]
    first_passes = lines[::4]
    assert len(first_passes) == 2
    for line in first_passes:
        assert line["sampling/sampling_logp_difference/mean"] < 1e-5

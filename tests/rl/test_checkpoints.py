"""A checkpoint is there or it is not."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from rl.checkpoints import CheckpointError, Checkpoints, load_state, random_state, restore_random_state, step_of


def write_model(folder: Path) -> None:
    (folder / "config.json").write_text("{}")


def fail(folder: Path) -> None:
    (folder / "half").write_text("a part")
    raise OSError(28, "No space left on device")


def test_saves_and_keeps_the_latest(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=2)
    assert checkpoints.latest() is None
    for step in (3, 20, 100):
        checkpoints.save(step, {"step": step, "weights": torch.arange(step)}, write_model)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-000020", "step-000100"]
    latest = checkpoints.latest()
    assert latest is not None and step_of(latest) == 100
    assert torch.equal(load_state(latest)["weights"], torch.arange(100))


def test_it_takes_its_name_when_all_of_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def flush(descriptor: int) -> None:
        done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def rename(source: Path, target: Path) -> None:
        done.append(target.name)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", rename)
    Checkpoints(tmp_path, keep=None).save(1, {"step": 1}, write_model)
    assert sorted(done[:-1]) == ["config.json", "state.pt"] and done[-1] == "step-000001"


def test_a_failure_leaves_no_trace_and_names_the_last_good_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, {"step": 1}, write_model)
    with pytest.raises(CheckpointError, match=r"step 2 could not be written: .*No space left.*step-000001"):
        checkpoints.save(2, {"step": 2}, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"]


def test_what_is_not_complete_is_not_seen(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=None)
    checkpoints.save(1, {"step": 1}, write_model)
    (tmp_path / "step-000002.tmp").mkdir()
    (tmp_path / "step-000003").mkdir()
    (tmp_path / "notes").mkdir()
    latest = checkpoints.latest()
    assert latest is not None and latest.name == "step-000001"


def test_random_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=None)
    path = checkpoints.save(1, {"random": random_state()}, write_model)
    drawn = random.random(), np.random.random(), torch.rand(1)
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    restore_random_state(load_state(path)["random"])
    assert (random.random(), np.random.random(), torch.rand(1)) == drawn

"""The folder of a training run: when it is refused, continued, or started over."""

from __future__ import annotations

from pathlib import Path

import pytest

from reasoning.run_folder import RunFolder, RunFolderError
from reasoning.train_folder import is_training_run, prepare_training

CONFIG = {
    "seed": 0,
    "out": None,
    "grpo": {"max_steps": 5, "save_steps": 2},
    "engine": {"max_num_seqs": 8, "dtype": None},
}
MANIFEST = {"data_sha256": "a", "attempts": []}


def prepare(path: Path, config: dict = CONFIG, *, resume: bool = False, clean: bool = False) -> RunFolder:
    folder = RunFolder(path)
    prepare_training(folder, config, MANIFEST, resume=resume, clean=clean)
    return folder


def used(path: Path) -> RunFolder:
    folder = prepare(path)
    (path / "metrics.jsonl").write_text('{"step":1}\n')
    (path / "checkpoints" / "step-000001").mkdir(parents=True)
    (path / "notes.txt").write_text("mine")
    return folder


def test_a_used_folder_is_refused_and_cleaned_when_asked_to(tmp_path: Path) -> None:
    used(tmp_path)
    with pytest.raises(RunFolderError, match=r"already holds a training run.*--resume.*--clean"):
        prepare(tmp_path)
    prepare(tmp_path, clean=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "manifest.json", "notes.txt"]


def test_a_run_that_failed_before_its_first_result_is_started_over(tmp_path: Path) -> None:
    prepare(tmp_path)
    folder = prepare(tmp_path, CONFIG | {"seed": 3})
    assert folder.read_config()["seed"] == 3


def test_resume_wants_the_same_settings_but_for_those_that_move_no_weights(tmp_path: Path) -> None:
    used(tmp_path)
    same = {
        "seed": 0,
        "out": "x",
        "grpo": {"max_steps": 5, "save_steps": 9},
        "engine": {"max_num_seqs": 2, "dtype": None},
    }
    assert is_training_run(prepare(tmp_path, same, resume=True))
    changed = {"grpo": {"max_steps": 6}, "engine": {"max_num_seqs": 8, "dtype": "bfloat16"}}
    with pytest.raises(RunFolderError, match=r"engine.dtype unset -> bfloat16, grpo.max_steps 5 -> 6"):
        prepare(tmp_path, CONFIG | changed, resume=True)


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    for clean in (False, True):
        with pytest.raises(RunFolderError, match="not the folder of a training run"):
            prepare(tmp_path, clean=clean)

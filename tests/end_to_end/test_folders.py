"""Several processes that want the same run folder: one gets it, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from reasoning.files import read_json
from reasoning.run_folder import RunFolder, RunFolderError, default_path, make_folder, make_new_folder
from tests.end_to_end import scripted
from tests.end_to_end.conftest import Child, Outcome, many, results, verdicts

Run = Callable[..., Outcome]
Fork = Callable[..., Child]


def test_of_two_that_start_at_once_one_runs(model, tmp_path, uninterrupted, fork: Fork, monkeypatch):
    monkeypatch.setenv(scripted.STEP_SECONDS, "0.01")
    out = tmp_path / "shared"
    children = [fork(many(model, out, flag)) for flag in ("--resume", "--clean", "--resume")]
    codes = [child.wait() for child in children]
    refused = [child.errors.read_text() for child, code in zip(children, codes, strict=True) if code]
    assert len(refused) == 2
    assert all("another process is writing to" in errors for errors in refused)
    assert results(out) == results(uninterrupted)
    assert len(read_json(out / "manifest.json")["attempts"]) == 1


@pytest.mark.parametrize("flags", [(), ("--resume",), ("--clean",)])
def test_a_folder_that_another_has_just_made_is_left_alone(model, tmp_path, run: Run, flags):
    folder = make_folder(tmp_path / "taken")
    with folder.lock():
        outcome = run(many(model, folder.path, *flags))
    assert (outcome.code, "another process is writing to" in outcome.err) == (2, True)
    assert list(folder.path.iterdir()) == []


def test_clean_deletes_nothing_under_a_writer(model, uninterrupted, run: Run):
    before = verdicts(uninterrupted)
    with RunFolder(uninterrupted).lock():
        outcome = run(many(model, uninterrupted, "--clean"))
    assert (outcome.code, "another process is writing to" in outcome.err) == (2, True)
    assert verdicts(uninterrupted) == before


def test_clean_that_is_killed_halfway_can_be_repeated(model, uninterrupted, run: Run, monkeypatch):
    unlink = Path.unlink

    def stop(path: Path, missing_ok: bool = False) -> None:
        if path.name == "verdicts.jsonl":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as killed:
        killed.setattr(Path, "unlink", stop)
        with pytest.raises(KeyboardInterrupt):
            run(many(model, uninterrupted, "--clean"))
    assert RunFolder(uninterrupted).is_run
    assert not RunFolder(uninterrupted).is_ready, "what is left must not be continued"
    assert run(many(model, uninterrupted, "--clean", limit=4)).code == 0


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = default_path("countdown", "pocket", datetime(2026, 1, 2, 3, 4, 5))  # noqa: DTZ001 - a name, not a time
    names = [make_new_folder(path).path.name for _ in range(3)]
    assert names == [path.name, f"{path.name}-2", f"{path.name}-3"]
    assert all((Path("runs") / name).is_dir() for name in names)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match=r"cannot write to .*file: File exists. Choose another --out"):
        make_folder(tmp_path / "file")
    with pytest.raises(RunFolderError, match="Not a directory"):
        make_new_folder(tmp_path / "file" / "run")


def test_an_error_of_the_run_is_not_taken_for_another_writer(tmp_path):
    with pytest.raises(BlockingIOError), make_folder(tmp_path / "run").lock():
        raise BlockingIOError("a pipe is full")

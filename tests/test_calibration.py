"""Reference solutions are run first: what fails is left out, what passed is remembered."""

from pathlib import Path

import pytest

from reasoning.calibration import cache_file, calibrate
from reasoning.tasks import TaskError
from reasoning.types import Task

TESTS = {"type": "call", "entry": "f", "cases": [{"args": [1], "expected": 2}]}
RIGHT, WRONG = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"


def task(name: str, solution: str | None = RIGHT, verifier: str = "code") -> Task:
    meta = {"tests": TESTS, "limits": {"timeout_s": 5}} | ({} if solution is None else {"solution": solution})
    return Task(name, ({"role": "user", "content": "p"},), "all tests pass", verifier, meta=meta)


def test_what_fails_is_left_out_and_named(tmp_path: Path) -> None:
    tasks = [task("a"), task("b", WRONG), task("c", None), task("d", "def f(x)"), task("e", None, "math"), task("f")]
    kept, found = calibrate(tasks, "full", tmp_path / "cache")
    assert [kept_task.id for kept_task in kept] == ["a", "c", "e", "f"]
    assert (found.checked, found.unchecked, list(found.left_out)) == (4, 1, ["b", "d"])
    assert found.left_out["b"].startswith("fail: test 1 of 1: fail")
    assert found.left_out["d"].startswith("crash")


def test_what_passed_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "new" / "folder" / "cache"
    calibrate([task("a"), task("b", WRONG)], "full", cache)
    (key,) = cache.read_text().split()
    assert len(key) == 64
    monkeypatch.setattr("reasoning.calibration.run_program", lambda *_: pytest.fail("it was run again"))
    kept, found = calibrate([task("another name")], "full", cache)
    assert (len(kept), found.checked, found.left_out) == (1, 1, {})
    for changed, tier in ((task("a"), "process"), (task("a", RIGHT + "\n"), "full")):
        with pytest.raises(pytest.fail.Exception, match="run again"):
            calibrate([changed], tier, cache)


def test_a_cache_that_cannot_be_used_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff\xfe")
    assert len(calibrate([task("a")], "full", tmp_path / "file")[0]) == 1
    assert len(calibrate([task("a")], "full", tmp_path / "file" / "below")[0]) == 1


def test_nothing_to_run_and_nothing_left(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="none of these tasks has one; leave it out"):
        calibrate([task("a", None), task("b", None, "math")], "full", tmp_path / "cache")
    with pytest.raises(TaskError, match=r"no task is left: the reference solutions of all 1 fail here; a: fail"):
        calibrate([task("a", WRONG)], "full", tmp_path / "cache")


def test_the_cache_lies_where_the_system_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_file() == Path("/somewhere/reasoning-harness/calibration.txt")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/anywhere")
    assert cache_file() == Path("/anywhere/.cache/reasoning-harness/calibration.txt")

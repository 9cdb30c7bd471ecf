"""A model folder without weights, and evaluations of it in this process and in one that can be killed."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from reasoning.cli import USAGE_ERRORS
from reasoning.console import command_line
from reasoning.files import read_json, read_json_lines
from tests.end_to_end import scripted

PER_ATTEMPT = ("cost", "kv_cache", "compute")
"""Parts of results.json that hold what all attempts at a run spent."""


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scripted.save_model(tmp_path_factory.mktemp("models") / "tiny")


def arguments(model: Path, out: Path, *more: str) -> list[str]:
    return [
        "--model",
        str(model),
        "--budgets",
        "8,16,none",
        "--samples",
        "2",
        "--limit",
        "16",
        "--out",
        str(out),
        *more,
    ]


def many(model: Path, out: Path, *more: str, limit: int = 24) -> list[str]:
    """Enough samples to be interrupted at, eight at a time."""
    common = ["--budgets", "8,16,32", "--samples", "2", "--limit", str(limit), "--quiet"]
    return ["--model", str(model), *common, "--engine.max_num_seqs", "8", "--out", str(out), *more]


@pytest.fixture(scope="session")
def whole(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "uninterrupted"
    assert scripted.main(many(model, out)) == 0
    return out


@pytest.fixture
def uninterrupted(whole: Path, tmp_path: Path) -> Path:
    """A run that ended as it should, for each test to do with as it likes."""
    return Path(shutil.copytree(whole, tmp_path / "uninterrupted"))


@pytest.fixture(scope="session")
def finished(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "finished"
    assert scripted.main(arguments(model, out)) == 0
    return out


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A complete run, for each test to do with as it likes."""
    return Path(shutil.copytree(finished, tmp_path / "finished"))


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Call a command's `main` as its process would, and return what a user sees."""

    def call(arguments: Sequence[str], command: Callable[[Sequence[str]], int] = scripted.main) -> Outcome:
        capfd.readouterr()
        try:
            code, message = command(arguments), ""
        except USAGE_ERRORS as error:
            code, message = 2, f"error: {error}\n"
        seen = capfd.readouterr()
        return Outcome(code, seen.out, seen.err + message)

    return call


@dataclass(frozen=True)
class Child:
    """An evaluation in a process of its own, forked from this one so that nothing has to be imported again."""

    pid: int
    errors: Path

    def wait(self) -> int:
        """The exit code; negative: the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def wait_for(self, condition: Callable[[], bool], seconds: float = 20.0) -> bool:
        """Wait until `condition` holds. False: the process ended first (it can still be waited for)."""
        end = time.monotonic() + seconds
        while not condition():
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return False
            assert time.monotonic() < end, f"waited {seconds} s in vain: {self.errors.read_text()}"
            time.sleep(0.001)
        return True


@pytest.fixture
def fork(tmp_path: Path) -> Callable[..., Child]:
    numbers = iter(range(1000))

    def start(arguments: Sequence[str], prepare: Callable[[], None] = lambda: None) -> Child:
        errors = tmp_path / f"stderr-{next(numbers)}"
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _become(arguments, errors, prepare)
        return Child(pid, errors)

    return start


def _become(arguments: Sequence[str], errors: Path, prepare: Callable[[], None]) -> None:
    code = 99
    try:
        descriptor = os.open(errors, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        prepare()
        code = scripted.main(arguments)
    except BaseException:  # noqa: BLE001 - pytest must not go on in the child
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def lines(path: Path) -> list[dict[str, Any]]:
    return list(read_json_lines(path))


def line_count(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def results(folder: Path) -> dict[str, Any]:
    """results.json without what a resumed run may spend more of."""
    return {name: value for name, value in read_json(folder / "results.json").items() if name not in PER_ATTEMPT}


def cost(folder: Path) -> dict[str, float]:
    return read_json(folder / "results.json")["cost"]


def verdicts(folder: Path) -> list[tuple[Any, ...]]:
    """What the verifiers found, in an order that does not depend on who finished first; later lines replace earlier."""
    found = {(v["task_id"], v["sample"], str(v["budget"])): v for v in lines(folder / "verdicts.jsonl")}
    return [(*key, found[key]["status"], found[key]["extracted"]) for key in sorted(found)]


def resume_arguments(errors: str) -> list[str]:
    """The arguments of the line that an interrupted run prints."""
    command = next(line for line in errors.splitlines() if "-m reasoning.eval" in line)
    words = shlex.split(command)
    assert shlex.join(words[:3]) == command_line("reasoning.eval")
    return words[3:]

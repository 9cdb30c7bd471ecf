"""One attempt at a run, as the manifest tells it: when it began, what it was made with, how it ended, how to go on."""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reasoning import console
from reasoning.engine.base import Engine
from reasoning.provenance import git_state, versions
from reasoning.run_folder import RunFolder

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a disk that takes no more."""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def begin_attempt(folder: RunFolder, module: str, arguments: Sequence[str], engine: Engine, **more: Any) -> None:
    """Note in the manifest what this attempt is made with. `module` is the command's, such as reasoning.eval."""
    attempt = {
        "started": now(),
        "command": ["python", "-m", module, *arguments],
        "versions": versions(),
        "git": git_state(),
        "engine": engine.describe(),
        **more,
    }
    folder.update_manifest(status="running", attempts=[*folder.read_manifest()["attempts"], attempt])


def end_attempt(folder: RunFolder, status: str, started: float) -> None:
    """Note how it ended, and add the seconds since `started`, a time of the monotonic clock."""
    seconds = folder.read_manifest()["seconds"] + time.monotonic() - started
    folder.update_manifest(status=status, ended=now(), seconds=round(seconds, 3))


def resume_line(module: str, arguments: Sequence[str], path: Path) -> str:
    """What to type to go on with an interrupted run that was started with `arguments`."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if not skip and argument not in ("--resume", "--clean", "--out") and not argument.startswith("--out="):
            kept.append(argument)
        skip = argument == "--out"
    return console.command_line(module, *kept, "--out", str(path), "--resume")

"""Memory of a box as a whole: capped by a control group where we may make one, otherwise measured now and then."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from verifiers.sandbox.usage import Use

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "reasoning-sandbox-"
_SLACK = 96 << 20
"""For the zygote and the process that runs tests, which are in the group too."""


class Group:
    """A memory control group, version 2 or 1, of one worker: its zygote is in it, and so is what that starts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._second = (path / "memory.max").exists()
        self._limit = 0
        self._kills = 0

    @staticmethod
    def make() -> Group | None:
        """A group of this process, or None where that is not allowed."""
        for parent in _parents():
            _remove_stale(parent)
            path = parent / f"{_PREFIX}{os.getpid()}"
            try:
                path.mkdir()
            except OSError:
                continue
            group = Group(path)
            try:
                group.limit(1 << 30, 0)
                group.has_killed()
                if group._second:
                    with suppress(OSError):
                        (path / "memory.swap.max").write_text("0")
            except OSError:
                group.remove()
                continue
            return group
        return None

    def add(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))

    def limit(self, memory: int, files: int) -> None:
        """Bytes of memory for programs, and of files, which are kept in memory too."""
        limit = memory + files + _SLACK
        if limit != self._limit:
            (self.path / ("memory.max" if self._second else "memory.limit_in_bytes")).write_text(str(limit))
            self._limit = limit

    def has_killed(self) -> bool:
        """Whether the kernel has ended a process here for want of memory since this was last asked."""
        text = (self.path / ("memory.events" if self._second else "memory.oom_control")).read_text()
        found = re.search(r"^oom_kill (\d+)", text, re.MULTILINE)
        if found is None:
            raise OSError("this kernel does not count what it kills for want of memory")
        before, self._kills = self._kills, int(found[1])
        return self._kills > before

    def remove(self) -> None:
        """Remove the group when the last process in it has gone, which may take it a moment."""
        for _ in range(50):
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.02)


def _parents() -> list[Path]:
    """The group of this process, in the hierarchies that may control memory; version 2 first."""
    found: list[Path] = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in sorted(lines, key=lambda line: not line.startswith("0::")):
        number, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if number == "0":
            found += [base / inside for base in (_ROOT, _ROOT / "unified")]
        elif "memory" in controllers.split(","):
            found += [_ROOT / "memory" / inside, _ROOT / "memory"]
    return [path for path in found if (path / "cgroup.procs").exists()]


def _remove_stale(parent: Path) -> None:
    """Groups of workers that were killed."""
    for path in parent.glob(f"{_PREFIX}*"):
        pid = path.name.removeprefix(_PREFIX)
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            with suppress(OSError):
                path.rmdir()


def measure(processes: Sequence[Use], at_most: int) -> int:
    """Bytes that processes have in memory together, exactly only if they may be more than `at_most`.

    What processes share is counted once: each has its share of it.
    """
    if sum(process.resident for process in processes) <= at_most:
        return 0
    return sum(_proportional(process.pid) for process in processes)


def _proportional(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            found = re.search(r"^Pss:\s+(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0

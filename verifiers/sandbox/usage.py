"""What a process and all that it started use, as the kernel tells."""

from __future__ import annotations

import os
from typing import NamedTuple

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_UTIME, _CUTIME, _RSS = 11, 13, 21  # in /proc/PID/stat, behind the name


class Use(NamedTuple):
    """Of one process: bytes in memory, and seconds of processor time, also with those of its children that ended."""

    pid: int
    resident: int
    seconds: float
    seconds_with_ended: float


def tree(pid: int) -> list[int]:
    """A process and all that it started and that are still there."""
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        found.append(current)
        for thread in threads(current):
            todo += map(int, _read(f"/proc/{current}/task/{thread}/children").split())
    return found


def first_child(pid: int) -> int | None:
    """The oldest process that the first thread of `pid` started and that is still there."""
    children = _read(f"/proc/{pid}/task/{pid}/children").split(None, 1)
    return int(children[0]) if children else None


def uses(pid: int) -> list[Use]:
    """Of the whole tree of `pid`."""
    found = []
    for process in tree(pid):
        fields = _read(f"/proc/{process}/stat").rpartition(b")")[2].split()
        if fields:  # it has not ended just now
            own, ended = (sum(map(int, fields[at : at + 2])) / _TICKS_A_SECOND for at in (_UTIME, _CUTIME))
            found.append(Use(process, int(fields[_RSS]) * _PAGE, own, own + ended))
    return found


def longest_wait(pid: int) -> float:
    """Seconds that a thread in the tree of `pid` has waited for a processor, of the one that waited most."""
    waits = [0.0]
    for process in tree(pid):
        for thread in threads(process):
            fields = _read(f"/proc/{process}/task/{thread}/schedstat").split()
            waits += [int(fields[1]) / 1e9] if fields else []
    return max(waits)


def threads(pid: int) -> list[str]:
    """Of one process."""
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _read(path: str) -> bytes:
    """A small file, or nothing if its process has gone. Opened by hand, for speed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(fd)

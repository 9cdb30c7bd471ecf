"""What a process and all that it started have used, as the kernel tells."""

from __future__ import annotations

import os
from contextlib import suppress


def tree(pid: int) -> list[int]:
    """A process and all that it started and that are still there."""
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        found.append(current)
        for thread in _threads(current):
            with suppress(OSError), open(f"/proc/{current}/task/{thread}/children") as file:
                todo += map(int, file.read().split())
    return found


def processor_time(pid: int) -> tuple[float, float]:
    """Seconds that the tree of `pid` used, and the most that one of its threads waited for a processor."""
    used = waited = 0.0
    for process in tree(pid):
        with suppress(OSError, IndexError), open(f"/proc/{process}/stat") as file:
            used += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))  # also of what has ended
        for thread in _threads(process):
            with suppress(OSError, IndexError), open(f"/proc/{process}/task/{thread}/schedstat") as file:
                waited = max(waited, int(file.read().split()[1]) / 1e9)
    return used / os.sysconf("SC_CLK_TCK"), waited


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []

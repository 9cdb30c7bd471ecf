"""How long a test may still take: wall time, fairly counted where many programs share the processors."""

from __future__ import annotations

import time

from verifiers.sandbox.usage import processor_time

_FIRST_LOOK_S = 0.2
"""Tests that take less cost no look at what they used."""
_MOST = 2.0
_ENOUGH_S = 0.01


class Deadline:
    """`seconds` of wall time. With a process id, what its processes waited for a processor is given back.

    That is so up to twice the time. A program that had a processor for `seconds`, or slept, has had its time, so on a
    machine with nothing else to do this is plain wall time, and many processes of a program gain it nothing.
    """

    def __init__(self, seconds: float, pid: int | None = None) -> None:
        started = time.monotonic()
        self._pid = pid
        self._end = started + seconds
        self._last = started + seconds * _MOST
        self._look = started + min(_FIRST_LOOK_S, seconds / 2)
        self._owed = seconds
        self._before: tuple[float, float] | None = None
        self._expired = False

    def next(self, now: float) -> float:
        """When to ask again. At or before `now`: the time is up."""
        if self._pid is None:
            return self._end
        if self._before is None:
            if now < self._look:
                return self._look
            self._before = processor_time(self._pid)
            self._look = now
            self._owed = self._end - now
        if self._end <= now < self._last:
            used, waited = (new - old for new, old in zip(processor_time(self._pid), self._before, strict=True))
            missing = self._owed - max(used, now - self._look - waited)
            if missing > _ENOUGH_S:
                self._end = min(now + missing, self._last)
        return self._end

    def is_over(self) -> bool:
        """Whether it was already so the last time: what came just in time is then taken in before the end."""
        before, self._expired = self._expired, True
        return before

"""How long a test may still take: wall time, and where verdicts are to be the same everywhere, fairly counted.

The limit is plain wall time on a machine with nothing else to do. Elsewhere a fair deadline gives a test back what it
has to wait for a processor, so that no right program is too slow because others are busy:

- It is over when it has had its limit: in processor time of all its processes, or in time that it did not wait for one.
  So a program that sleeps, or that had a processor all the time, gets no more than the limit.
- After twice the limit, 0.6 of it is enough. A program that spins on a crowded machine is not paid for in full.
- After five times the limit it is over in any case.

Thus a program that needs no more than 0.6 of its limit passes wherever an eighth of a processor is left for it, with
any number of workers, and the verdict on one that needs more than its limit is the same everywhere.

A deadline that is not fair gives nothing back, so that nobody waits for a test for longer than its limit.
"""

from __future__ import annotations

import time

from verifiers.sandbox.usage import longest_wait, uses

_FIRST_LOOK_S = 0.2
"""Tests that take less cost no look at what they used."""
_FULL, _PROMISED = (1.0, 2.0), (0.6, 5.0)
"""What share of its limit a test is to have, and until how many times the limit it is waited for."""
_ENOUGH_S = 0.01
_NEARLY = 0.9
"""A test that has had so much of its limit lacked nothing."""


class Deadline:
    """`seconds` of wall time. With a process id, what it waits for a processor is known, and given back if `fair`."""

    def __init__(self, seconds: float, pid: int | None = None, *, fair: bool = True) -> None:
        self._started = time.monotonic()
        self._seconds = seconds
        self._pid, self._fair = pid, fair
        self._end = self._started + seconds
        self._look = self._started + min(_FIRST_LOOK_S, seconds / 2)
        self._before: tuple[float, float] | None = None
        self._had_at_look = 0.0
        self._expired = False

    def next(self, now: float) -> float:
        """When to ask again. At or before `now`: the time is up."""
        if self._pid is None:
            return self._end
        if self._before is None:
            if now < self._look:
                return self._look
            self._before = used, waited = self._counts()
            self._look = now
            self._had_at_look = min(now - self._started, max(used, now - self._started - waited))
        if self._end <= now and self._fair:
            self._end = self._later(now, self._had(now))
        return self._end

    def lacked(self) -> float | None:
        """Seconds of its time that the test has waited for a processor, if that is much of its limit."""
        if self._before is None:
            return None
        now = time.monotonic()
        had = self._had(now)
        return now - self._started - had if had < _NEARLY * self._seconds else None

    def _had(self, now: float) -> float:
        """Seconds that the test has had."""
        assert self._before is not None
        used, waited = (new - old for new, old in zip(self._counts(), self._before, strict=True))
        return self._had_at_look + max(used, now - self._look - waited)

    def _counts(self) -> tuple[float, float]:
        """Seconds that the program used, and that it waited for a processor, since it began."""
        assert self._pid is not None
        return sum(use.seconds_with_ended for use in uses(self._pid)), longest_wait(self._pid)

    def _later(self, now: float, had: float) -> float:
        """When the test may have had enough, at the earliest. The end as it was if that is now."""
        for share, most in (_FULL, _PROMISED):
            last = self._started + most * self._seconds
            missing = share * self._seconds - had
            if missing <= _ENOUGH_S:
                return self._end
            if now < last:
                return min(now + missing, last)
        return self._end

    def is_over(self) -> bool:
        """Whether it was already so the last time: what came just in time is then taken in before the end."""
        before, self._expired = self._expired, True
        return before

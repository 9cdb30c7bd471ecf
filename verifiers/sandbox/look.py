"""A program that runs, looked at from time to time: its memory, its processor time, and what follows from them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from verifiers.sandbox import hopeless, memory
from verifiers.sandbox.deadline import Deadline
from verifiers.sandbox.tier import Tier
from verifiers.sandbox.usage import Use, first_child, threads, uses

_TICK_S, _LONGEST_TICK_S = 0.03, 0.25
_FIRST_QUESTION_S = 0.02
"""Of processor time: what uses more may be in a loop without end."""
_LOWEST_PRIORITY = 19


class Look:
    """Looks often while the program does anything, else seldom. `next` is when to take the next look.

    `gives_way` is called when nobody need wait for the program any more: it has taken no processor for a while, or in
    one test more than `patience_s` of processor time (None: it may have all it wants), and then gets the lowest
    priority. `needed_s` is the most processor time that a test was seen to take.
    """

    def __init__(
        self, pid: int, tier: Tier, at_most: int, patience_s: float | None, gives_way: Callable[[], None]
    ) -> None:
        self._pid, self._tier, self._at_most = pid, tier, at_most
        self._patience_s, self._gives_way = patience_s, gives_way
        self.next = time.monotonic() + _TICK_S
        self.needed_s = 0.0
        self._tick, self._used = _TICK_S, 0.0
        self._test: Deadline | None = None
        self._used_before = 0.0
        self._next_question_s = _FIRST_QUESTION_S
        self._is_low = False
        self._lowered: set[int] = set()

    def takes_too_much(self, test: Deadline) -> bool:
        """Look now, in a test that has this deadline. Whether the program has more memory than `at_most` bytes."""
        processes = uses(self._pid)
        if memory.measure(processes, self._at_most) > self._at_most:
            return True
        self._ask_for_hope(processes)
        used = sum(use.seconds_with_ended for use in processes)
        before, self._tick = self._tick, _TICK_S if used != self._used else min(2 * self._tick, _LONGEST_TICK_S)
        if before < self._tick == _LONGEST_TICK_S:
            self._gives_way()
        if test is not self._test:
            self._test, self._used_before = test, self._used
        self._used = used
        self.needed_s = max(self.needed_s, used - self._used_before)
        if self._patience_s is not None and used - self._used_before >= self._patience_s:
            self._is_low = True
            self._gives_way()
        if self._is_low:
            self._lower(processes)
        self.next = time.monotonic() + self._tick
        return False

    def _ask_for_hope(self, processes: Sequence[Use]) -> None:
        """Have the program look whether its loop can ever end, again each time that it has used twice as much."""
        program = first_child(self._pid) if self._tier is Tier.FULL else self._pid
        for process in processes:
            if process.pid == program and process.seconds >= self._next_question_s:
                self._next_question_s *= 2
                with suppress(OSError):  # it may have ended just now
                    os.kill(process.pid, hopeless.SIGNAL)

    def _lower(self, processes: Sequence[Use]) -> None:
        """Let all others go first. What these start inherits it, and what was missed is there at the next look."""
        for process in processes:
            for thread in threads(process.pid):
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, int(thread), _LOWEST_PRIORITY)
            if process.pid not in self._lowered and _lower_session(process.pid):
                self._lowered.add(process.pid)


def _lower_session(pid: int) -> bool:
    """Where the kernel shares processors by sessions first (autogroup), a priority counts only within one.

    False: the kernel takes no more now, from a plain user ten in a second.
    """
    try:
        if os.getsid(pid) != os.getsid(0):  # never our own
            with open(f"/proc/{pid}/autogroup", "w") as file:
                file.write(str(_LOWEST_PRIORITY))
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True

"""Thinking that goes round in circles."""

from __future__ import annotations

from collections.abc import Sequence

WINDOW = 512
LONGEST_PERIOD = 64


def ends_in_loop(thinking: Sequence[int]) -> bool:
    """Whether the last `WINDOW` ids repeat a cycle of at most `LONGEST_PERIOD` ids exactly."""
    tail = thinking[-WINDOW:]
    if len(tail) < WINDOW:
        return False
    return any(tail[period:] == tail[:-period] for period in range(1, LONGEST_PERIOD + 1))

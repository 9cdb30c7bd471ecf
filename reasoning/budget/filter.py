"""Stops a trace that loses confidence, at the same places and by the same number as a replay of stored traces."""

from __future__ import annotations

from dataclasses import dataclass

from reasoning.budget.confidence import thinking_confidence
from reasoning.budget.drawing import is_below
from reasoning.budget.rows import of_thinking
from reasoning.budget.trace import Trace


@dataclass(slots=True)
class Bar:
    """The confidence that a trace must keep, looked at where it crosses one of `limits`, ascending thinking tokens."""

    confidence: float
    limits: list[int]

    def first_below(self, trace: Trace) -> Trace | None:
        """The trace up to the first limit that it crossed with too little confidence. No limit is looked at twice."""
        while self.limits and trace.thinking > self.limits[0]:
            cut = trace.cut(self.limits.pop(0))
            if is_below(thinking_confidence(of_thinking(cut)), self.confidence):
                return cut
        return None

"""When the tokens of a sample arrived, of which an engine that profiles tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reasoning.budget.trace import Trace


@dataclass(slots=True)
class Moments:
    """Seconds since the sample's first request; None: not yet, or not known."""

    requested_s: float = 0.0  # when the request that runs was made
    first_s: float | None = None  # the first token of any kind
    answer_s: float | None = None  # the first token of the answer, or the end of an empty one
    _answer_start: int = -1  # of the answer that `answer_s` is of: a section that opens again makes another one

    def note(self, trace: Trace, before: int, times: Sequence[float]) -> None:
        """Book the times of new ids, the first of which became number `before` of the trace."""
        if self.first_s is None:
            self.first_s = self.requested_s + times[0]
        place = max(trace.answer_start - before, 0)
        if not trace.inside and trace.answer_start != self._answer_start and place < len(times):
            self._answer_start, self.answer_s = trace.answer_start, self.requested_s + times[place]

"""The ids of one sample as they arrive, split into thinking and the rest: a pure state machine.

Ids are settled run by run, so that what happens does not depend on how many arrive at once: a run of thinking, a run
of anything else, or a marker. Ids that may be the beginning of a marker stay unsettled until more ids tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from math import nan

from reasoning.prompts import Ids, ThinkMarkers, find
from reasoning.types import Span


class Event(Enum):
    """What was settled."""

    THOUGHT = auto()  # a run of thinking
    SPOKE = auto()  # a run outside of thinking
    OPENED = auto()
    CLOSED = auto()


@dataclass(slots=True)
class Trace:
    """Ids after the prompt, and where their think sections are.

    `allowance` is how many more tokens may be written outside of thinking; when it is used up, the ids end. The markers
    of the first section are free, a section that is opened again pays for its markers: so no sample can write without
    end. An opening marker inside thinking and a closing one outside of it are ordinary ids.
    """

    markers: ThinkMarkers
    inside: bool  # thinking
    allowance: int
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)  # one an id; NaN: injected, or the engine gives none
    sections: list[Span] = field(default_factory=list)  # in order; the last one is growing while `inside`
    injected: list[Span] = field(default_factory=list)
    thinking: int = 0  # settled thinking tokens
    answer_start: int = 0  # behind the last closing marker; meaningless while `inside`
    reopened: bool = False
    settled: int = 0  # ids of which it is known what they are

    def __post_init__(self) -> None:
        if self.inside and not self.sections:
            self.sections.append((0, 0))

    @property
    def capped(self) -> bool:
        return self.allowance <= 0

    def extend(self, ids: Ids, logprobs: Sequence[float] = ()) -> None:
        """Add ids that the model sampled."""
        self.ids.extend(ids)
        self.logprobs.extend(logprobs or (nan,) * len(ids))

    def advance(self, final: bool = False) -> Event | None:
        """Settle the next run or marker. None: nothing more can be told, or, when `final`, nothing is left."""
        if self.capped:
            return None
        marker = self.markers.close_ids if self.inside else self.markers.open_ids
        start = self.settled
        end = find(self.ids, marker, start)
        if end == start:
            return self._close() if self.inside else self._open()
        if end < 0:
            end = len(self.ids) - (0 if final else _begun(self.ids, marker, start))
        if end == start:
            return None
        self.settled = end
        if self.inside:
            self._think(end - start)
            return Event.THOUGHT
        self.allowance -= end - start
        if self.capped:
            self._truncate(end + self.allowance)
        return Event.SPOKE

    def cut(self, thinking: int) -> Trace:
        """A copy that ends right before thinking token number `thinking`, counted from 0, of the section that grows."""
        start, end = self.sections[-1]
        at = end - (self.thinking - thinking)
        return replace(
            self,
            ids=self.ids[:at],
            logprobs=self.logprobs[:at],
            sections=[*self.sections[:-1], (start, at)],
            injected=[(first, min(last, at)) for first, last in self.injected if first < at],
            thinking=thinking,
            settled=at,
        )

    def inject_closing(self, closing: Ids) -> None:
        """End the thinking by ids that hold the closing marker; what they hold behind it begins the answer."""
        start = len(self.ids)
        self.answer_start = start + find(closing, self.markers.close_ids) + len(self.markers.close_ids)
        self._inject(closing)
        self.inside = False

    def inject_wait(self, wait: Ids) -> None:
        """Take back the closing marker that was just settled, and all behind it; the thinking goes on with `wait`."""
        del self.ids[self.sections[-1][1] :]
        del self.logprobs[len(self.ids) :]
        self._inject(wait)
        self._think(len(wait))
        self.inside = True

    def drop_section(self) -> None:
        """Take back the section that grows, its opening marker included: the text ends before it."""
        start, end = self.sections.pop()
        self.thinking -= end - start
        self.inside = False
        self._truncate(start - len(self.markers.open_ids))

    def _open(self) -> Event:
        if self.sections:
            self.reopened = True
            self.allowance -= len(self.markers.open_ids) + len(self.markers.close_ids)
            if self.capped:
                self._truncate(self.settled)
                return Event.SPOKE
        self.settled += len(self.markers.open_ids)
        self.sections.append((self.settled, self.settled))
        self.inside = True
        return Event.OPENED

    def _close(self) -> Event:
        self.settled += len(self.markers.close_ids)
        self.answer_start = self.settled
        self.inside = False
        return Event.CLOSED

    def _think(self, tokens: int) -> None:
        start, end = self.sections[-1]
        self.sections[-1] = (start, end + tokens)
        self.thinking += tokens

    def _truncate(self, at: int) -> None:
        del self.ids[at:]
        del self.logprobs[at:]
        self.settled = at

    def _inject(self, ids: Ids) -> None:
        start = len(self.ids)
        self.extend(ids)
        self.settled = len(self.ids)
        self.injected.append((start, self.settled))


def _begun(ids: list[int], marker: Ids, start: int) -> int:
    """Length of the longest beginning of `marker`, short of all of it, that the ids from `start` on end in."""
    for length in range(min(len(marker) - 1, len(ids) - start), 0, -1):
        if tuple(ids[-length:]) == marker[:length]:
            return length
    return 0

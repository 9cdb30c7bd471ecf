"""Which samples of a task to draw next: policies that see what was drawn so far, and nothing else.

The same rules draw samples while a run is sampled (`reasoning.online`) and are replayed on stored samples
(`eval.policies`), so that both draw the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class DrawRule(Protocol):
    """Whether to stop drawing samples, from the labels of those drawn so far; None: no answer.

    More votes for the leader never make a rule go on longer than other votes would.
    """

    def __call__(self, labels: Sequence[str | None]) -> bool: ...


@dataclass(frozen=True, slots=True)
class AdaptiveShare:
    """Draw 2, 4, 8 ... samples until the leader has a share of the answers (its_hub's Adaptive-SC)."""

    share: float

    def __call__(self, labels: Sequence[str | None]) -> bool:
        drawn = len(labels)
        if drawn < 2 or drawn & (drawn - 1):
            return False
        votes = Counter(label for label in labels if label is not None)
        return bool(votes) and max(votes.values()) >= self.share * drawn


@dataclass(frozen=True, slots=True)
class BetaStop:
    """Draw until the leader stays ahead of the runner-up with a probability.

    P(p > 1/2) where p, the leader's share of the two, is Beta(v1 + 1, v2 + 1) (P. Aggarwal et al., Let's Sample Step by
    Step: Adaptive-Consistency, 2023, equation 4).
    """

    probability: float

    def __call__(self, labels: Sequence[str | None]) -> bool:
        from scipy.special import betainc

        votes = Counter(label for label in labels if label is not None).most_common(2)
        if not votes:
            return False
        first, second = votes[0][1], votes[1][1] if len(votes) > 1 else 0
        return bool(betainc(second + 1, first + 1, 0.5) >= self.probability)


def surely_drawn(rule: DrawRule, labels: Sequence[str | None], most: int) -> int:
    """How many more samples `rule` draws whatever they answer, up to `most` in all; 0: it stops here.

    No answers let it stop sooner than those that agree with the leader. So these can be drawn together, and none of
    them is one that drawing them one by one would have saved.
    """
    votes = Counter(label for label in labels if label is not None).most_common(1)
    leader = votes[0][0] if votes else "an answer"
    left = max(most - len(labels), 0)
    stops = (more for more in range(left) if labels or more if rule([*labels, *[leader] * more]))
    return next(stops, left)


def confidence_bar(warmup: Sequence[float | None], keep: float) -> float:
    """The confidence that a share `keep` of the warm-up traces reached; -inf where none is known."""
    known = sorted(value for value in warmup if value is not None)
    # Rounding up keeps one at least.
    return known[-math.ceil(keep * len(known))] if known else -math.inf


def is_below(confidence: float | None, bar: float) -> bool:
    return confidence is not None and confidence < bar


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a finished sample tells a policy."""

    label: str | None  # which answer it gave; None: none could be read
    confidence: float | None = None  # of its thinking, in nats, if the engine gave log-probabilities


@dataclass(frozen=True, slots=True)
class Draw:
    """A sample to draw: its number within its task, from 0, and the thinking tokens that it may spend.

    With a `bar` it is stopped, without an answer, at the first budget of the run by which its confidence is below it.
    """

    number: int
    budget: int
    bar: float | None = None


class DrawPolicy(Protocol):
    """Asks for the samples of a task round by round. A round begins when all samples before it are there."""

    def most(self, task_id: str) -> int:
        """Samples of the task at most."""
        ...

    def next_round(self, task_id: str, drawn: Sequence[Drawn]) -> Sequence[Draw]:
        """What to draw after `drawn`, the samples 0, 1, 2 ... of the task; nothing: it is decided."""
        ...


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Samples until `rule` stops, `samples` at most. Those that it surely draws are drawn together."""

    rule: DrawRule
    budget: int
    samples: int

    def most(self, task_id: str) -> int:
        return self.samples

    def next_round(self, task_id: str, drawn: Sequence[Drawn]) -> Sequence[Draw]:
        more = surely_drawn(self.rule, [sample.label for sample in drawn], self.samples)
        return [Draw(len(drawn) + place, self.budget) for place in range(more)]


@dataclass(frozen=True, slots=True)
class Filter:
    """`warmup` samples that think to their end, then the others, each stopped where it falls below their bar."""

    keep: float
    warmup: int
    budget: int
    samples: int

    def most(self, task_id: str) -> int:
        return self.samples

    def next_round(self, task_id: str, drawn: Sequence[Drawn]) -> Sequence[Draw]:
        if not drawn:
            return [Draw(number, self.budget) for number in range(self.warmup)]
        bar = confidence_bar([sample.confidence for sample in drawn[: self.warmup]], self.keep)
        return [Draw(number, self.budget, bar) for number in range(len(drawn), self.samples)]


@dataclass(frozen=True, slots=True)
class Allocation:
    """A budget and a number of samples for each task, chosen before."""

    cells: Mapping[str, tuple[int, int]]

    def most(self, task_id: str) -> int:
        return self.cells[task_id][1]

    def next_round(self, task_id: str, drawn: Sequence[Drawn]) -> Sequence[Draw]:
        budget, samples = self.cells[task_id]
        return [Draw(number, budget) for number in range(len(drawn), samples)]


def owed_draws(policy: DrawPolicy, task_id: str, finished: Mapping[int, Drawn]) -> list[Draw]:
    """What is missing of the first round that is not complete, from the finished samples by number.

    A run that is continued asks this as one that goes on does: both come to the same rounds.
    """
    drawn: list[Drawn] = []
    while draws := policy.next_round(task_id, drawn):
        missing = [draw for draw in draws if draw.number not in finished]
        if missing:
            return missing
        drawn += [finished[draw.number] for draw in draws]
    return []

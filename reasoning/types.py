"""The values that flow through training and evaluation.

Frozen dataclasses, no behaviour beyond reading themselves. Times are seconds, lengths are tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

NO_LIMIT = 2**31 - 1
"""The budget written `none`: thinking is bounded by the context alone."""

Span = tuple[int, int]
"""Half-open range [start, end) of indices into `Generation.completion_ids`."""


@dataclass(frozen=True, slots=True)
class Task:
    """One problem with a reference answer.

    `prompt` is a chat: messages with the keys `role` and `content`. `verifier` names an entry of
    `verifiers.VERIFIERS`. `meta` holds what that verifier needs beyond the reference.
    """

    id: str
    prompt: tuple[Mapping[str, str], ...]
    reference: str
    verifier: str
    level: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class SampleKey:
    """Identity of one graded sample, and the key of every join between files."""

    task_id: str
    sample: int
    budget: int


class FinishReason(StrEnum):
    """How a generation ended."""

    ANSWERED = "answered"  # end of text after the thinking was closed
    ANSWER_LENGTH = "answer_length"  # the answer reached its cap
    REOPENED = "reopened"  # a forced answer opened a think section again, and ended there: its thinking was spent
    UNCLOSED = "unclosed"  # the model ended its text inside its thinking
    CUT = "cut"  # the budget ended the thinking and no answer was asked for (closing `none`)
    ERROR = "error"  # the engine failed: a missing sample, never a wrong one


@dataclass(frozen=True, slots=True)
class Timings:
    """Wall-clock durations of the requests behind a generation, in seconds; preemptions, and what these cost.

    An aborted request never says how long it was queued nor how often it was preempted: a trace cut at its largest
    budget, or taken up again with "Wait". `preemptions` and `recomputed_tokens` leave those out; the engine's own
    totals have them.

    `sample_first_s` and `sample_answer_s` are known of runs that were profiled, else None.
    """

    queued_s: float = 0.0
    first_token_s: float = 0.0  # arrival of the request to its first token
    total_s: float = 0.0  # arrival of the first request to the last token
    preemptions: int = 0
    recomputed_tokens: int = 0
    sample_first_s: float | None = None  # arrival of the first request to the first token of any kind
    sample_answer_s: float | None = None  # likewise to the first sampled token of the answer


@dataclass(frozen=True, slots=True)
class Generation:
    """What the model wrote for one sample at one budget; it never knows whether it is right.

    `completion_ids` is everything after the prompt. `thinking` and `injected` are spans of it: thinking lies
    strictly between an opening and a closing marker, over all think sections; injected ids were put there
    by the harness (closing text, "Wait"), not sampled. `answer_start` is where the answer begins.
    """

    key: SampleKey
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    thinking: tuple[Span, ...]
    injected: tuple[Span, ...]
    answer_start: int | None  # None: the thinking never closed, there is no answer
    text: str  # the completion decoded, special tokens shown: for people to read
    answer_text: str  # the answer decoded, special tokens left out: what the verifier sees
    finish_reason: FinishReason
    bound: bool  # the budget cut the thinking short
    forced: bool  # the answer follows an injected closing
    escaped: bool  # the answer reached its cap, opened a think section again or closed one a second time
    looped: bool  # the thinking ended in a repeated cycle
    waits: int  # times that "Wait" was injected
    seed: int
    decoded_tokens: int  # sampled by the engine for this row alone, thrown-away ones included
    cached_tokens: int  # prompt tokens of the requests behind it found in the prefix cache
    timings: Timings = field(default_factory=Timings)
    error: str | None = None
    stopped: bool = False  # a policy ended the thinking, at this budget or a smaller one
    probe_tokens: int = 0  # answers that a policy asked for at smaller budgets
    answer_confidence: float | None = (
        None  # mean probability of the answer's tokens, if the run stores log-probabilities
    )
    thinking_confidence: float | None = None  # the lowest mean log-probability of a stretch of the thinking, likewise
    # In nats, one a completion id, NaN where none is known; empty unless the controller was asked to keep them.
    logprobs: tuple[float, ...] = field(default=(), compare=False, repr=False)

    @property
    def thinking_tokens(self) -> int:
        """Tokens that count against the budget."""
        return sum(end - start for start, end in self.thinking)

    @property
    def injected_tokens(self) -> int:
        return sum(end - start for start, end in self.injected)

    @property
    def injected_thinking(self) -> int:
        """Of the thinking tokens, those that were injected."""
        return sum(_overlap(span, section) for span in self.injected for section in self.thinking)

    @property
    def injected_answer(self) -> int:
        """Of the answer tokens, those that were injected."""
        if self.answer_start is None:
            return 0
        return sum(_overlap(span, (self.answer_start, len(self.completion_ids))) for span in self.injected)

    @property
    def answer_tokens(self) -> int:
        return 0 if self.answer_start is None else len(self.completion_ids) - self.answer_start


def _overlap(one: Span, other: Span) -> int:
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Accuracy at one budget, with its denominator and everything that could explain it away.

    `low` and `high` bound the 95 % interval of this point alone; `band_low` and `band_high` bound a band that holds the
    whole curve with 95 %. Shares are of `n_samples`. Samples that the engine failed to produce are in `n_missing` and
    in no rate.
    """

    model: str
    task_set: str
    method: str
    vote: str
    budget: int
    n_tasks: int
    n_samples: int
    n_missing: int
    accuracy: float
    low: float
    high: float
    band_low: float
    band_high: float
    interval: str  # how the interval was made: wilson, or none without any sample
    tokens_mean: float
    tokens_median: float
    tokens_p95: float
    thinking_mean: float
    answer_mean: float
    bound_share: float
    no_answer_share: float
    escaped_share: float
    looped_share: float
    wrong_share: float
    finished_wrong_share: float  # closed its thinking by itself and was wrong
    verifier_failed_share: float  # timeout or error of the verifier
    pass_at: Mapping[str, float] = field(default_factory=dict)
    majority_at: Mapping[str, float] = field(default_factory=dict)
    statuses: Mapping[str, int] = field(default_factory=dict)  # correct, wrong ... and missing: adds up to all samples
    finish_reasons: Mapping[str, int] = field(default_factory=dict)  # likewise, missing samples as error

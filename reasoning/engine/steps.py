"""What each step of the engine held and how long it took, kept as columns of whole numbers.

A step costs a few microseconds to note: its batch is one look at what the scheduler planned, not a loop over tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

COLUMNS = ("microseconds", "batch", "context", "prompts", "prefill")


class ScheduledRequests(Protocol):
    num_computed_tokens: list[int]  # one a request that ran before


class ScheduledRequest(Protocol):
    num_computed_tokens: int


class Scheduled(Protocol):
    """What is read of vLLM's `SchedulerOutput`: the plan of one step."""

    scheduled_new_reqs: Iterable[ScheduledRequest]
    scheduled_cached_reqs: ScheduledRequests
    num_scheduled_tokens: Mapping[str, int]
    total_num_scheduled_tokens: int


@dataclass(slots=True)
class Steps:
    """Steps of an engine in order, one entry a step in every column."""

    microseconds: list[int] = field(default_factory=list)
    """From the end of the step before, or from when there was work again, to the end of this one."""
    batch: list[int] = field(default_factory=list)
    """Requests that ran in it."""
    context: list[int] = field(default_factory=list)
    """Tokens before it, summed over these requests."""
    prompts: list[int] = field(default_factory=list)
    """Of these requests, those that a piece of the prompt was computed of."""
    prefill: list[int] = field(default_factory=list)
    """Tokens of prompts among those computed in it, recomputed ones of preempted requests included."""

    def __len__(self) -> int:
        return len(self.batch)

    def as_columns(self) -> dict[str, list[int]]:
        return {name: getattr(self, name) for name in COLUMNS}

    def append(self, seconds: float, batch: int, context: int, prompts: int, prefill: int) -> None:
        self.microseconds.append(round(seconds * 1e6))
        self.batch.append(batch)
        self.context.append(context)
        self.prompts.append(prompts)
        self.prefill.append(prefill)


class StepWatch:
    """Notes the steps of a vLLM scheduler. Times are of one clock, in seconds.

    The time of a step ends where the next one begins, so that it holds what the host does between them, and so that it
    is right when the next step is scheduled while this one still runs.
    """

    def __init__(self, scheduler: Any) -> None:
        self._steps = Steps()
        self._finished: Scheduled | None = None
        self._before: float | None = None  # when the step before ended; None: there was no work
        book = scheduler.update_from_output

        def update_from_output(scheduled: Scheduled, *results: Any) -> Any:
            self._finished = scheduled
            return book(scheduled, *results)

        scheduler.update_from_output = update_from_output

    def note(self, start: float, end: float) -> None:
        """The engine was run from `start` to `end`: one step has finished in it, or none."""
        before = start if self._before is None else self._before
        scheduled, self._finished = self._finished, None
        if scheduled is None or not scheduled.total_num_scheduled_tokens:
            self._before = before
            return
        tokens = scheduled.num_scheduled_tokens
        prefill: list[int] = []
        if scheduled.total_num_scheduled_tokens > len(tokens):  # a request that decodes computes one token
            prefill = [n for n in tokens.values() if n > 1]
        context = sum(scheduled.scheduled_cached_reqs.num_computed_tokens)
        context += sum(request.num_computed_tokens for request in scheduled.scheduled_new_reqs)
        self._steps.append(end - before, len(tokens), context, len(prefill), sum(prefill))
        self._before = end

    def rest(self) -> None:
        """Nothing is left to do: the time until there is belongs to no step."""
        self._before = None

    def take(self) -> Steps:
        """The steps since the last call."""
        steps, self._steps = self._steps, Steps()
        return steps

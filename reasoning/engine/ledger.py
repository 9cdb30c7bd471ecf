"""From the ids of each step of vLLM's core to outputs: what is pending, how long it took, what it cost.

The loop of `Ledger.collect` is all that runs per request and step, so that a step of hundreds of requests
costs microseconds. Times are seconds of the monotonic clock, as vLLM's own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

from reasoning.engine.base import Output, RequestTimings, StopReason

STOP_REASONS = {"stop": StopReason.STOP, "length": StopReason.LENGTH}


class CoreEvent(Protocol):
    """Something that happened to a request in the scheduler: `type.name` is QUEUED, SCHEDULED or PREEMPTED."""

    type: Enum
    timestamp: float


class PrefillStats(Protocol):
    num_prompt_tokens: int
    num_cached_tokens: int


class CoreOutput(Protocol):
    """What is read of vLLM's `EngineCoreOutput`: one request in one step."""

    request_id: str
    new_token_ids: list[int]
    finish_reason: object | None  # prints as "stop", "length" and others
    events: list[CoreEvent] | None  # since the request's last output
    prefill_stats: PrefillStats | None  # with the first ids
    new_logprobs: Any  # LogprobsLists, the sampled token in its first column; None unless asked for


@dataclass(slots=True)
class Entry:
    """A request inside the engine."""

    id: str
    flush_at: int  # pending ids that make an output
    added: float
    pending: list[int] = field(default_factory=list)
    pending_logprobs: list[float] = field(default_factory=list)
    pending_times: list[float] = field(default_factory=list)
    pending_cached: int = 0  # cached tokens of the prompt that no output told yet
    scheduled: float | None = None
    first_token: float | None = None
    preemptions: int = 0
    recomputed_tokens: int = 0

    def flush(self) -> Output:
        """What is pending, as an output of a request that goes on."""
        output = Output(
            self.id,
            tuple(self.pending),
            finished=False,
            cached_tokens=self.pending_cached,
            logprobs=tuple(self.pending_logprobs),
            times=tuple(self.pending_times),
        )
        self.pending, self.pending_logprobs, self.pending_times, self.pending_cached = [], [], [], 0
        return output

    def timings(self, now: float) -> RequestTimings:
        return RequestTimings(
            queued_s=0.0 if self.scheduled is None else self.scheduled - self.added,
            first_token_s=0.0 if self.first_token is None else self.first_token - self.added,
            total_s=now - self.added,
            preemptions=self.preemptions,
            recomputed_tokens=self.recomputed_tokens,
        )


class Ledger:
    """The requests inside the engine, and totals over all there ever were, aborted ones included."""

    def __init__(self, logprobs: bool = False, times: bool = False) -> None:
        self._logprobs = logprobs
        self._times = times
        self.preemptions = 0
        self.recomputed_tokens = 0
        self.cached_tokens = 0
        self.prompt_tokens = 0
        self.generated_tokens = 0
        self._entries: dict[str, Entry] = {}  # by the core's id
        self._core_ids: dict[str, str] = {}  # by the request's id
        self._opened = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._core_ids

    def new_core_id(self, request_id: str) -> str:
        """A name for the core, different each time: it may still return ids of an aborted request."""
        self._opened += 1
        return f"{self._opened}:{request_id}"

    def open(self, core_id: str, request_id: str, flush_at: int) -> None:
        self._entries[core_id] = Entry(request_id, flush_at, added=time.monotonic())
        self._core_ids[request_id] = core_id

    def forget(self, request_id: str) -> str | None:
        """The core's id of a request that is no longer wanted; None if there is no such request."""
        core_id = self._core_ids.pop(request_id, None)
        if core_id is not None:
            del self._entries[core_id]
        return core_id

    def book_recomputed(self, core_id: str, tokens: int) -> None:
        """A request was taken up again after a preemption and computes `tokens` of its own a second time."""
        self.recomputed_tokens += tokens
        if core_id in self._entries:
            self._entries[core_id].recomputed_tokens += tokens

    def collect(self, batch: Iterable[CoreOutput], now: float) -> list[Output]:
        """Book the new ids of one step that ended at `now`; outputs of the requests that finished or have enough."""
        outputs = []
        for new in batch:
            self.generated_tokens += len(new.new_token_ids)
            entry = self._entries.get(new.request_id)
            if entry is None:  # aborted while the step ran
                continue
            if new.events is not None:
                self._book_events(entry, new.events)
            if entry.first_token is None:
                self._book_prefill(entry, new, now)
            entry.pending += new.new_token_ids
            if self._logprobs:
                entry.pending_logprobs += new.new_logprobs.logprobs[:, 0].tolist()
            if self._times:
                entry.pending_times += [now - entry.added] * len(new.new_token_ids)
            if new.finish_reason is not None:
                outputs.append(self._close(new.request_id, entry, str(new.finish_reason), now))
            elif len(entry.pending) >= entry.flush_at:
                outputs.append(entry.flush())
        return outputs

    def _book_events(self, entry: Entry, events: Iterable[CoreEvent]) -> None:
        for event in events:
            if event.type.name == "PREEMPTED":
                entry.preemptions += 1
                self.preemptions += 1
            elif event.type.name == "SCHEDULED" and entry.scheduled is None:
                entry.scheduled = event.timestamp

    def _book_prefill(self, entry: Entry, new: CoreOutput, now: float) -> None:
        entry.first_token = now
        if new.prefill_stats is not None:
            entry.pending_cached = new.prefill_stats.num_cached_tokens
            self.cached_tokens += new.prefill_stats.num_cached_tokens
            self.prompt_tokens += new.prefill_stats.num_prompt_tokens

    def _close(self, core_id: str, entry: Entry, reason: str, now: float) -> Output:
        del self._entries[core_id]
        del self._core_ids[entry.id]
        stop_reason = STOP_REASONS.get(reason, StopReason.ERROR)
        return replace(
            entry.flush(),
            finished=True,
            stop_reason=stop_reason,
            timings=entry.timings(now),
            error=f"vLLM ended the request: {reason}" if stop_reason is StopReason.ERROR else None,
        )

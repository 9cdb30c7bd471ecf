"""One trace a sample, forks at every smaller budget, no barrier anywhere.

A sample is generated once, up to its largest budget. Whether it crosses a smaller budget b is known when its thinking
token number b + 1 arrives: then, while the trace goes on, a fork of everything before that token and the closing ids
asks for the answer. A trace that ends by itself after L <= b thinking tokens answers for b at no cost. That is exact,
not an approximation, as long as nothing tells the model its budget: then the beginning of a long run is distributed
as a short run.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reasoning.admission import Admission
from reasoning.budget.early_exit import EarlyExit
from reasoning.budget.filter import Bar
from reasoning.budget.moments import Moments
from reasoning.budget.room import check_room, most_steps, thinking_room, trace_tokens
from reasoning.budget.rows import generation, timings_of
from reasoning.budget.sampling import Sampling, Waits, derive_seed
from reasoning.budget.trace import Event, Trace
from reasoning.budgets import format_budget
from reasoning.engine.base import Engine, Output, Request, StopReason
from reasoning.prompts import Closing, Ids, Rendered, ThinkMarkers
from reasoning.types import FinishReason, Generation, SampleKey

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(slots=True)
class _Sample:
    """A (task, sample) whose trace is waiting or running."""

    task_id: str
    number: int
    prompt_ids: Ids
    trace: Trace
    owed: list[tuple[int, int]]  # (limit in this context, budget) that the trace has not crossed, ascending
    largest: int  # the budget that the trace's tokens are booked on
    max_tokens: int  # of the whole trace
    bar: Bar | None = None
    request_id: str = ""
    seed: int = 0
    started: float = 0.0
    waits: int = 0
    decoded: int = 0
    cached: int = 0
    moments: Moments = field(default_factory=Moments)


@dataclass(slots=True)
class _Fork:
    """The request for the answer of a sample whose thinking a budget cut."""

    sample: _Sample
    budget: int
    trace: Trace
    seed: int


class BudgetController:
    """Drives an engine from submitted samples to one generation a (task, sample, budget).

    `max_answer_tokens` is the answer's cap. Outside of its thinking a sample never writes more, injected ids aside,
    even if it speaks before the thinking or opens it again: prompt, markers, budget, closing and cap are all that the
    context has to hold, and a budget for which it cannot is refused. `NO_LIMIT` is cut where the context ends.

    `concurrency` is how many requests the engine runs at once: traces beyond that wait here, so that a fork never
    queues behind them and finds its prefix still cached; `admission` may hold them back for longer. `early_exit` may
    stop a sample at any of its budgets. `logprobs`: generations keep the log-probabilities of their ids.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: PreTrainedTokenizerBase,
        markers: ThinkMarkers,
        closing: Closing,
        budgets: Sequence[int],
        *,
        max_answer_tokens: int,
        stop_ids: Ids,
        sampling: Sampling,
        seed: int,
        waits: Waits,
        concurrency: int,
        admission: Admission | None = None,
        early_exit: EarlyExit | None = None,
        logprobs: bool = False,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._markers = markers
        self._closing_ids = closing.ids(tokenizer, markers)
        self._budgets = tuple(budgets)
        self._max_answer_tokens = max_answer_tokens
        self._stop_ids = stop_ids
        self._sampling = sampling
        self._seed = seed
        self._wait_limit = waits.times
        self._wait_ids = tuple(tokenizer.encode(waits.text, add_special_tokens=False))
        self._concurrency = concurrency
        self._admission = admission
        self._early_exit = early_exit
        self._logprobs = logprobs
        self._waiting: deque[_Sample] = deque()
        self._traces: dict[str, _Sample] = {}
        self._forks: dict[str, _Fork] = {}
        self._finished: list[Generation] = []
        self._unfinished = 0

    @property
    def unfinished(self) -> int:
        """Generations that were submitted and not yet returned."""
        return self._unfinished

    @property
    def most_steps_left(self) -> int:
        """Engine steps within which all that was submitted ends.

        Without prompts, what preempted requests compute again, and what waits take back.
        """
        places = self._concurrency
        if self._admission is not None:
            places = min(places, self._admission.room)  # as many run whatever their lengths
        samples = [*self._waiting, *self._traces.values()]
        lengths = [sample.max_tokens - len(sample.trace.ids) for sample in samples]
        lengths += [fork.trace.allowance for fork in self._forks.values()]
        forks_to_come = sum(len(sample.owed) - 1 for sample in samples)
        return most_steps(lengths, forks_to_come * [self._max_answer_tokens], places)

    def submit(
        self,
        task_id: str,
        sample: int,
        rendered: Rendered,
        budgets: Sequence[int] | None = None,
        bar: float | None = None,
    ) -> None:
        """Queue a sample for all budgets, or for those still owed.

        With a `bar` it is stopped, without an answer, at the first of all budgets by which the confidence of its
        thinking, in nats, is below it.

        Raises:
            BudgetError: a budget does not fit into the context.
        """
        owed = sorted(set(self._budgets if budgets is None else budgets))
        if not owed:
            return
        context, cap = self._engine.max_model_len, self._max_answer_tokens
        room = thinking_room(context, rendered, self._markers, self._closing_ids, cap)
        check_room(owed, room, context)
        limits = [min(budget, room) for budget in owed]
        self._waiting.append(
            _Sample(
                task_id,
                sample,
                rendered.prompt_ids,
                Trace(self._markers, rendered.starts_open, cap),
                list(zip(limits, owed, strict=True)),
                largest=owed[-1],
                max_tokens=trace_tokens(limits[-1], rendered.starts_open, self._markers, cap),
                bar=None if bar is None else Bar(bar, [min(b, room) for b in self._budgets if 0 < b <= owed[-1]]),
            )
        )
        self._unfinished += len(owed)
        if self._early_exit is not None:
            self._early_exit.expect(task_id, sample, owed)

    def step(self) -> list[Generation]:
        """Run the engine once; the generations that finished. Budgets that share a completion come in the same call."""
        while self._waiting and self._may_start():
            sample = self._waiting.popleft()
            sample.started = time.perf_counter()
            self._request_trace(sample, "trace")
        for output in self._engine.step():
            if (sample := self._traces.get(output.request_id)) is not None:
                self._on_trace(sample, output)
            elif output.finished and (fork := self._forks.pop(output.request_id, None)) is not None:
                self._on_fork(fork, output)
        finished, self._finished = self._finished, []
        self._unfinished -= len(finished)
        return finished

    def abort(self) -> None:
        """Leave nothing running behind; the controller is done with."""
        for request_id in (*self._traces, *self._forks):
            self._engine.abort(request_id)

    def _may_start(self) -> bool:
        unfinished = self._engine.unfinished
        if unfinished >= self._concurrency:
            return False
        return self._admission is None or self._admission(unfinished, self._engine.free_blocks)

    def _request_trace(self, sample: _Sample, purpose: str) -> None:
        """Start the trace, or go on with it after "Wait"."""
        written = tuple(sample.trace.ids)
        sample.moments.requested_s = time.perf_counter() - sample.started
        sample.request_id, sample.seed = self._request(
            sample, purpose, sample.prompt_ids + written, sample.max_tokens - len(written), stream=True
        )
        self._traces[sample.request_id] = sample

    def _request(
        self, sample: _Sample, purpose: str, prompt_ids: Ids, max_tokens: int, *, stream: bool = False
    ) -> tuple[str, int]:
        request_id = f"{sample.task_id}/{sample.number}/{purpose}"
        seed = derive_seed(self._seed, sample.task_id, sample.number, purpose)
        self._engine.add(
            Request(
                id=request_id,
                prompt_ids=prompt_ids,
                max_tokens=max_tokens,
                temperature=self._sampling.temperature,
                top_p=self._sampling.top_p,
                top_k=self._sampling.top_k,
                min_p=self._sampling.min_p,
                seed=seed,
                stop_ids=self._stop_ids,
                stream=stream,
            )
        )
        return request_id, seed

    def _on_trace(self, sample: _Sample, output: Output) -> None:
        trace = sample.trace
        sample.decoded += len(output.new_ids)
        sample.cached += output.cached_tokens
        if output.stop_reason is StopReason.ERROR:
            self._end_trace(sample, output, FinishReason.ERROR)
            return
        stopped = output.stop_reason is StopReason.STOP  # the last id ends the text and is no part of the thinking
        sampled = len(output.new_ids) - stopped
        before = len(trace.ids)
        trace.extend(output.new_ids[:sampled], output.logprobs[:sampled])
        extended = False
        while sample.owed and (event := trace.advance(output.finished)) is not None:
            if event is Event.THOUGHT:
                self._cut(sample)
            elif event is Event.CLOSED and sample.waits < self._wait_limit:
                trace.inject_wait(self._wait_ids)
                sample.waits, extended = sample.waits + 1, True
                self._cut(sample)
        if output.times:
            sample.moments.note(trace, before, output.times)
        if not sample.owed:
            self._forget_trace(sample)
        elif trace.capped:
            self._end_trace(sample, output, FinishReason.ANSWER_LENGTH)
        elif extended:
            self._forget_trace(sample)
            self._request_trace(sample, f"wait:{sample.waits}")
        elif stopped:
            trace.extend(output.new_ids[-1:], output.logprobs[-1:])
            self._end_trace(sample, output, FinishReason.UNCLOSED if trace.inside else FinishReason.ANSWERED)
        elif output.finished:
            error = f"the engine ended a trace after {len(trace.ids):,} of {sample.max_tokens:,} tokens"
            self._end_trace(sample, replace(output, error=error), FinishReason.ERROR)

    def _cut(self, sample: _Sample) -> None:
        """Fork the sample at every budget that its thinking has crossed, or stop it before."""
        if sample.bar is not None and (low := sample.bar.first_below(sample.trace)) is not None:
            budgets = [budget for _, budget in sample.owed]
            sample.owed.clear()
            self._finish(sample, budgets, low, FinishReason.CUT, seed=sample.seed, stopped=True)
        while sample.owed and sample.trace.thinking > sample.owed[0][0]:
            limit, budget = sample.owed.pop(0)
            cut = sample.trace.cut(limit)
            if not self._closing_ids:
                self._finish(sample, [budget], cut, FinishReason.CUT, seed=sample.seed)
                continue
            cut.inject_closing(self._closing_ids)
            purpose = f"fork:{format_budget(budget)}"
            request_id, seed = self._request(sample, purpose, sample.prompt_ids + tuple(cut.ids), cut.allowance)
            self._forks[request_id] = _Fork(sample, budget, cut, seed)

    def _on_fork(self, fork: _Fork, output: Output) -> None:
        """Finish a forced answer. Its thinking is spent: where it opens another section, the answer ends."""
        trace, limit = fork.trace, fork.trace.thinking
        stopped = output.stop_reason is StopReason.STOP
        sampled = len(output.new_ids) - stopped
        trace.extend(output.new_ids[:sampled], output.logprobs[:sampled])
        while trace.thinking == limit and trace.advance(final=True) is not None:
            pass
        reason = FinishReason.ANSWER_LENGTH
        if trace.inside:
            trace.drop_section()
            reason = FinishReason.REOPENED
        elif stopped and not trace.capped:
            trace.extend(output.new_ids[-1:], output.logprobs[-1:])
            reason = FinishReason.ANSWERED
        if output.stop_reason is StopReason.ERROR:
            reason = FinishReason.ERROR
        self._finish(fork.sample, [fork.budget], trace, reason, seed=fork.seed, forced=True, output=output)

    def _end_trace(self, sample: _Sample, output: Output, reason: FinishReason) -> None:
        """The trace answers, or fails, for every budget that it has not crossed."""
        self._forget_trace(sample)
        budgets = [budget for _, budget in sample.owed]
        self._finish(sample, budgets, sample.trace, reason, seed=sample.seed, output=output)

    def _forget_trace(self, sample: _Sample) -> None:
        del self._traces[sample.request_id]
        self._engine.abort(sample.request_id)

    def _finish(
        self,
        sample: _Sample,
        budgets: Sequence[int],
        trace: Trace,
        finish_reason: FinishReason,
        *,
        seed: int,
        forced: bool = False,
        stopped: bool = False,
        output: Output | None = None,
    ) -> None:
        """Add one generation a budget. What the trace cost is booked on the sample's largest budget alone."""
        row = generation(
            SampleKey(sample.task_id, sample.number, budgets[0]),
            sample.prompt_ids,
            trace,
            self._tokenizer,
            finish_reason=finish_reason,
            forced=forced,
            seed=seed,
            decoded_tokens=len(output.new_ids) if output and forced else 0,
            cached_tokens=output.cached_tokens if output and forced else 0,
            timings=timings_of(sample.started, output, sample.moments, forced=forced),
            error=output.error if output else None,
            logprobs=self._logprobs,
        )
        rows = [replace(row, key=replace(row.key, budget=budget), stopped=stopped) for budget in budgets]
        if budgets[-1] == sample.largest:
            rows[-1] = replace(
                rows[-1],
                decoded_tokens=row.decoded_tokens + sample.decoded,
                cached_tokens=row.cached_tokens + sample.cached,
            )
        if self._early_exit is not None:
            rows, stopped = self._early_exit.add(rows, sample.decoded, sample.cached)
            if stopped:
                self._drop(sample)
        self._finished += rows

    def _drop(self, sample: _Sample) -> None:
        """Whatever still runs for a sample that was stopped is not needed."""
        sample.owed.clear()
        if self._traces.get(sample.request_id) is sample:
            self._forget_trace(sample)
        for request_id in [request_id for request_id, fork in self._forks.items() if fork.sample is sample]:
            del self._forks[request_id]
            self._engine.abort(request_id)

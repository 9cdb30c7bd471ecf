"""An engine without a model: the continuation of a request is what a script says. For tests.

It behaves as a real engine where callers can see it: requests wait until the batch has room, every running
request advances in each step, prompts share cached prefixes in whole blocks, and it can die. Time is counted in
steps of `STEP_SECONDS`, so that two runs are equal to the last figure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from reasoning.engine.base import EngineError, EngineState, Output, Request, RequestTimings, StopReason, refusal
from reasoning.engine.steps import Steps
from reasoning.kv_cache import CacheGroup, KvCache
from reasoning.layers import MixerKind

STEP_SECONDS = 0.01
TOKEN_BYTES = 1024
"""What a token would take in the cache, if there were one."""


@dataclass(slots=True)
class _Sequence:
    """A request and how far it is. Times are counts of steps."""

    request: Request
    continuation: tuple[int, ...]
    stop_reason: StopReason
    logprobs: tuple[float, ...]
    added: int
    prefixes: list[int] = field(default_factory=list)  # hashes of its ids up to the end of each whole block
    started: int = 0
    produced: int = 0
    reported: int = 0
    cached_tokens: int = 0

    @property
    def tokens(self) -> int:
        return len(self.request.prompt_ids) + self.produced

    @property
    def finished(self) -> bool:
        return self.produced == len(self.continuation)


class ScriptedEngine:
    """The `Engine` protocol over `script(request)`, the ids that the model "would" write.

    A continuation is cut after its first stop id, at `max_tokens` and at the end of the context; one that ends
    before any of these is an error of the script (ValueError). `requests` lists every request that was added and
    `aborted` the ids of those that were aborted.
    """

    def __init__(
        self,
        script: Callable[[Request], tuple[int, ...]],
        max_model_len: int,
        block_size: int = 16,
        step_tokens: int = 1,
        max_running: int = 256,
        fail_at_step: int | None = None,
        logprob: Callable[[Request, int], float] | None = None,
        step_seconds: Callable[[int, int], float] | None = None,
    ) -> None:
        """Each step gives every running request `step_tokens` ids. Step `fail_at_step` (from 1) raises EngineError.

        `logprob` is that of the id at a place of a continuation; without it there are none. `step_seconds` is how long
        a step of a batch with so many tokens of context takes, for `take_steps`; without it nothing is profiled.
        """
        self.max_model_len = max_model_len
        self.requests: list[Request] = []
        self.aborted: list[str] = []
        self._script = script
        self._block_size = block_size
        self._step_tokens = step_tokens
        self._max_running = max_running
        self._fail_at_step = fail_at_step
        self._logprob = logprob
        self._step_seconds = step_seconds
        self._taken = Steps()
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._refused: list[Output] = []
        self._cached: set[int] = set()  # hashes of whole-block prefixes
        self._steps = self._cached_tokens = self._prompt_tokens = self._generated_tokens = 0

    def add(self, request: Request) -> None:
        if any(sequence.request.id == request.id for sequence in (*self._waiting, *self._running)):
            raise EngineError(f"request {request.id} is already running")
        self.requests.append(request)
        reason = refusal(request, self.max_model_len)
        if reason is None:
            ids, stop_reason = self._continue(request)
            logprobs = tuple(self._logprob(request, place) for place in range(len(ids))) if self._logprob else ()
            self._waiting.append(_Sequence(request, ids, stop_reason, logprobs, added=self._steps))
        else:
            self._refused.append(Output(request.id, (), finished=True, stop_reason=StopReason.ERROR, error=reason))

    def step(self) -> list[Output]:
        outputs, self._refused = self._refused, []
        if not self._waiting and not self._running:
            return outputs
        self._steps += 1
        if self._steps == self._fail_at_step:
            raise EngineError(f"the scripted engine died in step {self._steps}, as it was told to")
        decoding = sum(sequence.tokens - 1 for sequence in self._running)  # the last id of each is not computed yet
        started = []
        while self._waiting and len(self._running) < self._max_running:
            started.append(self._start(self._waiting.popleft()))
        if self._step_seconds is not None:
            context = decoding + sum(sequence.cached_tokens for sequence in started)
            prefill = sum(len(sequence.request.prompt_ids) - sequence.cached_tokens for sequence in started)
            batch = len(self._running)
            self._taken.append(self._step_seconds(batch, context), batch, context, len(started), prefill)
        outputs += [output for sequence in self._running if (output := self._advance(sequence)) is not None]
        self._running = [sequence for sequence in self._running if not sequence.finished]
        return outputs

    def abort(self, request_id: str) -> None:
        kept_waiting = deque(sequence for sequence in self._waiting if sequence.request.id != request_id)
        kept_running = [sequence for sequence in self._running if sequence.request.id != request_id]
        if len(kept_waiting) + len(kept_running) < len(self._waiting) + len(self._running):
            self.aborted.append(request_id)
        self._waiting, self._running = kept_waiting, kept_running

    @property
    def unfinished(self) -> int:
        return len(self._waiting) + len(self._running) + len(self._refused)

    @property
    def free_blocks(self) -> int:
        return self._total_blocks - sum(self._blocks(sequence.tokens) for sequence in self._running)

    def state(self) -> EngineState:
        used = self._total_blocks - self.free_blocks
        return EngineState(
            time_s=self._steps * STEP_SECONDS,
            running=len(self._running),
            waiting=len(self._waiting),
            kv_blocks_used=used,
            kv_blocks_total=self._total_blocks,
            kv_blocks_predicted=used,
            kv_blocks_shared=0,
            block_size=self._block_size,
            context_tokens=sum(sequence.tokens for sequence in self._running),
            preemptions=0,
            recomputed_tokens=0,
            cached_tokens=self._cached_tokens,
            prompt_tokens=self._prompt_tokens,
            generated_tokens=self._generated_tokens,
            steps=self._steps,
            step_s=STEP_SECONDS,
        )

    def take_steps(self) -> Steps:
        steps, self._taken = self._taken, Steps()
        return steps

    def load_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        if self._waiting or self._running:
            raise EngineError("weights cannot change under unfinished requests; abort them first")
        for _ in weights:
            pass
        self._cached.clear()

    def describe(self) -> dict[str, Any]:
        page_bytes = self._block_size * TOKEN_BYTES
        cache = KvCache((CacheGroup(MixerKind.FULL, 1, self._block_size, page_bytes),), page_bytes, self._total_blocks)
        return {
            "engine": "scripted",
            "block_size": self._block_size,
            "max_model_len": self.max_model_len,
            "kv_cache": cache.as_json(),
        }

    def close(self) -> None:
        pass

    def _continue(self, request: Request) -> tuple[tuple[int, ...], StopReason]:
        limit = min(request.max_tokens, self.max_model_len - len(request.prompt_ids))
        ids = self._script(request)[:limit]
        for i, token in enumerate(ids):
            if token in request.stop_ids:
                return ids[: i + 1], StopReason.STOP
        if len(ids) < limit:
            raise ValueError(f"the script ends {request.id} after {len(ids)} of {limit} ids, without a stop id")
        return ids, StopReason.LENGTH

    def _start(self, sequence: _Sequence) -> _Sequence:
        prompt = sequence.request.prompt_ids
        sequence.started = self._steps
        self._hash(sequence.prefixes, prompt)
        found = 0
        # The last id of a prompt is always computed: its logits give the first new id.
        while (found + 1) * self._block_size < len(prompt) and sequence.prefixes[found] in self._cached:
            found += 1
        sequence.cached_tokens = found * self._block_size
        self._cached.update(sequence.prefixes)
        self._cached_tokens += sequence.cached_tokens
        self._prompt_tokens += len(prompt)
        self._running.append(sequence)
        return sequence

    def _advance(self, sequence: _Sequence) -> Output | None:
        new = min(self._step_tokens, len(sequence.continuation) - sequence.produced)
        sequence.produced += new
        self._generated_tokens += new
        if sequence.tokens // self._block_size > len(sequence.prefixes):
            self._hash(sequence.prefixes, sequence.request.prompt_ids + sequence.continuation[: sequence.produced])
            self._cached.update(sequence.prefixes)
        if not sequence.finished and not sequence.request.stream:
            return None
        output = Output(
            sequence.request.id,
            sequence.continuation[sequence.reported : sequence.produced],
            finished=False,
            cached_tokens=0 if sequence.reported else sequence.cached_tokens,
            logprobs=sequence.logprobs[sequence.reported : sequence.produced],
            times=self._times(sequence) if self._step_seconds is not None else (),
        )
        sequence.reported = sequence.produced
        if not sequence.finished:
            return output
        return replace(
            output,
            finished=True,
            stop_reason=sequence.stop_reason,
            timings=RequestTimings(
                queued_s=(sequence.started - 1 - sequence.added) * STEP_SECONDS,
                first_token_s=(sequence.started - sequence.added) * STEP_SECONDS,
                total_s=(self._steps - sequence.added) * STEP_SECONDS,
                preemptions=0,
            ),
        )

    def _times(self, sequence: _Sequence) -> tuple[float, ...]:
        places = range(sequence.reported, sequence.produced)
        steps = (sequence.started - sequence.added + place // self._step_tokens for place in places)
        return tuple(step * STEP_SECONDS for step in steps)

    @property
    def _total_blocks(self) -> int:
        return self._max_running * self._blocks(self.max_model_len)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._block_size)

    def _hash(self, hashes: list[int], ids: tuple[int, ...]) -> None:
        """Continue the chain of hashes, as vLLM's block hashes do, over the whole blocks of `ids`."""
        for end in range((len(hashes) + 1) * self._block_size, len(ids) + 1, self._block_size):
            hashes.append(hash((hashes[-1] if hashes else 0, ids[end - self._block_size : end])))

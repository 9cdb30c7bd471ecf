"""The engine as the budget controller sees it: add requests, step, collect, abort.

Everything is token ids. An engine samples; it knows nothing of thinking, budgets or answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from reasoning.engine.steps import Steps


class EngineError(RuntimeError):
    """The engine died or refused; the message names the log or the remedy."""


class CacheTooSmall(EngineError):
    """The KV cache cannot hold one request of the longest kind; the message has the numbers and the remedies."""


class StopReason(StrEnum):
    STOP = "stop"  # a stop id was sampled; it is the last of the ids
    LENGTH = "length"  # max_tokens or the context was reached
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt of token ids to continue. `stop_ids` end it and are kept in the output.

    `top_k` tokens are drawn from, 0 is all of them; none is drawn that is less than `min_p` times as likely as the
    likeliest.
    """

    id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    stop_ids: tuple[int, ...]
    top_k: int = 0
    min_p: float = 0.0
    stream: bool = False  # report ids while the request runs (in batches); otherwise once, at the end


def refusal(request: Request, max_model_len: int) -> str | None:
    """Why an engine with a context of `max_model_len` tokens can never run this request, if it cannot."""
    if not request.prompt_ids:
        return "the prompt is empty"
    if len(request.prompt_ids) >= max_model_len:
        return f"the prompt of {len(request.prompt_ids):,} tokens leaves no room in the context of {max_model_len:,}"
    return None


@dataclass(frozen=True, slots=True)
class RequestTimings:
    """Seconds since the request was added; how often it was preempted and what it computed again because of it."""

    queued_s: float
    first_token_s: float
    total_s: float
    preemptions: int
    recomputed_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Output:
    """New ids of one request since its last output.

    `cached_tokens`, of its prompt, come with the first output and are 0 in all others, so that they are known of
    requests that are aborted, too. `timings` come with the last one. `logprobs`, in nats, one a new id, as it was
    sampled (temperature and top-p applied), are there only if the engine was started to give them, and so are `times`,
    one a new id: seconds since the request was added.
    """

    request_id: str
    new_ids: tuple[int, ...]
    finished: bool
    stop_reason: StopReason | None = None
    cached_tokens: int = 0
    timings: RequestTimings | None = None
    error: str | None = None
    logprobs: tuple[float, ...] = ()
    times: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineState:
    """A sample of the engine: what engine.jsonl holds. Counters are totals since the start."""

    time_s: float  # seconds since the engine started
    running: int
    waiting: int
    kv_blocks_used: int
    kv_blocks_total: int
    kv_blocks_predicted: int  # that the contexts of the running requests need, each for itself
    kv_blocks_shared: int  # of these, held by a running request before, too: not used twice
    block_size: int  # tokens
    context_tokens: int  # computed, of all running requests
    preemptions: int
    recomputed_tokens: int  # computed again after preemptions
    cached_tokens: int
    prompt_tokens: int
    generated_tokens: int
    steps: int  # of all replicas
    step_s: float  # mean time of a step since the last sample
    energy_j: float | None = None  # of its devices since the engine started; None: nobody measures it


class Engine(Protocol):
    """Continuous batching, driven step by step from one thread."""

    max_model_len: int

    def add(self, request: Request) -> None: ...

    def step(self) -> list[Output]:
        """Run the engine once and return what became known. May be empty."""
        ...

    def abort(self, request_id: str) -> None:
        """Forget a request: no further output comes of it. Unknown ids are ignored."""
        ...

    @property
    def unfinished(self) -> int: ...

    @property
    def free_blocks(self) -> int:
        """Blocks of the KV cache that no request holds."""
        ...

    def state(self) -> EngineState: ...

    def take_steps(self) -> Steps:
        """What each step since the last call held; none unless the engine was started to profile."""
        ...

    def load_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Replace the weights in place by (name, tensor) pairs and forget every cached prefix."""
        ...

    def describe(self) -> dict[str, Any]:
        """Versions, device, dtype, sizes: for the manifest."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the `engine:` section of a configuration says. None means: decided by the engine, and recorded.

    `max_num_seqs` and `kv_cache_gb` are those of all `replicas` together.
    """

    dtype: str | None = None
    max_num_seqs: int = 256
    kv_cache_gb: float | None = None
    gpu_memory_utilization: float = 0.9
    block_size: int | None = None
    enforce_eager: bool | None = None
    stream_interval: int = 16
    replicas: int = 1
    extra: dict[str, Any] = field(default_factory=dict)

"""How many requests may run at once: what the KV cache holds, and what the largest budget may still ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reasoning.budgets import format_budget
from reasoning.config import ConfigError
from reasoning.engine.base import CacheTooSmall
from reasoning.eval_config import EngineSection
from reasoning.kv_cache import GIB, KvCache, cache_of_shape, size_of
from reasoning.model_shape import DTYPE_BYTES, load_shape

GROWTH_SHARE = 8
"""A trace is admitted while every running request can still grow by this part of the largest one.

Few traces use the largest budget, so as many as could all reach it would leave most of the cache empty; and where all
of them do, vLLM preempts the ones that began last.
"""

REMEDIES = (
    "use smaller --budgets or a smaller --max-answer-tokens, give the cache more with --engine.kv_cache_gb or "
    "--engine.gpu_memory_utilization, or halve its bytes with --engine.dtype bfloat16 or kv_cache_dtype: fp8 under "
    "engine.extra"
)


class Admission:
    """Decides whether one more trace may start beside those that run. A function of the engine's state alone."""

    def __init__(self, cache: KvCache, most_tokens: int, *, is_set: bool = False) -> None:
        """`most_tokens`: of the longest sequence that the budgets allow. `is_set`: the user says how many run.

        `room` is the number of such sequences that fit at once.

        Raises:
            CacheTooSmall: one such sequence does not fit.
        """
        check_capacity(cache, most_tokens)
        self.room = cache.room(most_tokens)
        self._is_set = is_set
        self._growth_blocks = -(-cache.request_blocks(most_tokens) // GROWTH_SHARE)

    def __call__(self, unfinished: int, free_blocks: int) -> bool:
        """Whether a trace may start while `unfinished` requests are in the engine and `free_blocks` are not held.

        As many as fit at their largest may always run.
        """
        return self._is_set or unfinished < self.room or free_blocks >= (unfinished + 1) * self._growth_blocks


def check_capacity(cache: KvCache, most_tokens: int) -> None:
    """Raise CacheTooSmall, with the numbers, when not even one sequence of `most_tokens` fits."""
    if cache.room(most_tokens):
        return
    raise CacheTooSmall(
        f"one request of {most_tokens:,} tokens needs {size_of(cache.request_bytes(most_tokens))} of KV cache "
        f"({cache.bytes_per_token:,.0f} bytes a token), and there are {size_of(cache.capacity_bytes)}; {REMEDIES}"
    )


def expected_cache(engine: EngineSection, model_config: Mapping[str, Any]) -> KvCache | None:
    """The cache by the model's config.json, as large as the settings say; without a word from them it has no block.

    None of a family that nothing is known of: whether such a model can run is for the engine to say.
    """
    try:
        shape = load_shape(model_config)
    except ConfigError:
        return None
    number_bytes = DTYPE_BYTES.get(engine.dtype or "", shape.dtype_bytes)
    if str(engine.extra.get("kv_cache_dtype", "")).startswith("fp8"):
        number_bytes = 1
    return cache_of_shape(shape, (engine.kv_cache_gb or 0) * GIB, number_bytes)


def check_expected(engine: EngineSection, model_config: Mapping[str, Any], most_tokens: int) -> None:
    """Refuse a cache of a given size that cannot hold one sequence of `most_tokens`, before anything is started.

    Raises:
        ConfigError: with the numbers.
    """
    cache = expected_cache(engine, model_config)
    if cache is None or engine.kv_cache_gb is None:
        return
    try:
        check_capacity(cache, most_tokens)
    except CacheTooSmall as error:
        raise ConfigError(str(error)) from None


def describe(cache: KvCache, budget: int, most_tokens: int) -> str:
    """What a request takes of the cache, in a line. `most_tokens` are those of a sequence with the largest budget."""
    line = describe_request(cache, budget, most_tokens)
    return f"{line}, room for {cache.room(most_tokens):,} at once in {size_of(cache.capacity_bytes)}"


def describe_request(cache: KvCache, budget: int, most_tokens: int) -> str:
    """The part of it that is known of a model that is not loaded."""
    size = size_of(cache.request_bytes(most_tokens))
    return f"KV: {cache.bytes_per_token:,.0f} B a token, {size} a request at {format_budget(budget)}"


def describe_running(limit: int, *, is_set: bool) -> str:
    """How many requests run at once: `limit` if the user says so, else as many as the cache lets start."""
    if is_set:
        return f"{limit:,} run at once, as set"
    return f"up to {limit:,} run at once while each can still grow by 1/{GROWTH_SHARE} of that"

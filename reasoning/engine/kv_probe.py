"""Reads vLLM's KV cache from its scheduler: the groups, what running requests hold, what preemption computes twice.

Nothing of vllm is imported; what is read of its objects is the same in 0.26 and 0.31, except where noted. A sample
costs microseconds a running request and is taken once a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from reasoning.kv_cache import CacheGroup, KvCache
from reasoning.layers import MixerKind

KINDS = {
    "MLAAttentionSpec": MixerKind.LATENT,
    "SlidingWindowSpec": MixerKind.SLIDING,
    "MambaSpec": MixerKind.STATE,
}
"""By vLLM's specification. Every other keeps all tokens, or is booked as if it did."""

STATE_BLOCKS = {"none": 1, "align": 2}
"""Blocks of a state by vLLM's mamba_cache_mode; aligned, the last one and the one being written. Otherwise it grows."""


@dataclass(frozen=True, slots=True)
class KvState:
    """The cache at one instant, in blocks. Predicted are those that the contexts of the running requests need."""

    used: int
    total: int
    predicted: int
    shared: int  # that a running request holds and one before it holds, too
    context_tokens: int  # computed, of all running requests


class KvProbe:
    """Watches a scheduler from inside the process.

    `on_resume` is told of every request that goes on after a preemption, and how many tokens it computes again.
    """

    def __init__(self, scheduler: Any, on_resume: Callable[[str, int], None]) -> None:
        self.cache = read_cache(scheduler.kv_cache_config)
        self._on_resume = on_resume
        self._scheduler = scheduler
        self._manager = scheduler.kv_cache_manager
        self._asynchronous = scheduler.scheduler_config.async_scheduling
        # By request: tokens of the step that was scheduled last, and of one that still ran when it was scheduled.
        self._scheduled: dict[str, int] = {}
        self._in_flight: dict[str, int] = {}
        self._schedule = scheduler.schedule
        # Where a resumed request goes on is told by the scheduler's output and by nothing else.
        scheduler.schedule = self._watched_schedule

    @property
    def free_blocks(self) -> int:
        return self._manager.block_pool.get_num_free_blocks()

    def sample(self) -> KvState:
        predicted = context = 0
        for request in self._scheduler.running:
            tokens, name = request.num_computed_tokens, request.request_id
            # Blocks out of a window are freed only for tokens of steps that have ended.
            new = self._scheduled.get(name, 1) + self._in_flight.get(name, 0)
            predicted += sum(group.blocks(tokens, new) for group in self.cache.groups)
            context += tokens
        return KvState(
            self.cache.blocks - self.free_blocks, self.cache.blocks, predicted, self._shared_blocks(), context
        )

    def _watched_schedule(self, *arguments: Any, **named: Any) -> Any:
        output = self._schedule(*arguments, **named)
        if self._asynchronous:
            self._in_flight = self._scheduled
        self._scheduled = output.num_scheduled_tokens
        for request_id, found in _taken_up(output):
            request = self._scheduler.requests[request_id]
            if request.num_preemptions:
                # The last token of a preempted request had been sampled, not computed.
                self._on_resume(request_id, max(0, request.num_tokens - 1 - found))
        return output

    def _shared_blocks(self) -> int:
        """Every holder of a block but the first.

        All blocks are looked at: requests that share later ones may begin with copies, where samples of one prompt
        computed the same first block side by side.
        """
        shared = 0
        for manager in self._manager.coordinator.single_type_managers:
            seen: set[int] = set()
            for request in self._scheduler.running:
                table = manager.req_to_blocks.get(request.request_id, ())
                held = [block.block_id for block in table if block.ref_cnt > 1 and not block.is_null]
                known = len(seen)
                seen.update(held)
                shared += len(held) - (len(seen) - known)
        return shared


def _taken_up(output: Any) -> Iterator[tuple[str, int]]:
    """Requests that a step starts or resumes, and how many of their tokens were found in the cache.

    vLLM's second model runner gets resumed requests among the new ones.
    """
    for new in output.scheduled_new_reqs:
        yield new.req_id, new.num_computed_tokens
    cached = output.scheduled_cached_reqs
    for request_id in cached.resumed_req_ids:
        yield request_id, cached.num_computed_tokens[cached.req_ids.index(request_id)]


def read_cache(config: Any) -> KvCache:
    """The cache by vLLM's `KVCacheConfig`."""
    tensors = config.kv_cache_tensors
    # Each tensor is an allocation of its own until 0.26; later all lie in one, whose size each of them names.
    size = sum(x.size for x in tensors) if hasattr(tensors[0], "shared_by") else max(x.size for x in tensors)
    block_bytes = size // config.num_blocks
    groups = tuple(
        _group(group, block_bytes, alone=len(config.kv_cache_groups) == 1) for group in config.kv_cache_groups
    )
    return KvCache(groups, block_bytes, config.num_blocks - 1)  # one block is vLLM's placeholder


def _group(group: Any, block_bytes: int, *, alone: bool) -> CacheGroup:
    spec, layers = group.kv_cache_spec, len(group.layer_names)
    kind = next((KINDS[base.__name__] for base in type(spec).__mro__ if base.__name__ in KINDS), MixerKind.FULL)
    return CacheGroup(
        kind=kind,
        layers=layers,
        block_tokens=spec.block_size,
        # In a group of its own layers may differ, and the specification is that of one of them.
        page_bytes=block_bytes if alone else spec.page_size_bytes * layers,
        window=spec.sliding_window if kind is MixerKind.SLIDING else 0,
        state_blocks=STATE_BLOCKS.get(spec.mamba_cache_mode, 0) if kind is MixerKind.STATE else 0,
    )

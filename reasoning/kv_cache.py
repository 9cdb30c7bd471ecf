"""The KV cache in blocks and bytes: what a request takes at a length, how many fit, and what a run took.

The groups come from the engine's own cache specifications, or from the shape of a model alone. Layers that cache
alike share a block table; all groups draw their blocks from one pool, so a block takes the bytes of the largest
group's page whichever group it serves (vLLM's hybrid KV cache manager).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from reasoning.layers import MixerKind
from reasoning.model_shape import ModelShape

GIB = 1024**3
UNITS = {"GiB": GIB, "MiB": 1024**2, "KiB": 1024}
BLOCK_TOKENS = 16
"""vLLM's block on CUDA when nobody asks for another."""


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers with one block table. `page_bytes` is a block of all of them; `state_blocks` what a state takes."""

    kind: MixerKind
    layers: int
    block_tokens: int
    page_bytes: int
    window: int = 0  # tokens; 0: nothing is forgotten
    state_blocks: int = 0  # blocks a request holds whatever its length; 0: it grows

    def blocks(self, tokens: int, new_tokens: int = 1) -> int:
        """Blocks that a request holds when `tokens` of it are computed, the last `new_tokens` in one step.

        A window frees a block when its last token is out of sight of the first new token, and not before the next
        step: at most ceil((window - 1 + new tokens) / block) + 1 blocks are held.
        """
        if tokens == 0:
            return 0
        if self.state_blocks:
            return self.state_blocks
        held = -(-tokens // self.block_tokens)
        if self.window:
            held -= max(0, tokens - new_tokens - self.window + 1) // self.block_tokens
        return held

    def most_blocks(self, tokens: int) -> int:
        """The most that a request holds on its way to `tokens`, one token a step."""
        if not self.window or tokens <= self.window:
            return self.blocks(tokens)
        start = max(1, min(tokens, self.window))
        return max(self.blocks(length) for length in range(start, min(tokens, start + 2 * self.block_tokens) + 1))

    def needed_bytes(self, tokens: float) -> float:
        """Bytes of the tokens that can still be seen, without what blocks round up."""
        if self.state_blocks:
            return self.page_bytes * self.state_blocks if tokens else 0
        seen = min(tokens, self.window) if self.window else tokens
        return seen * self.page_bytes / self.block_tokens


@dataclass(frozen=True, slots=True)
class KvCache:
    """A cache of `blocks` blocks that requests can hold, each of `block_bytes`."""

    groups: tuple[CacheGroup, ...]
    block_bytes: int
    blocks: int

    @property
    def capacity_bytes(self) -> int:
        return self.blocks * self.block_bytes

    @property
    def bytes_per_token(self) -> float:
        """What one more token adds while no window is full."""
        return sum(group.page_bytes / group.block_tokens for group in self.groups if not group.state_blocks)

    def request_blocks(self, tokens: int) -> int:
        """The most blocks that one request holds on its way to `tokens`."""
        return sum(group.most_blocks(tokens) for group in self.groups)

    def request_bytes(self, tokens: int) -> int:
        return self.request_blocks(tokens) * self.block_bytes

    def room(self, tokens: int) -> int:
        """Requests of `tokens` that fit at once."""
        return self.blocks // self.request_blocks(tokens)

    def capacity_tokens(self, tokens: int) -> int:
        """Tokens that the cache holds in requests of `tokens` each, a part of one counted as a part."""
        return self.blocks * tokens // self.request_blocks(tokens)

    def waste_share(self, tokens: int) -> float:
        """Share of a request's bytes at `tokens` that holds nothing: rounding to blocks, pages of unequal groups."""
        held = sum(group.blocks(tokens) for group in self.groups) * self.block_bytes
        return 1 - sum(group.needed_bytes(tokens) for group in self.groups) / held

    def as_json(self) -> dict[str, Any]:
        groups = [asdict(group) | {"kind": group.kind.value} for group in self.groups]
        return {"groups": groups, "block_bytes": self.block_bytes, "blocks": self.blocks}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> KvCache:
        groups = (replace(CacheGroup(**group), kind=MixerKind(group["kind"])) for group in stored["groups"])
        return cls(tuple(groups), stored["block_bytes"], stored["blocks"])


def cache_of_shape(
    shape: ModelShape, memory_bytes: float, kv_dtype_bytes: float, block_tokens: int = BLOCK_TOKENS
) -> KvCache:
    """The cache that vLLM would make of `memory_bytes` for a model that is not loaded.

    Layers of several kinds are split into groups of equally many, as many as the rarest kind has, or as the most
    frequent one where that is less than half as many again. Where there are states, the blocks of attention grow
    until a page of it holds a state. One block is vLLM's placeholder.
    """
    counts = Counter((x.kind, x.window, x.values_per_token, x.state_values) for x in (y.mixer for y in shape.layers))
    token_bytes = max(values for _, _, values, _ in counts) * kv_dtype_bytes
    state_bytes = max(state for *_, state in counts) * kv_dtype_bytes
    if state_bytes and token_bytes:
        least = -(-state_bytes // (token_bytes * BLOCK_TOKENS)) * BLOCK_TOKENS
        block_tokens = max(block_tokens, int(least))
    page = max(token_bytes * block_tokens, state_bytes)
    size = min(counts.values())
    if max(counts.values()) < 1.5 * size:
        size = max(counts.values())
    groups = []
    for (kind, window, values, _), layers in counts.items():
        own_page = values * kv_dtype_bytes * block_tokens if values else page
        for start in range(0, layers, size):
            in_group = min(size, layers - start)
            state = 1 if kind is MixerKind.STATE else 0
            groups.append(CacheGroup(kind, in_group, block_tokens, round(in_group * own_page), window, state))
    block_bytes = max(group.page_bytes for group in groups)
    return KvCache(tuple(groups), block_bytes, max(0, int(memory_bytes // block_bytes) - 1))


@dataclass(frozen=True, slots=True)
class KvSample:
    """The cache at one instant of a run."""

    time_s: float  # since the first sample; what lies between attempts left out
    running: int
    measured_bytes: int
    predicted_bytes: int
    preemptions: int  # since the sample before

    @property
    def residual_bytes(self) -> int:
        return self.measured_bytes - self.predicted_bytes


@dataclass(frozen=True, slots=True)
class KvGrowth:
    """What a run took of the cache, sample by sample and as a whole, over all its attempts."""

    samples: tuple[KvSample, ...]
    bytes_per_token: float
    block_bytes: int
    capacity_bytes: int  # of the last attempt
    largest_request_bytes: int
    waste_share: float  # of a request of the largest length
    peak_bytes: int
    byte_seconds: float
    preemptions: int
    recomputed_tokens: int
    outside: int  # samples in which prediction and measurement differ by more than a block a running request

    def as_json(self, correct: int, samples: int) -> dict[str, Any]:
        """For results.json; `correct` answers and all `samples` are what totals are divided by."""
        return {
            "bytes_per_token": self.bytes_per_token,
            "block_bytes": self.block_bytes,
            "capacity_bytes": self.capacity_bytes,
            "largest_request_bytes": self.largest_request_bytes,
            "waste_share": self.waste_share,
            "peak_bytes": self.peak_bytes,
            "peak_share": self.peak_bytes / self.capacity_bytes,
            "byte_seconds": self.byte_seconds,
            "byte_seconds_per_correct": self.byte_seconds / correct if correct else None,
            "preemptions": self.preemptions,
            "recomputed_tokens": self.recomputed_tokens,
            "preemptions_per_sample": self.preemptions / samples if samples else None,
            "recomputed_tokens_per_sample": self.recomputed_tokens / samples if samples else None,
            "n_states": len(self.samples),
            "n_outside_prediction": self.outside,
        }


def growth(attempts: Sequence[tuple[KvCache, Sequence[Mapping[str, Any]]]], largest_tokens: int) -> KvGrowth | None:
    """What a run took, from the cache and the engine states of each attempt (lines of engine.jsonl).

    Predicted are the blocks that the contexts of the running requests need, each block that several of them share
    counted once. Between samples the bytes are taken to change evenly. None without a state.
    """
    samples: list[KvSample] = []
    before, byte_seconds, preemptions, recomputed, outside = 0.0, 0.0, 0, 0, 0
    for cache, states in attempts:
        last: KvSample | None = None
        seen = states[0]["preemptions"] if states else 0  # an engine may have served another run before
        for state in states:
            predicted = state["kv_blocks_predicted"] - state["kv_blocks_shared"]
            outside += abs(state["kv_blocks_used"] - predicted) > state["running"]
            sample = KvSample(
                time_s=before + state["time_s"] - states[0]["time_s"],
                running=state["running"],
                measured_bytes=state["kv_blocks_used"] * cache.block_bytes,
                predicted_bytes=predicted * cache.block_bytes,
                preemptions=state["preemptions"] - seen,
            )
            if last is not None:
                byte_seconds += (sample.time_s - last.time_s) * (sample.measured_bytes + last.measured_bytes) / 2
            samples.append(sample)
            last, seen = sample, state["preemptions"]
        if states:
            before = samples[-1].time_s
            preemptions += states[-1]["preemptions"] - states[0]["preemptions"]
            recomputed += states[-1]["recomputed_tokens"] - states[0]["recomputed_tokens"]
    if not samples:
        return None
    cache = attempts[-1][0]
    return KvGrowth(
        samples=tuple(samples),
        bytes_per_token=cache.bytes_per_token,
        block_bytes=cache.block_bytes,
        capacity_bytes=cache.capacity_bytes,
        largest_request_bytes=cache.request_bytes(largest_tokens),
        waste_share=cache.waste_share(largest_tokens),
        peak_bytes=max(sample.measured_bytes for sample in samples),
        byte_seconds=byte_seconds,
        preemptions=preemptions,
        recomputed_tokens=recomputed,
        outside=outside,
    )


def size_of(count: int) -> str:
    """Bytes to three figures, in the largest unit of which they are about one or more."""
    unit, size = next(((unit, size) for unit, size in UNITS.items() if count > 0.95 * size), ("B", 1))
    value = count / size
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"

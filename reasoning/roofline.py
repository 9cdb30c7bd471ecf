"""The time of a step from a model's shape and a device: which of its parts moves most, computes most, or waits.

Williams, Waterman and Patterson (2009): a part takes as long as its bytes or its operations need, whichever is longer.
A step has two such parts, one after the other: the products with weights, and attention over the cache. To these come
times that neither explains, which bind small models: kernels that start and drain, and the host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from reasoning.compute import (
    Storage,
    attention_flops,
    cache_bytes,
    head_flops,
    prefill_cache_bytes,
    prefill_flops,
    scores_of,
    step_weight_bytes,
    stored_bytes,
    token_flops,
)
from reasoning.hardware import Hardware
from reasoning.kv_cache import KvCache, cache_of_shape
from reasoning.model_shape import ModelShape, kv_layers


class Wall(StrEnum):
    """What a step waits for."""

    BANDWIDTH = "bandwidth"  # weights or cache are read
    COMPUTE = "compute"  # matrix units
    HOST = "host"  # kernels that start, or the host between steps
    CAPACITY = "capacity"  # the cache does not hold the requests at all


@dataclass(frozen=True, slots=True)
class Setup:
    """A model on `devices` like `hardware` that share its weights and its cache (tensor parallel)."""

    shape: ModelShape
    hardware: Hardware
    storage: Storage
    devices: int = 1
    graphs: bool = True  # kernels are launched as one graph
    cache_slowdown: float = 1.0  # of reading a byte of the cache, where it is stored in another type
    drafts: int = 0  # tokens drafted a step; see `reasoning.techniques`
    accepted: float = 1.0  # tokens that a step yields a request

    @property
    def cache(self) -> KvCache:
        """What is left for keys and values."""
        device = self.hardware
        whole = self.devices * (device.memory_bytes * device.usable_share - device.working_bytes)
        left = max(0.0, whole - self.weight_bytes)
        return cache_of_shape(self.shape, left * self.cache_devices / self.devices, self.storage.kv)

    @property
    def cache_devices(self) -> int:
        """Devices that the cache is split among: it is split by KV heads, and what has one is on every device."""
        return max(1, min(self.devices, max(layer.mixer.kv_heads for layer in self.shape.layers)))

    @property
    def weight_bytes(self) -> float:
        return stored_bytes(self.shape, self.storage)


@dataclass(frozen=True, slots=True)
class Step:
    """One step in seconds. The parts of the device follow each other; `host_s` runs beside them where it overlaps."""

    weights_s: float  # products: reading the weights
    products_s: float  # products: computing
    cache_s: float  # attention: reading the cache
    scores_s: float  # attention: computing
    waits_s: float  # kernels that start and drain, devices that wait for each other
    host_s: float
    overlaps: bool
    flops: float
    bytes: float

    @property
    def device_s(self) -> float:
        return max(self.weights_s, self.products_s) + max(self.cache_s, self.scores_s) + self.waits_s

    @property
    def seconds(self) -> float:
        return max(self.device_s, self.host_s) if self.overlaps else self.device_s + self.host_s

    @property
    def wall(self) -> Wall:
        """What takes most of it."""
        parts = {Wall.BANDWIDTH: 0.0, Wall.COMPUTE: 0.0, Wall.HOST: self.waits_s}
        for moved, computed in ((self.weights_s, self.products_s), (self.cache_s, self.scores_s)):
            parts[Wall.BANDWIDTH if moved >= computed else Wall.COMPUTE] += max(moved, computed)
        if self.overlaps and self.host_s > self.device_s:
            return Wall.HOST
        if not self.overlaps:
            parts[Wall.HOST] += self.host_s
        return max(parts, key=lambda wall: parts[wall])


ALL_REDUCE_S = 10e-6
"""Devices of one host add up a layer's output: the latency of a small all-reduce, an estimate."""

ACTIVATION_BYTES = 2


def decode_step(setup: Setup, batch: float, context: float) -> Step:
    """`batch` requests decode, each with `context` tokens in its cache, the new one included."""
    shape, reached, storage = setup.shape, setup.hardware.reached, setup.storage
    place = max(0, round(context) - 1)
    tokens = batch * (1 + setup.drafts)
    weights = step_weight_bytes(shape, tokens, storage)
    cache = batch * cache_bytes(kv_layers(shape, storage.kv), place, place + 1)
    logits = tokens * shape.vocab_size * reached.logit_bytes
    products = tokens * (token_flops(shape) + head_flops(shape))
    scores = tokens * attention_flops(scores_of(shape), place, place + 1, decode=True)
    heads = batch * max(layer.mixer.kv_heads for layer in shape.layers)
    launches_s = 0.0 if setup.graphs else len(shape.layers) * reached.eager_layer_s  # beside the device, like the host
    draft_s = setup.drafts * _draft_bytes(setup) / setup.hardware.weights_rate
    if setup.drafts:  # the drafter attends to the same tokens
        own = kv_layers(replace(shape, layers=shape.layers[-1:]), storage.kv)
        cache += setup.drafts * batch * cache_bytes(own, place, place + 1)
    rate = setup.hardware.cache_rate(heads / setup.cache_devices)
    matrix, scoring = setup.hardware.matrix_rate(storage.layer_weight), setup.hardware.matrix_rate(2)
    return Step(
        weights_s=((weights + logits) / setup.hardware.weights_rate + draft_s) / setup.devices,
        products_s=products / matrix / setup.devices,
        cache_s=cache * setup.cache_slowdown / rate / setup.cache_devices,
        scores_s=scores / scoring / setup.devices,
        waits_s=(len(shape.layers) + setup.drafts) * reached.layer_s + reached.step_s + _reduce_s(setup, tokens),
        host_s=reached.host_s + reached.host_request_s * batch + launches_s,
        overlaps=reached.overlaps,
        flops=products + scores,
        bytes=weights + cache,
    )


def _reduce_s(setup: Setup, tokens: float) -> float:
    """All-reduces of a step, two a layer (Megatron-LM, arXiv:1909.08053); two devices send each other all they have."""
    if setup.devices == 1 or setup.hardware.link is None:
        return 0.0
    moved = tokens * setup.shape.hidden_size * ACTIVATION_BYTES
    return 2 * len(setup.shape.layers) * (ALL_REDUCE_S + moved / setup.hardware.link)


def _draft_bytes(setup: Setup) -> float:
    """One layer and the head: the drafter of EAGLE (arXiv:2401.15077)."""
    shape, storage = setup.shape, setup.storage
    return shape.layers[-1].active_parameters * storage.layer_weight + shape.head_parameters * storage.head_weight


def prefill(setup: Setup, tokens: int, cached: int = 0) -> Step:
    """A prompt of `tokens`, the first `cached` of them in the cache, alone and in one step."""
    shape, reached, storage = setup.shape, setup.hardware.reached, setup.storage
    new = max(0, tokens - cached)
    flops = float(prefill_flops(shape, cached, tokens))
    scores = float(attention_flops(scores_of(shape), cached, tokens, decode=False))
    weights = step_weight_bytes(shape, new, storage)
    cache = prefill_cache_bytes(kv_layers(shape, storage.kv), cached, tokens)
    heads = max(layer.mixer.query_heads for layer in shape.layers)
    return Step(
        weights_s=weights / setup.hardware.weights_rate / setup.devices,
        products_s=(flops - scores) / setup.hardware.matrix_rate(storage.layer_weight) / setup.devices,
        cache_s=cache / setup.hardware.cache_rate(heads / setup.cache_devices) / setup.cache_devices,
        scores_s=scores / setup.hardware.matrix_rate(2) / setup.devices,
        waits_s=len(shape.layers) * reached.layer_s + reached.step_s + _reduce_s(setup, new),
        host_s=reached.host_s + reached.host_request_s,
        overlaps=reached.overlaps,
        flops=flops,
        bytes=weights + cache,
    )

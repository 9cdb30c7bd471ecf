"""What would make an evaluation faster on a device, each technique with the gain that the step-time model predicts.

A gain is the time of the whole evaluation without the technique over the time with it, everything else as planned.
Where another wall binds it is about 1. Techniques that the engine uses anyway are told what they bring already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from reasoning.compute import attention_flops, head_flops, scores_of, token_flops
from reasoning.config import ConfigError
from reasoning.layers import Layer, MixerKind
from reasoning.planning import FP8_SLOWDOWN, INT4, Workload, check, decode_seconds, plan
from reasoning.roofline import Setup, prefill
from reasoning.training_roofline import TRAINING, training_gain

WINDOW, FULL_EVERY = 1024, 6  # Gemma 3
LATENT_RANK, ROPE_DIM = 512, 64  # DeepSeek-V2
DRAFTS, ACCEPTANCE = 3, 0.7


@dataclass(frozen=True, slots=True)
class Gain:
    """`factor` times faster. `note` says what it assumes or asks for; `source` where it is described."""

    name: str
    factor: float
    note: str
    source: str


Seconds = Callable[[Setup, Workload], float | None]
"""Time of the evaluation with the technique, or without it where it is in use; None where it cannot be applied."""


@dataclass(frozen=True, slots=True)
class Technique:
    name: str
    seconds: Seconds
    note: str
    source: str
    in_use: bool = False  # the engine does it anyway: `seconds` is the time without


@dataclass(frozen=True, slots=True)
class Ranking:
    """The largest gain first: what could be done, what the engine does already, what would speed up training."""

    could: tuple[Gain, ...]
    in_use: tuple[Gain, ...]
    training: tuple[Gain, ...]


def rank(setup: Setup, work: Workload) -> Ranking:
    now = evaluation_seconds(setup, work)
    could, does = [], []
    for technique in SERVING:
        seconds = technique.seconds(setup, work)
        if seconds is not None:
            factor = seconds / now if technique.in_use else now / seconds
            gain = Gain(technique.name, factor, technique.note, technique.source)
            (does if technique.in_use else could).append(gain)
    trains = [Gain(name, training_gain(setup, work, one), one.note, one.source) for name, one in TRAINING.items()]
    return Ranking(_sorted(could), _sorted(does), _sorted(trains))


def _sorted(gains: Sequence[Gain]) -> tuple[Gain, ...]:
    return tuple(sorted(gains, key=lambda gain: -gain.factor))


def evaluation_seconds(setup: Setup, work: Workload) -> float:
    return plan(setup, work)[-1].seconds


def _with(setup: Setup, work: Workload) -> float | None:
    try:
        check(setup, work)
    except ConfigError:
        return None
    return evaluation_seconds(setup, work)


def _weights(bytes_per_weight: float) -> Seconds:
    def seconds(setup: Setup, work: Workload) -> float | None:
        if setup.storage.layer_weight <= bytes_per_weight:
            return None
        return _with(replace(setup, storage=replace(setup.storage, layer_weight=bytes_per_weight)), work)

    return seconds


def _fp8_cache(setup: Setup, work: Workload) -> float | None:
    if setup.storage.kv <= 1:
        return None
    return _with(replace(setup, storage=replace(setup.storage, kv=1.0), cache_slowdown=FP8_SLOWDOWN), work)


def _reshaped(change: Callable[[int, Layer], Layer]) -> Seconds:
    def seconds(setup: Setup, work: Workload) -> float | None:
        if all(layer.mixer.kind is not MixerKind.FULL for layer in setup.shape.layers):
            return None
        layers = tuple(change(number, layer) for number, layer in enumerate(setup.shape.layers, start=1))
        return _with(replace(setup, shape=replace(setup.shape, layers=layers)), work)

    return seconds


def _windowed(number: int, layer: Layer) -> Layer:
    if layer.mixer.kind is not MixerKind.FULL or number % FULL_EVERY == 0:
        return layer
    return replace(layer, mixer=replace(layer.mixer, kind=MixerKind.SLIDING, window=WINDOW))


def _latent(number: int, layer: Layer) -> Layer:
    if layer.mixer.kind is not MixerKind.FULL:
        return layer
    mixer = replace(layer.mixer, kind=MixerKind.LATENT, kv_heads=1, latent_rank=LATENT_RANK, rope_dim=ROPE_DIM)
    return replace(layer, mixer=mixer)


def _speculative(setup: Setup, work: Workload) -> float | None:
    """Leviathan et al., equation 1: tokens that a step yields when each draft is accepted independently."""
    accepted = (1 - ACCEPTANCE ** (DRAFTS + 1)) / (1 - ACCEPTANCE)
    return _with(replace(setup, drafts=DRAFTS, accepted=accepted), work)


def _more_at_once(setup: Setup, work: Workload) -> float | None:
    room = setup.cache.room(work.longest(max(work.budgets)))
    return None if room <= work.concurrency else _with(setup, replace(work, concurrency=room))


def _tensor_parallel(setup: Setup, work: Workload) -> float | None:
    if setup.hardware.link is None:
        return None
    return _with(replace(setup, devices=2 * setup.devices), work)


def _data_parallel(setup: Setup, work: Workload) -> float | None:
    """Each of two devices takes half of the traces."""
    half = replace(work, tasks=-(-work.tasks // 2)) if work.tasks > 1 else work
    return _with(setup, half)


def _separate_prefill(setup: Setup, work: Workload) -> float | None:
    if setup.hardware.link is None:
        return None
    last = plan(setup, work)[-1]
    return max(last.decode_s, last.prefill_s)


def _chunked_prefill(setup: Setup, work: Workload) -> float | None:
    """Prompts are computed beside decoding, by the matrix units that it leaves idle."""
    last = plan(setup, work)[-1]
    busy = _decode_flops(setup, work) / setup.hardware.matrix_rate(setup.storage.layer_weight) / setup.devices
    return max(last.decode_s, busy + last.prefill_s)


def _decode_flops(setup: Setup, work: Workload) -> float:
    length = work.decoded(max(work.budgets))
    each = length * (token_flops(setup.shape) + head_flops(setup.shape))
    start = work.prompt_tokens
    return work.traces * (each + attention_flops(scores_of(setup.shape), start, start + length, decode=True))


def _no_prefix_cache(setup: Setup, work: Workload) -> float | None:
    """Every trace computes its prompt, and every answer at a budget its prompt and its thinking."""
    decode_s = plan(setup, work)[-1].decode_s
    prompts = sum(prefill(setup, work.prompt_tokens + budget).seconds for budget in (0, *work.budgets))
    return decode_s + work.traces * prompts


def _no_graphs(setup: Setup, work: Workload) -> float | None:
    reached = setup.hardware.reached
    return None if reached.eager_layer_s <= reached.layer_s else _with(replace(setup, graphs=False), work)


def _no_overlap(setup: Setup, work: Workload) -> float | None:
    reached = setup.hardware.reached
    if not reached.overlaps:
        return None
    hardware = replace(setup.hardware, reached=replace(reached, overlaps=False))
    last = plan(setup, work)[-1]
    return decode_seconds(replace(setup, hardware=hardware), work, last.budget, last.at_once) + last.prefill_s


_MODEL = "another model: it has to be trained so"
SERVING = (
    Technique(
        "8-bit weights",
        _weights(1.0),
        "engine.extra quantization: fp8; accuracy nearly unchanged in the source",
        "Kurtic et al. 2024, arXiv:2411.02355",
    ),
    Technique(
        "4-bit weights",
        _weights(INT4),
        "a quantised checkpoint; products still in 16 bits; check accuracy at long budgets",
        "AWQ arXiv:2306.00978, kernels: Marlin arXiv:2408.11743",
    ),
    Technique(
        "FP8 KV cache",
        _fp8_cache,
        "engine.extra kv_cache_dtype: fp8; a byte is read 8 % slower, and more requests fit",
        "vLLM, The State of FP8 KV-Cache, 2026",
    ),
    Technique(
        "sliding-window attention",
        _reshaped(_windowed),
        f"five layers of six see {WINDOW:,} tokens; {_MODEL}",
        "Gemma 3 report, arXiv:2503.19786",
    ),
    Technique(
        "latent attention",
        _reshaped(_latent),
        f"{LATENT_RANK} + {ROPE_DIM} numbers a token and layer; {_MODEL}",
        "DeepSeek-V2, arXiv:2405.04434",
    ),
    Technique(
        "speculative decoding",
        _speculative,
        f"{DRAFTS} drafts of one layer, each accepted with probability {ACCEPTANCE:g}; needs a drafter for this model",
        "Leviathan et al. arXiv:2211.17192; EAGLE-3 arXiv:2503.01840",
    ),
    Technique("more requests at once", _more_at_once, "as many as the cache holds: --concurrency", "Orca, OSDI 2022"),
    Technique(
        "tensor parallel on 2",
        _tensor_parallel,
        "twice the devices, so half of it for each; more room for the cache",
        "Megatron-LM, arXiv:1909.08053",
    ),
    Technique("data parallel on 2", _data_parallel, "twice the devices, half of the tasks each", "no communication"),
    Technique(
        "separated prefill", _separate_prefill, "twice the devices: one computes prompts", "DistServe, arXiv:2401.09670"
    ),
    Technique(
        "chunked prefill",
        _chunked_prefill,
        "on by default on CUDA, not counted in the times above; at most this",
        "Sarathi-Serve, arXiv:2403.02310",
    ),
    Technique(
        "prefix caching",
        _no_prefix_cache,
        "prompts and forked traces",
        "SGLang's RadixAttention, arXiv:2312.07104",
        True,
    ),
    Technique("CUDA graphs", _no_graphs, "no launch of single kernels", "NVIDIA CUDA programming guide", True),
    Technique("asynchronous scheduling", _no_overlap, "the host works beside the device", "vLLM's documentation", True),
)

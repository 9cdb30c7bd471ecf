"""What an evaluation takes before it is run: memory, requests at once, time and cost at each budget.

Every trace is taken to use its whole budget, so times are upper bounds; a prompt, and what the answers at smaller
budgets share with their trace, are computed once, as the prefix cache has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reasoning.budgets import format_budget
from reasoning.compute import Storage
from reasoning.config import ConfigError
from reasoning.hardware import Hardware
from reasoning.kv_cache import GIB, size_of
from reasoning.model_shape import ModelShape
from reasoning.roofline import Setup, Wall, decode_step, prefill
from reasoning.types import NO_LIMIT

PIECES = 16
"""Into which the positions of a trace are divided to add up its steps."""

INT4 = 0.53
"""Bytes of a weight in four bits, with a scale and an offset for each 128 of them (AWQ, arXiv:2306.00978)."""

WEIGHT_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": INT4}
KV_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}

FP8_SLOWDOWN = 1.08
"""Reading a token of an FP8 cache takes 54 %, not 50 %, of one in bf16 (vLLM, The State of FP8 KV-Cache, 2026)."""

QUANTISED = {"fp8": 1.0, "compressed-tensors": 1.0, "mxfp4": INT4, "awq": INT4, "gptq": INT4, "bitsandbytes": INT4}
"""Of checkpoints, by the method that config.json names, where it does not say how many bits."""


def quantised_bytes(method: str, bits: int | None, otherwise: float) -> float:
    """Of a layer's weight that is stored by `method`; `otherwise` when nothing is known of it."""
    if bits is None:
        return QUANTISED.get(method, otherwise)
    return INT4 if bits == 4 else bits / 8


@dataclass(frozen=True, slots=True)
class Workload:
    """An evaluation. Lengths in tokens; `concurrency` is the most requests at once, `price_per_hour` of all devices."""

    budgets: tuple[int, ...]
    tasks: int = 500
    samples: int = 1
    prompt_tokens: int = 200
    answer_tokens: int = 512
    concurrency: int = 256
    price_per_hour: float | None = None

    @property
    def traces(self) -> int:
        return self.tasks * self.samples

    def longest(self, budget: int) -> int:
        """Tokens of the longest sequence."""
        return self.prompt_tokens + budget + self.answer_tokens

    def decoded(self, budget: int) -> int:
        """Tokens of one sample: its trace up to `budget`, and an answer at this and each smaller budget."""
        return budget + self.answer_tokens * sum(other <= budget for other in self.budgets)


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """An evaluation whose largest budget is `budget`. Times in seconds; `step_s` at the mean position."""

    budget: int
    request_bytes: int
    room: int  # requests of the full length that the cache holds
    at_once: int  # that run: no more than there are, nor than the user allows
    step_s: float
    wall: Wall
    tokens_per_s: float
    decode_s: float
    prefill_s: float
    decoded_tokens: int
    cost: float | None

    @property
    def seconds(self) -> float:
        return self.decode_s + self.prefill_s


def make_setup(
    shape: ModelShape, hardware: Hardware, weight_dtype: str | None = None, kv_dtype: str | None = None
) -> Setup:
    """The model on the device, its numbers stored as asked, or as the checkpoint and the engine have them.

    Embedding and head keep the checkpoint's type when the layers are quantised, as the common methods leave them.

    Raises:
        ConfigError: a type that nothing is known of.
    """
    own = hardware.weight_bytes or min(2.0, shape.dtype_bytes)  # vLLM takes 16 bits for a checkpoint in 32
    layer = _bytes(
        "--weight-dtype",
        weight_dtype,
        WEIGHT_BYTES,
        quantised_bytes(shape.quantization or "", shape.quantized_bits, own),
    )
    kv = _bytes("--kv-dtype", kv_dtype, KV_BYTES, own)
    head = own if layer < 2 else layer
    return Setup(shape, hardware, Storage(layer, head, kv), cache_slowdown=FP8_SLOWDOWN if kv == 1 else 1.0)


def _bytes(option: str, name: str | None, known: Mapping[str, float], otherwise: float) -> float:
    if name is None:
        return otherwise
    if name not in known:
        raise ConfigError(f"{option} {name} is not known; write one of {', '.join(known)}")
    return known[name]


def plan(setup: Setup, work: Workload) -> list[BudgetPlan]:
    """A plan for each budget, the last one for the whole evaluation.

    Raises:
        ConfigError: a budget is beyond the model's positions, or the weights do not fit, or not one request does.
    """
    check(setup, work)
    return [_plan(setup, work, budget) for budget in work.budgets]


def check(setup: Setup, work: Workload) -> None:
    largest = setup.shape.max_positions - work.prompt_tokens - work.answer_tokens
    if largest < 0:
        raise ConfigError(
            f"a prompt of {work.prompt_tokens:,} tokens and an answer of {work.answer_tokens:,} are more than the "
            f"model's {setup.shape.max_positions:,} positions; use smaller --prompt-tokens or --answer-tokens"
        )
    beyond = next((budget for budget in work.budgets if budget > largest), None)
    if beyond is not None:
        what = "has no limit" if beyond == NO_LIMIT else "is more than the model's positions hold"
        raise ConfigError(
            f"budget {format_budget(beyond)} {what}: {setup.shape.max_positions:,} positions less "
            f"{work.prompt_tokens:,} of the prompt and {work.answer_tokens:,} of the answer leave {largest:,}; "
            f"the largest possible is --budgets {largest}"
        )
    device = setup.hardware
    usable = setup.devices * (device.memory_bytes * device.usable_share - device.working_bytes)
    if setup.weight_bytes > usable:
        raise ConfigError(
            f"the weights do not fit: {size_of(round(setup.weight_bytes))} of them, and {device.title} leaves "
            f"{usable / GIB:.3g} GiB; store them in fewer bytes (--weight-dtype fp8 or int4) or take a larger device"
        )
    longest = work.longest(max(work.budgets))
    if not setup.cache.room(longest):
        raise ConfigError(
            f"not one request of {longest:,} tokens fits: it needs {size_of(setup.cache.request_bytes(longest))} of KV "
            f"cache, and beside the weights {size_of(setup.cache.capacity_bytes)} are left; use smaller --budgets, "
            "--kv-dtype fp8, fewer bytes a weight (--weight-dtype) or a larger device"
        )


def _plan(setup: Setup, work: Workload, budget: int) -> BudgetPlan:
    longest = work.longest(budget)
    room = setup.cache.room(longest)
    at_once = min(room, work.concurrency, work.traces)
    decode_s = decode_seconds(setup, work, budget, at_once)
    prefill_s = work.tasks * prefill(setup, work.prompt_tokens).seconds
    step = decode_step(setup, at_once, work.prompt_tokens + work.decoded(budget) / 2)
    wall = Wall.CAPACITY if _held_back(setup, work, budget, at_once, room) else step.wall
    decoded = work.traces * work.decoded(budget)
    seconds = decode_s + prefill_s
    return BudgetPlan(
        budget=budget,
        request_bytes=setup.cache.request_bytes(longest),
        room=room,
        at_once=at_once,
        step_s=step.seconds,
        wall=wall,
        tokens_per_s=decoded / decode_s,
        decode_s=decode_s,
        prefill_s=prefill_s,
        decoded_tokens=decoded,
        cost=None if work.price_per_hour is None else work.price_per_hour * seconds / 3600,
    )


def _held_back(setup: Setup, work: Workload, budget: int, at_once: int, room: int) -> bool:
    """Whether the cache binds: it lets fewer run than there are, and twice as many would be a fifth faster or more."""
    if at_once < room:
        return False
    more = min(2 * at_once, work.concurrency, work.traces)
    return decode_seconds(setup, work, budget, at_once) > 1.2 * decode_seconds(setup, work, budget, more)


def decode_seconds(setup: Setup, work: Workload, budget: int, at_once: int) -> float:
    """All traces in waves of `at_once`, the last one smaller, each from its prompt to its end."""
    waves, rest = divmod(work.traces, at_once)
    length = work.decoded(budget)
    total = waves * _wave(setup, work, length, at_once)
    return total + (_wave(setup, work, length, rest) if rest else 0.0)


def _wave(setup: Setup, work: Workload, length: int, batch: int) -> float:
    """`batch` requests that start and end together, `length` tokens each."""
    each = length / PIECES
    places = (work.prompt_tokens + (piece + 0.5) * each for piece in range(PIECES))
    return sum(decode_step(setup, batch, place).seconds for place in places) * each / setup.accepted

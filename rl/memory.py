"""How much memory an update needs, before it is needed: decides on gradient checkpointing, and refuses what cannot fit.

An estimate, within a quarter or so: it was set against a 1.5-billion-parameter Qwen2 shape on one H200 (rows of 16,384
tokens in bfloat16: 56 GiB without checkpointing, 11 GiB with it, optimizer not counted).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import psutil
import torch

from reasoning.config import ConfigError
from rl.logprobs import CHUNK_LOGITS

GIB = 1 << 30
HEADROOM = 0.85
"""Share of the free memory that may be planned with."""

CPU_ROW_TOKENS = 1024
CUDA_ROW_TOKENS = (65536, 32768, 16384)
ROW_SHARE = 1 / 8
"""Of a GPU's memory, what the activations of a row may take where a shorter row would do."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes that memory follows from. `number_bytes`: of a weight and of an activation. `trained` None: all weights."""

    parameters: int
    layers: int
    hidden: int
    mlp: int
    vocabulary: int
    number_bytes: int
    trained: int | None = None

    @classmethod
    def of(cls, model: Any) -> Shape:
        """The shape of a transformers model."""
        parameters = sum(weight.numel() for weight in model.parameters())
        shape = cls.described(model.config, parameters, model.dtype.itemsize)
        return replace(shape, trained=sum(weight.numel() for weight in model.parameters() if weight.requires_grad))

    @classmethod
    def described(cls, config: Any, parameters: int, number_bytes: int) -> Shape:
        """The shape that a configuration of transformers describes."""
        text = config.get_text_config()
        return cls(
            parameters=parameters,
            layers=text.num_hidden_layers,
            hidden=text.hidden_size,
            mlp=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
            vocabulary=text.vocab_size,
            number_bytes=number_bytes,
        )

    @property
    def token_bytes(self) -> int:
        """Activations that one token keeps: about 15 numbers a layer and hidden unit, and 4 a layer and MLP unit."""
        return self.layers * (15 * self.hidden + 4 * self.mlp) * self.number_bytes


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes that the update needs and that are free, and whether activations are kept or computed again."""

    checkpointing: bool
    needed: int
    free: int
    row_tokens: int

    def describe(self) -> str:
        """One line for people."""
        activations = (
            "activations computed again (gradient checkpointing)" if self.checkpointing else "activations kept"
        )
        return (
            f"memory: about {self.needed / GIB:.1f} GiB for the update of {self.free / GIB:.1f} GiB free, "
            f"rows of {self.row_tokens:,} tokens, {activations}"
        )


def default_row_tokens(source: str, gpu_bytes: int | None) -> int:
    """Tokens of a row for the model in `source`, on a GPU with so much memory; None: on the CPU.

    On a GPU a row should take longer to compute than its kernels take to start: the smaller the model, the longer.
    """
    if gpu_bytes is None:
        return CPU_ROW_TOKENS
    from transformers import AutoConfig

    shape = Shape.described(AutoConfig.from_pretrained(source), parameters=0, number_bytes=2)
    fitting = [tokens for tokens in CUDA_ROW_TOKENS if tokens * shape.token_bytes <= ROW_SHARE * gpu_bytes]
    return max(fitting, default=CUDA_ROW_TOKENS[-1])


def gpu_bytes() -> int | None:
    """All memory of the GPU, free or not; None: there is no GPU."""
    return torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else None


def update_bytes(shape: Shape, row_tokens: int, threads: int, *, checkpointing: bool, reference: bool) -> int:
    """Weights, masters, Adam's moments, gradients and the activations of one row for each thread.

    With checkpointing a token keeps one hidden state a layer, and all of one layer at a time.
    """
    weights = shape.parameters * shape.number_bytes * (2 if reference else 1)
    states = 8 + (4 if shape.number_bytes < 4 else 0)
    gradients = threads * (4 + shape.number_bytes)
    kept = shape.token_bytes
    if checkpointing:
        kept = shape.layers * shape.hidden * shape.number_bytes + kept // shape.layers
    logits = 3 * 4 * min(CHUNK_LOGITS, row_tokens * shape.vocabulary)
    trained = shape.parameters if shape.trained is None else shape.trained
    return weights + trained * (states + gradients) + threads * (row_tokens * kept + logits)


def plan_memory(
    shape: Shape, row_tokens: int, threads: int, free: int, *, asked: bool | None, reference: bool
) -> MemoryPlan:
    """Keep the activations if they fit. `asked`: what the settings say of checkpointing; None: decide here.

    Raises:
        ConfigError: the update cannot fit; the message has the numbers and what to lower.
    """
    for checkpointing in (False, True) if asked is None else (asked,):
        needed = update_bytes(shape, row_tokens, threads, checkpointing=checkpointing, reference=reference)
        if needed <= HEADROOM * free:
            return MemoryPlan(checkpointing, needed, free, row_tokens)
    half, fixed = (
        update_bytes(shape, tokens, threads, checkpointing=checkpointing, reference=reference)
        for tokens in (row_tokens // 2, 0)
    )
    a_token = (needed - half) / (row_tokens - row_tokens // 2)
    fitting = int(row_tokens - (needed - HEADROOM * free) / a_token) - 1
    hint = (
        f"write update.row_tokens: {fitting:,} or less (now {row_tokens:,})"
        if fitting >= 64
        else f"the weights, gradients and optimizer alone take {fixed / GIB:.1f} GiB: choose a smaller model"
    )
    if asked is False:
        hint += ", or leave grpo.gradient_checkpointing out"
    raise ConfigError(
        f"out of memory at the start: the update needs about {needed / GIB:.1f} GiB, {free / GIB:.1f} GiB are free; "
        f"{hint}, or give the engine less (engine.kv_cache_gb, engine.gpu_memory_utilization)"
    )


def free_bytes(device: torch.device) -> int:
    """Memory that is free on the device now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available

"""The time of a training update from a model's shape and a device, with and without each technique.

An update computes `TOKENS` real tokens forward and backward and steps the optimizer. Three constants are fitted or
taken from measurements; everything else is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from reasoning.compute import attention_flops, head_flops, scores_of, token_flops
from reasoning.planning import Workload
from reasoning.roofline import Setup

TOKENS = 1 << 18
"""Of an update: what a few hundred completions come to."""

ROW_TOKENS = 16384
"""Of one forward pass."""

FILLED = 0.37
"""Real tokens among those of completions padded to the longest (512 of log-normal length, measured)."""

EAGER_BYTES = 1280
"""Moved for each hidden number, layer and token, forward and backward, between the products. Fitted to an update of a
1.5B model on an H200, packed, bf16, eager: 37,317 tokens a second."""

COMPILED_SHARE = 0.4
"""Of them when pointwise kernels are fused: makes the same update 1.4 times faster, as PyTorch 2 found over many models
(Ansel et al., ASPLOS 2024: 1.41 in training)."""

LOGIT_BYTES = 30
"""Moved for each logit: cast, normalised, differentiated."""

SCORE_BYTES = 20
"""Moved for each score of attention that is written to memory: forward, softmax, backward (five bytes kept for each
layer, head and pair in 16 bits, Korthikanti et al., arXiv:2205.05198; each written and read twice)."""

ADAM_BYTES, UNFUSED = 28, 3
"""Bytes a weight: itself, its gradient and two moments in fp32, moved once by one kernel, about three times by many."""

KERNEL_S = {True: 0.15e-3, False: 0.5e-3}
"""Launches of one layer, forward and backward, compiled or not: an estimate."""


@dataclass(frozen=True, slots=True)
class Training:
    """How an update is computed."""

    product_bytes: int = 2  # of a number in products: 4, 2 or 1
    compiled: bool = True
    flash: bool = True
    fused: bool = True
    checkpointing: bool = False
    packed: bool = True


@dataclass(frozen=True, slots=True)
class TrainingTechnique:
    """An update without it and with it; the usual others are in use in both."""

    note: str
    source: str
    without: Training = Training()
    used: Training = Training()


TRAINING = {
    "bf16": TrainingTechnique(
        "against fp32, through TF32 units where there are some",
        "Kalamkar et al., arXiv:1905.12322",
        without=Training(product_bytes=4),
    ),
    "torch.compile": TrainingTechnique(
        "fuses what lies between products", "Ansel et al., ASPLOS 2024", without=Training(compiled=False)
    ),
    "FlashAttention": TrainingTechnique(
        "scores never written to memory", "Dao, arXiv:2307.08691", without=Training(flash=False)
    ),
    "fused optimizer": TrainingTechnique(
        "one kernel moves each weight once", "PyTorch's torch.optim, fused=True", without=Training(fused=False)
    ),
    "packing": TrainingTechnique(
        f"rows without padding; {FILLED:.0%} of padded tokens were real",
        "Krell et al., arXiv:2107.02027",
        without=Training(packed=False),
    ),
    "gradient checkpointing": TrainingTechnique(
        "layers computed twice: for memory, not for speed",
        "Chen et al., arXiv:1604.06174",
        used=Training(checkpointing=True),
    ),
    "FP8 products": TrainingTechnique(
        "layers only; needs FP8 units; scales are yours to watch",
        "FP8-LM, arXiv:2310.18313",
        used=Training(product_bytes=1),
    ),
}


def training_gain(setup: Setup, work: Workload, technique: TrainingTechnique) -> float:
    """Time of an update without the technique over the time with it."""
    return update_seconds(setup, work, technique.without) / update_seconds(setup, work, technique.used)


def update_seconds(setup: Setup, work: Workload, training: Training) -> float:
    """One update on completions of the smallest budget; see the constants for what is assumed."""
    shape, device = setup.shape, setup.hardware
    tokens = TOKENS if training.packed else TOKENS / FILLED
    length = min(work.longest(min(work.budgets)), ROW_TOKENS)
    matrix = device.matrix_flops * device.reached.matrix_share
    speed = {
        4: device.fp32_share,
        2: 1.0,
        1: 1.0 if device.fp8_flops is None else device.fp8_flops / device.matrix_flops,
    }
    passes = 4 if training.checkpointing else 3  # forward once, backward twice as much, and forward again
    layers_s = passes * tokens * token_flops(shape) / (matrix * speed[training.product_bytes])
    head_s = 3 * tokens * head_flops(shape) / (matrix * speed[max(2, training.product_bytes)])
    pairs = tokens / length * attention_flops(scores_of(shape), 0, length, decode=False)
    scores_s = (passes + 0.5) * pairs / matrix  # FlashAttention's backward is 2.5 times its forward
    moved = tokens * len(shape.layers) * shape.hidden_size * EAGER_BYTES * passes / 3
    moved *= COMPILED_SHARE if training.compiled else 1
    moved += tokens * shape.vocab_size * LOGIT_BYTES
    if not training.flash:
        scores_s *= 2  # the masked half is computed, too
        moved += tokens * length * SCORE_BYTES * sum(layer.mixer.query_heads for layer in shape.layers)
    moved += shape.parameters * ADAM_BYTES * (1 if training.fused else UNFUSED)
    launches_s = tokens / ROW_TOKENS * len(shape.layers) * KERNEL_S[training.compiled]
    return max(layers_s + head_s + scores_s + moved / device.weights_rate, launches_s)

"""What ends a step early, kept for the person who has to find out why."""

from __future__ import annotations

from pathlib import Path

import torch

from reasoning.files import write_json
from rl.generations import Generation
from rl.metrics import finite


def save_bad_batch(folder: Path, step: int, generation: Generation) -> str:
    """Write the rollouts behind a loss that is no number, if the disk takes them; what to tell about it."""
    path = folder / f"bad-batch-step-{step:06d}.json"
    kept = f"the batch is in {path}"
    try:
        write_json(path, finite(generation.state()))
    except OSError as error:
        kept = f"the batch could not be written ({error})"
    return (
        f"{kept}, and the weights were not touched by it. Lower grpo.learning_rate or grpo.max_grad_norm in a new run; "
        "with --model RUN/checkpoints/step-... it begins where a checkpoint stands"
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on a GPU or in main memory."""
    text = str(error)  # of an allocation that PyTorch did not make itself, it is all there is
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError)
        or "can't allocate memory" in text
        or "CUDA error: out of memory" in text
    )


def out_of_memory(step: int, row_tokens: int, error: BaseException) -> str:
    """What to lower, with the number that counts."""
    return (
        f"out of memory in step {step}: {(str(error).splitlines() or ['no details'])[0]}\n"
        f"lower update.row_tokens (now {row_tokens:,}), write grpo.gradient_checkpointing: true, or give the engine "
        "less (engine.kv_cache_gb, engine.gpu_memory_utilization, engine.max_num_seqs)"
    )

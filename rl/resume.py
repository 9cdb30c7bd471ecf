"""What a checkpoint holds beside the model, taken out of a trainer and put back: everything that the next step sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rl.checkpoints import load_state, random_state, restore_random_state
from rl.generations import Generation

if TYPE_CHECKING:
    from rl.trainer import GrpoTrainer


def state_of(trainer: GrpoTrainer) -> dict[str, Any]:
    """Tensors, plain values and JSON, as `rl.checkpoints` stores them."""
    generation = trainer.generation
    return {
        "step": trainer.state.global_step,
        "epoch": trainer.state.epoch,
        "optimizer": trainer.optimizer.state_dict(),
        "schedule": trainer.lr_scheduler.state_dict(),
        "masters": trainer.masters.tensors if trainer.masters.copied else None,
        "random": random_state(),
        "sampler": json.dumps(trainer.generator.sampler.state()),
        "generation": json.dumps(None if generation is None else generation.state()),
    }


def restore(trainer: GrpoTrainer, checkpoint: Path) -> None:
    """Put a trainer with a fresh optimizer where the one stood that wrote the checkpoint."""
    state = load_state(checkpoint)
    stored = type(trainer.model).from_pretrained(checkpoint, dtype=trainer.model.dtype)
    trainer.model.load_state_dict(stored.state_dict())
    if trainer.masters.copied:
        with torch.no_grad():
            torch._foreach_copy_(trainer.masters.tensors, state["masters"])
    trainer.optimizer.load_state_dict(state["optimizer"])
    trainer.lr_scheduler.load_state_dict(state["schedule"])
    trainer.state.global_step, trainer.state.epoch = state["step"], state["epoch"]
    trainer.generator.sampler.restore(json.loads(state["sampler"]))
    generation = json.loads(state["generation"])
    trainer.generation = None if generation is None else Generation.of(generation)
    restore_random_state(state["random"])

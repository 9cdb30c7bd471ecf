"""What a checkpoint holds beside the model, taken out of a trainer and put back: everything that the next step sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rl.checkpoints import load_state, random_state, restore_random_state, step_of
from rl.generations import Generation
from rl.lora import is_adapted, load_trained, network, whole_weights
from rl.sharding import spread_optimizer, whole_state

if TYPE_CHECKING:
    from rl.trainer import GrpoTrainer


def save_checkpoint(trainer: GrpoTrainer) -> bool:
    """Write a checkpoint of the last whole step, unless there is one; whether it did. The first process writes."""
    step, latest = trainer.state.global_step, trainer.processes.first(trainer.checkpoints.latest)
    if latest is not None and step_of(latest) == step:
        return False
    state = state_of(trainer)
    weights = _whole(trainer) if trainer.processes.sharded else None

    def write_trained(folder: Path) -> None:
        trainer.model.save_pretrained(folder, state_dict=weights)
        trainer.processing_class.save_pretrained(folder)

    trainer.processes.first(lambda: trainer.checkpoints.save(step, state, write_trained))
    return True


def write_model(trainer: GrpoTrainer, run: Path) -> None:
    """What other programs take: the whole model in model/, and of an adapted one the adapter in adapter/."""
    changed = trainer.processes.sharded or is_adapted(trainer.model)
    weights = _whole(trainer) if changed else None

    def write() -> None:
        network(trainer.model).save_pretrained(run / "model", state_dict=weights)
        trainer.processing_class.save_pretrained(run / "model")
        if is_adapted(trainer.model):
            trainer.model.save_pretrained(run / "adapter")

    trainer.processes.first(write)


def _whole(trainer: GrpoTrainer) -> dict[str, Tensor]:
    """All weights in main memory, of the process that writes them; the others help to put them together."""
    weights = whole_weights(trainer.model)
    return {name: weight.cpu() for name, weight in weights if trainer.processes.is_first}


def state_of(trainer: GrpoTrainer) -> dict[str, Any]:
    """Tensors, plain values and JSON, as `rl.checkpoints` stores them."""
    generation = trainer.generation
    return {
        "step": trainer.state.global_step,
        "epoch": trainer.state.epoch,
        "optimizer": whole_state(trainer.optimizer.state_dict()),
        "schedule": trainer.lr_scheduler.state_dict(),
        "masters": trainer.masters.tensors if trainer.masters.copied else None,
        "random": random_state(),
        "sampler": json.dumps(trainer.generator.sampler.state()),
        "generation": json.dumps(None if generation is None else generation.state()),
    }


def restore(trainer: GrpoTrainer, checkpoint: Path) -> None:
    """Put a trainer with a fresh optimizer where the one stood that wrote the checkpoint."""
    state = load_state(checkpoint)
    load_trained(trainer.model, checkpoint)
    if trainer.masters.copied:
        with torch.no_grad():
            torch._foreach_copy_(trainer.masters.tensors, state["masters"])
    trainer.optimizer.load_state_dict(spread_optimizer(state["optimizer"], trainer.optimizer))
    trainer.lr_scheduler.load_state_dict(state["schedule"])
    trainer.state.global_step, trainer.state.epoch = state["step"], state["epoch"]
    trainer.generator.sampler.restore(json.loads(state["sampler"]))
    generation = json.loads(state["generation"])
    trainer.generation = None if generation is None else Generation.of(generation)
    restore_random_state(state["random"])

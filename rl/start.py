"""From a checked plan to a trainer that is ready to run: the model, the memory plan, and the trial before step one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging
from trl import GRPOConfig

from reasoning.config import ConfigError
from reasoning.engine.base import Engine
from reasoning.train_config import TrainConfig
from rl.attention import of_row
from rl.curriculum import TaskSampler
from rl.distributed import Processes
from rl.generations import Generator, generation_settings
from rl.hooks import Hooks, UpdateSettings
from rl.lora import adapt
from rl.memory import Shape, free_bytes, plan_memory
from rl.reward_input import RewardFunction
from rl.rollouts import RolloutMaker, RolloutSettings
from rl.scorer import dropouts
from rl.trainer import GrpoTrainer

if TYPE_CHECKING:
    from peft import LoraConfig, PeftModel
    from transformers import PreTrainedModel


def start_trainer(
    *,
    source: str,
    dtype: torch.dtype,
    device: torch.device,
    config: TrainConfig,
    args: GRPOConfig,
    lora: LoraConfig | None,
    settings: RolloutSettings,
    rewards: Mapping[str, RewardFunction],
    engine: Engine,
    out: Path,
    held_out: Callable[[int], Mapping[str, float] | None],
    interrupted: Callable[[], bool],
    say: Callable[[str], None],
    processes: Processes,
) -> GrpoTrainer:
    """The trainer of a run, its model loaded, its memory planned.

    Raises:
        ConfigError: the model cannot be computed packed, or the update does not fit into memory.
    """
    logging.disable_progress_bar()  # it draws a bar for every file
    torch.manual_seed(config.seed)
    sharded = processes.sharded
    # Shards are the optimizer's masters.
    model = _load_model(source, torch.float32 if sharded else dtype, settings.longest_document, lora, say)
    row_tokens, threads = config.update.row_tokens, config.update.threads
    assert row_tokens is not None and threads is not None
    if dropouts(model) or sharded:
        threads = 1  # what threads drop, and when they ask for a layer, would depend on which of them is faster
    memory = plan_memory(
        _shape_here(model, dtype, processes),
        row_tokens,
        threads,
        free_bytes(device),
        asked=config.grpo.get("gradient_checkpointing"),
        reference=args.beta > 0 and lora is None,
    )
    say(memory.describe())
    args.gradient_checkpointing = memory.checkpointing
    chosen = generation_settings(args, config)
    sampler = TaskSampler(list(settings.tasks), config.seed, chosen.group, curriculum=config.curriculum)
    generator = Generator(RolloutMaker(engine, settings, interrupted), sampler, rewards, chosen, say, processes)
    # Attention in float32 goes through the documents one by one, which no compiled graph holds.
    flash = device.type == "cuda" and dtype != torch.float32 and not sharded
    compiled = flash if config.update.compile is None else config.update.compile
    return GrpoTrainer(
        model,
        settings.tokenizer,
        args,
        generator,
        UpdateSettings(row_tokens, settings.longest_document, dtype, threads, compiled),
        out,
        Hooks(held_out, config.held_out.every, config.checks.prompts, config.checks.generations, say),
    )


def _load_model(
    source: str, dtype: torch.dtype, longest: int, lora: LoraConfig | None, say: Callable[[str], None]
) -> PreTrainedModel | PeftModel:
    """The model in `source`, found to be one that can be computed packed, with the adapter if one is trained."""
    model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, attn_implementation="packed")
    check_model(model, longest)
    if lora is not None:
        model = adapt(model, lora)
        say(f"adapter: {model.get_nb_trainable_parameters()[0]:,} weights are trained")
    return model


def _shape_here(model: Any, dtype: torch.dtype, processes: Processes) -> Shape:
    """The shape of what this process holds of the model, which computes in `dtype`."""
    shape = Shape.of(model)
    if not processes.sharded:
        return shape
    return replace(shape, parameters=shape.parameters // processes.count, number_bytes=dtype.itemsize, trained=None)


def check_model(model: Any, longest: int) -> None:
    """Try whether a model's logits are what the update takes them for: its head times its last hidden states.

    Raises:
        ConfigError: they are not, or its attention has a window shorter than `longest` or another term of its own.
    """
    ids, positions, bounds = torch.tensor([1, 2]), torch.tensor([0, 1]), torch.tensor([0, 2], dtype=torch.int32)
    packed = of_row(ids, positions, bounds, longest)
    with torch.no_grad():
        logits = model(**packed).logits
        head = model.base_model(**packed).last_hidden_state @ model.get_output_embeddings().weight.T
    if not torch.allclose(logits, head, rtol=1e-3, atol=1e-3):
        raise ConfigError(
            f"the logits of {type(model).__name__} are not the product of its hidden states and its head (there is a "
            "bias, a scale or a cap), and the packed update would train something else; choose another model"
        )

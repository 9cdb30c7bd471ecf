"""Everything that can be known about a training run before the engine starts, and refused while it costs nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reasoning.config import ConfigError
from reasoning.eval_config import Sampling as SamplingSection
from reasoning.preflight import Plan, make_plan
from reasoning.train_config import TrainConfig, held_out_settings, rollout_settings
from reasoning.types import NO_LIMIT

if TYPE_CHECKING:
    import torch
    from peft import LoraConfig

    from rl.arguments import GRPOConfig
    from rl.reward_input import RewardFunction
    from rl.rollouts import RolloutSettings


@dataclass(frozen=True, slots=True)
class TrainPlan:
    """A checked training run. `config` has what was left open decided; it is what the run folder stores."""

    config: TrainConfig
    rollouts: Plan  # the training tasks at the training budget
    held_out: Plan
    settings: RolloutSettings
    rewards: Mapping[str, RewardFunction]
    args: GRPOConfig
    lora: LoraConfig | None
    device: torch.device
    max_model_len: int

    @property
    def dtype(self) -> torch.dtype:
        """What the weights compute in."""
        import torch

        return torch.bfloat16 if self.args.bf16 and self.device.type == "cuda" else torch.float32


def plan_training(config: TrainConfig) -> TrainPlan:
    """Check a run and decide what was left open.

    Raises:
        One of `reasoning.cli.USAGE_ERRORS`: what the user has to correct.
    """
    import torch

    from rl.arguments import grpo_arguments, typed_settings
    from rl.distributed import process_count
    from rl.generations import generation_settings
    from rl.lora import lora_config
    from rl.losses import objective_from
    from rl.preflight import check_template
    from rl.rewards import load_reward
    from rl.served import check_served

    _check_replicas(config.engine.replicas, process_count())
    cuda = torch.cuda.is_available()
    options = {"out": Path(config.out or "runs"), "seed": config.seed, "rewards": len(config.rewards)}
    config = config.model_copy(update={"grpo": typed_settings(config.grpo)})
    first = grpo_arguments(config.grpo, **options, max_completion_length=1, use_cpu=not cuda)
    device = torch.device("cuda" if cuda else "cpu")
    check_served(first, config.engine, device)
    sampling = SamplingSection(
        temperature=first.temperature, top_p=first.top_p, top_k=first.top_k, min_p=first.min_p or 0.0
    )
    rewards = {
        name: load_reward(name, chosen, config.checks.reward_deadline_s) for name, chosen in config.rewards.items()
    }
    rollouts = make_plan(rollout_settings(config, sampling))
    check_template(rollouts.tokenizer, rollouts.tasks[0])
    held_out = make_plan(held_out_settings(config, sampling))
    _check_apart(rollouts, held_out)
    _check_enough(rollouts, generation_settings(first, config).prompts, first)
    settings = _rollout_settings(config, rollouts)
    args = grpo_arguments(
        config.grpo, **options, max_completion_length=settings.max_completion_length, use_cpu=not cuda
    )
    objective_from(args)
    lora = lora_config(config.grpo)
    row_tokens, threads = _decide_rows(config, rollouts.model.source, settings.longest_document, cuda=cuda)
    resolved = config.model_copy(
        update={
            "model": rollouts.config.model,
            "max_answer_tokens": rollouts.max_answer_tokens,
            "countdown": rollouts.config.countdown,
            "update": config.update.model_copy(update={"row_tokens": row_tokens, "threads": threads}),
        }
    )
    return TrainPlan(
        config=resolved,
        rollouts=rollouts,
        held_out=held_out,
        settings=settings,
        rewards=rewards,
        args=args,
        lora=lora,
        device=device,
        max_model_len=max(rollouts.max_model_len, held_out.max_model_len),
    )


def _check_replicas(replicas: int, processes: int) -> None:
    if replicas > 1 and processes > 1:
        raise ConfigError(
            f"engine.replicas is {replicas}, and each of the {processes} processes has an engine on a device of its "
            "own; leave it out"
        )


def _rollout_settings(config: TrainConfig, plan: Plan) -> RolloutSettings:
    from rl.rollouts import RolloutSettings

    return RolloutSettings(
        tasks={task.id: task for task in plan.tasks},
        rendered=plan.rendered,
        tokenizer=plan.tokenizer,
        markers=plan.markers,
        closing=plan.closing,
        stop_ids=plan.stop_ids,
        sampling=plan.sampling,
        budget=plan.largest_budget if config.budget == NO_LIMIT else config.budget,
        max_answer_tokens=plan.max_answer_tokens,
        concurrency=config.engine.max_num_seqs,
        seed=config.seed,
    )


def _check_apart(rollouts: Plan, held_out: Plan) -> None:
    """Refuse to measure on what was trained."""
    shared = {task.id for task in rollouts.tasks} & {task.id for task in held_out.tasks}
    if shared:
        raise ConfigError(
            f"{len(shared):,} tasks are both trained and held out, {min(shared)} for one; "
            "name other tasks, or another split, in held_out"
        )


def _check_enough(plan: Plan, prompts: int, args: GRPOConfig) -> None:
    if len(plan.tasks) < prompts:
        raise ConfigError(
            f"{plan.config.tasks} gives {len(plan.tasks):,} training tasks, and one generation takes {prompts:,} "
            f"({args.generation_batch_size:,} completions in groups of {args.num_generations}); raise limit, or lower "
            "grpo.per_device_train_batch_size or grpo.steps_per_generation"
        )


def _decide_rows(config: TrainConfig, source: str, longest: int, *, cuda: bool) -> tuple[int, int]:
    """Tokens of a packed row, and the threads that compute rows side by side."""
    from rl.memory import default_row_tokens, gpu_bytes

    asked = config.update.row_tokens
    if asked is not None and asked < longest:
        raise ConfigError(
            f"update.row_tokens is {asked:,}, but a prompt with its completion may have {longest:,} tokens; "
            f"write {longest:,} or more, or lower budget"
        )
    threads = 1 if cuda else config.update.threads or min(2, len(os.sched_getaffinity(0)))
    return asked or max(longest, default_row_tokens(source, gpu_bytes())), threads

"""The settings of a training run: one schema beside the evaluation's, read by the same code.

The keys below `grpo:` are those of TRL's GRPOConfig, with its names and meanings; `rl.arguments` checks them. All other
keys are this project's own.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from reasoning.config import Section
from reasoning.eval_config import Budget, Budgets, Count, Countdown, Data, EngineSection, EvalConfig
from reasoning.eval_config import Sampling as SamplingSection

Share = Annotated[float, Field(ge=0, le=1)]


class TrainingData(Data):
    """Where the training tasks come from."""

    split: str = "train"


class Update(Section):
    """How the packed update runs. None: decided by the device, and printed.

    `row_tokens` is the size of a packed row, and so of a forward pass. `threads`: rows are computed side by side on so
    many threads, on the CPU alone.
    """

    row_tokens: Count | None = None
    compile: bool | None = None
    threads: Count | None = None


class HeldOut(Section):
    """The evaluation before and after training, and every so many steps (0: not in between).

    It is `python -m reasoning.eval` with the rollouts' prompt, closing and sampling on other tasks, and leaves its run
    folders below `eval/`. `budgets` None: the training budget; `tasks` None: the same set, its split `data.split`.
    """

    budgets: Budgets | None = None
    tasks: str | None = None
    limit: Count | None = 128
    samples: Count = 1
    every: int = Field(default=0, ge=0)
    seed: int = Field(default=1, ge=0)
    data: Data = Data()


class RolloutEngine(EngineSection):
    """The engine shares its device with the trainer, so it takes a smaller part of a GPU's memory."""

    gpu_memory_utilization: float = Field(default=0.3, gt=0, le=1)


class Checks(Section):
    """What is tried before the first step, and when a run stops by itself.

    `prompts` tasks are sampled `generations` times each. Training stops when more than `max_verifier_failures` of a
    generation's verdicts are timeouts or errors. One call of a reward of your own, with all completions of a generation
    or with one, may take `reward_deadline_s` seconds.
    """

    prompts: Count = 8
    generations: Count = 4
    max_verifier_failures: Share = 0.25
    reward_deadline_s: float = Field(default=60.0, gt=0)


class TrainConfig(Section):
    """Everything that decides the weights at the end of one training run.

    `budget` caps the thinking of every rollout; thinking that is cut is closed and answered, as in an evaluation.
    `rewards` names the rewards, each with its options; `grpo.reward_weights` weighs them in this order. `curriculum`
    draws tasks that are neither hopeless nor solved more often; `refill_rounds` bounds how often groups that teach
    nothing are replaced.
    """

    budget: Budget
    model: str = Field(default="pocket", min_length=1)
    tasks: str = Field(default="countdown", min_length=1)
    limit: Count | None = None
    seed: int = Field(default=0, ge=0)
    closing: str = Field(default="bare", min_length=1)
    max_answer_tokens: Count | None = None
    out: str | None = None
    rewards: dict[str, dict[str, Any]] = Field(default_factory=lambda: {"accuracy": {}}, min_length=1)
    curriculum: bool = False
    refill_rounds: int = Field(default=0, ge=0)
    countdown: Countdown = Countdown()
    data: TrainingData = TrainingData()
    update: Update = Update()
    held_out: HeldOut = HeldOut()
    checks: Checks = Checks()
    engine: RolloutEngine = RolloutEngine()
    grpo: dict[str, Any] = Field(default_factory=dict)


def rollout_settings(config: TrainConfig, sampling: SamplingSection) -> EvalConfig:
    """The training tasks at the training budget, as the evaluation that the rollouts are."""
    # The budget is put in as it was read: NO_LIMIT is not a number that settings may have.
    return EvalConfig(
        budgets=(1,),
        model=config.model,
        tasks=config.tasks,
        limit=config.limit,
        seed=config.seed,
        baseline=False,
        closing=config.closing,
        max_answer_tokens=config.max_answer_tokens,
        sampling=sampling,
        countdown=config.countdown,
        data=config.data,
        engine=config.engine,
    ).model_copy(update={"budgets": (config.budget,)})


def held_out_settings(config: TrainConfig, sampling: SamplingSection) -> EvalConfig:
    """The held-out evaluation."""
    chosen = config.held_out
    return rollout_settings(config, sampling).model_copy(
        update={
            "budgets": chosen.budgets or (config.budget,),
            "tasks": chosen.tasks or config.tasks,
            "limit": chosen.limit,
            "samples": chosen.samples,
            "seed": chosen.seed,
            "data": chosen.data,
        }
    )

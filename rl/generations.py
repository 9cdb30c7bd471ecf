"""One generation: tasks drawn, groups sampled and refilled, rewards and advantages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rl.advantages import Advantages, Scale, group_advantages, weighted_sum
from rl.curriculum import TaskSampler, refill
from rl.distributed import ALONE, Processes
from rl.reward_input import RewardFunction, reward_input
from rl.rewards import Scores, joined, score
from rl.rollouts import Rollout, RolloutMaker, Spent
from verifiers.base import Status

if TYPE_CHECKING:
    from trl import GRPOConfig

    from reasoning.train_config import TrainConfig


class TrainingStopped(RuntimeError):
    """Training cannot sensibly go on; the message is ready to show."""


@dataclass(slots=True)
class Generation:
    """Rollouts in groups side by side, with what was earned. Lists hold one entry a rollout.

    `old_logps` and `ref_logps` are float32 [prompt and completion tokens] each, or None where no loss needs them.
    """

    number: int
    rollouts: list[Rollout]
    rewards: list[float]  # NaN: none
    advantages: list[float]
    metrics: dict[str, float]
    old_logps: list[np.ndarray] | None = None
    ref_logps: list[np.ndarray] | None = None

    def state(self) -> dict[str, Any]:
        """Everything but the metrics, as JSON holds it."""
        return {
            "number": self.number,
            "rollouts": [rollout.line() for rollout in self.rollouts],
            "rewards": self.rewards,
            "advantages": self.advantages,
            "old_logps": _listed(self.old_logps),
            "ref_logps": _listed(self.ref_logps),
        }

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Generation:
        """What `state` wrote."""
        return cls(
            state["number"],
            [Rollout.of(line) for line in state["rollouts"]],
            list(state["rewards"]),
            list(state["advantages"]),
            {},
            _arrays(state["old_logps"]),
            _arrays(state["ref_logps"]),
        )


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """`prompts` groups of `group` completions make a generation; `windows` optimizer steps share it out."""

    prompts: int
    group: int
    windows: int
    scale: Scale
    reward_weights: tuple[float, ...]
    refill_rounds: int
    mask_truncated: bool
    max_verifier_failures: float
    seed: int


def generation_settings(args: GRPOConfig, config: TrainConfig) -> GenerationSettings:
    """What GRPOConfig and the configuration say of a generation."""
    assert args.generation_batch_size and args.num_generations and args.steps_per_generation
    return GenerationSettings(
        prompts=args.generation_batch_size // args.num_generations,
        group=args.num_generations,
        windows=args.steps_per_generation // args.gradient_accumulation_steps,
        scale=cast(Scale, args.scale_rewards),
        reward_weights=tuple(args.reward_weights or [1.0] * len(config.rewards)),
        refill_rounds=config.refill_rounds,
        mask_truncated=args.mask_truncated_completions,
        max_verifier_failures=config.checks.max_verifier_failures,
        seed=config.seed,
    )


@dataclass(frozen=True, slots=True)
class Generator:
    """Makes generations one after the other. Each of the `processes` samples and grades some groups; all hold all."""

    maker: RolloutMaker
    sampler: TaskSampler
    rewards: Mapping[str, RewardFunction]
    settings: GenerationSettings
    remark: Callable[[str], None] = field(default=print)
    processes: Processes = ALONE

    def make(self, number: int, spent: Spent) -> Generation:
        """Generation `number`, from the sampler's next tasks. `spent` is added to.

        Raises:
            TrainingStopped: too many verdicts are timeouts or errors, or a reward is wrong about how many there are.
        """
        chosen = self.settings
        groups: list[_Group] = []
        wanted, rounds = chosen.prompts, 0
        while wanted:
            drawn = [group.rollouts[0].task_id for group in groups]
            groups += self._groups(self.sampler.draw(wanted, without=drawn), number, spent)
            live = sum(group.live for group in groups)
            wanted = refill(chosen.prompts, live, len(groups), rounds, chosen.refill_rounds)
            wanted = min(wanted, len(self.sampler) - len(groups))
            rounds += wanted > 0
        # Live groups first, in the order of drawing; dead ones only where there are too few.
        kept = sorted(groups, key=lambda group: not group.live)[: chosen.prompts]
        rollouts = [rollout for group in kept for rollout in group.rollouts]
        rewards = np.concatenate([group.rewards for group in kept])
        found = self._advantages(rewards, [rollout.task_id for rollout in rollouts])
        everything = [rollout for group in groups for rollout in group.rollouts]
        metrics = _measure(everything, groups, len(kept), rounds, list(self.rewards))
        return Generation(number, rollouts, rewards.tolist(), found.values.tolist(), metrics)

    def graded(self, task_ids: Sequence[str], group: int, number: int, spent: Spent) -> tuple[list[Rollout], Scores]:
        """`group` completions of every task for generation `number`, and what the rewards say. `spent` is added to.

        Raises:
            TrainingStopped: a reward returned the wrong number of values, or no numbers.
        """
        own = self.processes.share_of(task_ids)
        parts = self.processes.each(lambda: self._part(own, group, number))
        spent.add([part.spent for part in parts])
        return [one for part in parts for one in part.rollouts], joined([part.scores for part in parts])

    def _part(self, task_ids: Sequence[str], group: int, number: int) -> _Part:
        """What this process makes of it."""
        spent = Spent()
        rollouts = self.maker.make(task_ids, group, number, spent) if task_ids else []
        started = time.perf_counter()
        scores = self._scored(rollouts) if rollouts else Scores(np.empty((0, len(self.rewards))), {})
        spent.score_s += time.perf_counter() - started
        return _Part(rollouts, scores, spent)

    def _scored(self, rollouts: Sequence[Rollout]) -> Scores:
        tasks = self.maker.settings.tasks
        inputs = [reward_input(tasks[one.task_id], one.generation, one.verdict) for one in rollouts]
        try:
            return score(self.rewards, inputs)
        except ValueError as error:
            raise TrainingStopped(str(error)) from error

    def _groups(self, task_ids: Sequence[str], number: int, spent: Spent) -> list[_Group]:
        rollouts, scores = self.graded(task_ids, self.settings.group, number, spent)
        self._check_failures(rollouts, scores)
        rewards = weighted_sum(scores.values, self.settings.reward_weights)
        advantages = self._advantages(rewards, [one.task_id for one in rollouts])
        groups = []
        for start in range(0, len(rollouts), self.settings.group):
            members = slice(start, start + self.settings.group)
            graded = [one.verdict.status for one in rollouts[members] if one.verdict.status is not Status.ERROR]
            self.sampler.rates.record(rollouts[start].task_id, graded.count(Status.CORRECT), len(graded))
            groups.append(
                _Group(rollouts[members], rewards[members], not advantages.dead[start], scores.values[members])
            )
        return groups

    def _advantages(self, rewards: np.ndarray, task_ids: Sequence[str]) -> Advantages:
        return group_advantages(rewards, task_ids, self.settings.group, self.settings.scale)

    def _check_failures(self, rollouts: Sequence[Rollout], scores: Scores) -> None:
        total = len(rollouts)
        for name, (count, message) in scores.errors.items():
            self.remark(f"warning: reward {name} failed on {count:,} of {total:,} completions: {message}")
        failed = [one.verdict for one in rollouts if one.verdict.status in (Status.TIMEOUT, Status.ERROR)]
        worst = max([len(failed), *(count for count, _ in scores.errors.values())])
        if worst > self.settings.max_verifier_failures * total:
            messages = [*(verdict.detail for verdict in failed), *(message for _, message in scores.errors.values())]
            detail = next((message for message in messages if message), "")
            raise TrainingStopped(
                f"{worst:,} of {total:,} completions could not be scored, more than "
                f"{self.settings.max_verifier_failures:.0%} (checks.max_verifier_failures)"
                + (f"; one of them: {detail}" if detail else "")
            )


@dataclass(frozen=True, slots=True)
class _Part:
    rollouts: list[Rollout]
    scores: Scores
    spent: Spent


@dataclass(frozen=True, slots=True)
class _Group:
    rollouts: list[Rollout]
    rewards: np.ndarray
    live: bool
    by_reward: np.ndarray  # [completions, rewards]


def _measure(
    rollouts: Sequence[Rollout], groups: Sequence[_Group], kept: int, rounds: int, rewards: Sequence[str]
) -> dict[str, float]:
    """What a generation was like, over everything that was sampled for it."""
    made = [rollout.generation for rollout in rollouts]
    earned = np.concatenate([group.rewards for group in groups])
    statuses = [rollout.verdict.status for rollout in rollouts]
    metrics = {
        "reward": _mean(earned),
        "reward_std": float(np.nanstd(earned)) if np.isfinite(earned).any() else float("nan"),
        "accuracy": statuses.count(Status.CORRECT) / len(statuses),
        "completion_tokens": float(np.mean([len(one.completion_ids) for one in made])),
        "longest_completion": float(max(len(one.completion_ids) for one in made)),
        "thinking_tokens": float(np.mean([one.thinking_tokens for one in made])),
        "bound_share": float(np.mean([one.bound for one in made])),
        "truncated_share": float(np.mean([rollout.truncated for rollout in rollouts])),
        "dead_groups": float(np.mean([not group.live for group in groups])),
        "unused_groups": float(len(groups) - kept),
        "refill_rounds": float(rounds),
    }
    by_reward = np.concatenate([group.by_reward for group in groups])
    metrics |= {f"rewards/{name}": _mean(column) for name, column in zip(rewards, by_reward.T, strict=True)}
    metrics["verdicts/starved"] = float(np.mean([rollout.verdict.starved for rollout in rollouts]))
    return metrics | {f"verdicts/{status.value}": statuses.count(status) / len(statuses) for status in Status}


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _listed(arrays: Sequence[np.ndarray] | None) -> list[list[float]] | None:
    return None if arrays is None else [array.tolist() for array in arrays]


def _arrays(lists: Sequence[Sequence[float]] | None) -> list[np.ndarray] | None:
    return None if lists is None else [np.array(values, np.float32) for values in lists]

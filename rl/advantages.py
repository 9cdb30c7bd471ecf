"""Rewards of groups of completions into advantages: how much better than its group was each completion?

Pure numpy in float64, no tensors. A reward that could not be determined is NaN (None of a reward function): it is in
no mean and no deviation, and its completion gets advantage 0. It is never a reward of 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Scale = Literal["group", "batch", "none"]
"""What advantages are divided by (the values of TRL's `scale_rewards`): the deviation of the group, of the batch, 1."""

EPSILON = 1e-4
"""Added to the deviation before dividing, as in TRL."""

_NOISE = 1e-9
"""Rewards of a group that differ by no more than this, relative to their size, are equal: sums of weighted rewards
carry rounding noise."""


@dataclass(frozen=True, slots=True)
class Advantages:
    """Per completion, in the order given.

    values: float64 [completions], exactly 0 for completions without a reward and in dead groups. dead: bool
    [completions], True when the group has no two different rewards to compare: nothing can be learnt from it.
    """

    values: np.ndarray
    dead: np.ndarray


def weighted_sum(rewards: np.ndarray, weights: Sequence[float]) -> np.ndarray:
    """One reward a completion: the weighted sum of those that are there; NaN only when all are missing (as TRL).

    rewards float64 [completions, functions], NaN where a function returned None; one weight a function.
    """
    if rewards.ndim != 2 or rewards.shape[1] != len(weights):
        raise ValueError(f"rewards of shape {rewards.shape} do not go with {len(weights)} weights")
    total = np.nansum(rewards * np.asarray(weights, np.float64), axis=1)
    return np.where(np.isnan(rewards).all(axis=1), np.nan, total)


def group_advantages(
    rewards: np.ndarray, groups: Sequence[Hashable], group_size: int, scale: Scale = "group"
) -> Advantages:
    """Reward minus the mean of its group, over the deviation that `scale` names plus EPSILON.

    rewards float64 [completions]; `groups[i]` identifies the prompt of completion i, in any order. Deviations divide
    by n - 1 (ddof 1, as TRL; TRL's asynchronous trainer divides by n). With `scale` "none" this is Dr. GRPO's
    advantage, without the length bias of a deviation near 0.

    Raises:
        ValueError: a group does not have exactly `group_size` completions.
    """
    rewards = np.asarray(rewards, np.float64)
    members = _members(groups, len(rewards), group_size)
    values = np.zeros(len(rewards))
    dead = np.zeros(len(rewards), bool)
    batch_deviation = _deviation(rewards) if scale == "batch" else 0.0
    for index in members.values():
        own = rewards[index]
        known = own[~np.isnan(own)]
        if _all_equal(known):
            dead[index] = True
            continue
        deviation = {"group": _deviation(own) + EPSILON, "batch": batch_deviation + EPSILON, "none": 1.0}[scale]
        values[index] = np.nan_to_num((own - known.mean()) / deviation, nan=0.0)
    return Advantages(values, dead)


def _members(groups: Sequence[Hashable], completions: int, group_size: int) -> dict[Hashable, np.ndarray]:
    """Indices of the completions of every group, in order of first appearance."""
    if len(groups) != completions:
        raise ValueError(f"{completions} rewards, but {len(groups)} group names")
    found: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        found.setdefault(group, []).append(index)
    for group, index in found.items():
        if len(index) != group_size:
            raise ValueError(
                f"group {group!r} has {len(index)} completions, not num_generations = {group_size}: "
                "an advantage over half a group, or over two, would be wrong"
            )
    return {group: np.array(index) for group, index in found.items()}


def _deviation(values: np.ndarray) -> float:
    """Standard deviation of the known values, ddof 1; 0 for fewer than two."""
    known = values[~np.isnan(values)]
    return float(known.std(ddof=1)) if len(known) > 1 else 0.0


def _all_equal(known: np.ndarray) -> bool:
    """Whether there are no two different values."""
    return len(known) < 2 or bool(np.ptp(known) <= _NOISE * max(1.0, float(np.abs(known).max())))

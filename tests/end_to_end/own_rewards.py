"""Rewards of a user's own, for training tests. They are imported in worker processes, so nothing heavy is here."""

from __future__ import annotations

from collections.abc import Sequence

from rl.reward_input import RewardInput
from rl.vocabulary import NUMBER_0


def first_token(samples: Sequence[RewardInput]) -> list[float]:
    """For beginning with a number below 200: half of what an untrained model does."""
    return [float(NUMBER_0 <= sample.completion_ids[0] < NUMBER_0 + 200) for sample in samples]


def shorter(samples: Sequence[RewardInput]) -> list[float]:
    """For brevity."""
    return [-float(len(sample.completion_ids)) for sample in samples]


def one_too_few(samples: Sequence[RewardInput]) -> list[float]:
    """Wrong about how many samples there are."""
    return [0.0 for _ in samples][1:]


def always_half(samples: Sequence[RewardInput]) -> list[float]:
    """Teaches nothing."""
    return [0.5 for _ in samples]

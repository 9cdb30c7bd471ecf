"""What the trainer is told from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """What was decided of the update. `longest`: tokens that a prompt with its completion can have.

    `dtype` is what weights compute in.
    """

    row_tokens: int
    longest: int
    dtype: torch.dtype
    threads: int
    compiled: bool


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the command does around the steps.

    `held_out(step)` evaluates what the engine holds and returns metrics, None when the user asked to stop. The trial
    before the first step samples `trial_prompts` tasks `trial_generations` times.
    """

    held_out: Callable[[int], Mapping[str, float] | None]
    held_out_every: int
    trial_prompts: int
    trial_generations: int
    say: Callable[[str], None]

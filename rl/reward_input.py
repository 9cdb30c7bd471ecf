"""What a reward may look at, and what it must return; both also as JSON, for rewards that run in another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reasoning.types import FinishReason, Generation, Task
from verifiers.base import Status, Verdict


@dataclass(frozen=True, slots=True)
class RewardInput:
    """What a reward may look at, for one completion. Lengths are tokens.

    `finished`: the model ended its text by itself. `closed_once`: the model itself closed its thinking, once, and began
    no second section. `text` shows special tokens, `answer_text` leaves them out.
    """

    task: Task
    verdict: Verdict
    completion_ids: tuple[int, ...]
    thinking_tokens: int
    budget: int
    finished: bool
    closed_once: bool
    text: str
    answer_text: str

    def line(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {**asdict(self), "task": {**asdict(self.task), "meta": dict(self.task.meta)}}

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> RewardInput:
        """What `line` wrote. Tuples inside `task.meta` come back as lists."""
        task, verdict = dict(line["task"]), dict(line["verdict"])
        task["prompt"] = tuple(task["prompt"])
        verdict["status"] = Status(verdict["status"])
        verdict["span"] = verdict["span"] and tuple(verdict["span"])
        rebuilt: dict[str, Any] = {
            "task": Task(**task),
            "verdict": Verdict(**verdict),
            "completion_ids": tuple(line["completion_ids"]),
        }
        return cls(**{**line, **rebuilt})


Rewards = list[float | None]
RewardFunction = Callable[[Sequence[RewardInput]], Rewards]


def ended(generation: Generation) -> bool:
    """Whether the model ended its text by itself: its answer did not run into the cap, and there was one."""
    return generation.finish_reason in (FinishReason.ANSWERED, FinishReason.UNCLOSED)


def reward_input(task: Task, generation: Generation, verdict: Verdict) -> RewardInput:
    """The record of one graded rollout."""
    return RewardInput(
        task=task,
        verdict=verdict,
        completion_ids=generation.completion_ids,
        thinking_tokens=generation.thinking_tokens,
        budget=generation.key.budget,
        finished=ended(generation),
        closed_once=generation.answer_start is not None and not generation.forced and not generation.escaped,
        text=generation.text,
        answer_text=generation.answer_text,
    )


class WrongRewards(ValueError):
    """What a reward returned is not one number or None a sample."""


def checked(name: str, returned: Any, expected: int) -> np.ndarray:
    """The values of `expected` samples, float64, NaN for None.

    Raises:
        WrongRewards: there are more or fewer, or one is no finite number.
    """
    try:
        listed = list(returned)
    except TypeError as error:
        raise WrongRewards(f"reward {name} returned {type(returned).__name__}, not one value a sample") from error
    if len(listed) != expected:
        raise WrongRewards(
            f"reward {name} returned {len(listed)} values for {expected} samples; return one value a sample, None "
            "where there is none"
        )
    try:
        values = np.array([np.nan if value is None else float(value) for value in listed], np.float64)
    except (TypeError, ValueError) as error:
        raise WrongRewards(f"reward {name} returned something that is neither a number nor None: {error}") from error
    if np.isinf(values).any():
        raise WrongRewards(f"reward {name} returned an infinite value; return None where there is no reward")
    return values

"""Rewards by name: what a completion earns, from its verdict, its form and its length.

Every reward takes a batch of `RewardInput`s and returns one number a sample, or None where it cannot say. None is not
0: it is left out of the weighted sum and of the group's mean (`rl.advantages`). A user's own reward is named by its
place, `package.module:function`, and is called in the same way, in a process of its own (`rl.own_rewards`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Any, get_type_hints

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from reasoning.config import ConfigError
from rl.own_rewards import WORKERS, RewardFailed, check_options, own_reward
from rl.reward_input import RewardFunction, RewardInput, Rewards, WrongRewards, checked
from verifiers.base import Status, Verdict

DEADLINE_S = 60.0
"""Seconds that one call of a user's own reward may take, unless told otherwise."""


def accuracy(samples: Sequence[RewardInput]) -> Rewards:
    """1 for correct; 0 for wrong, for no answer, and for a verifier that ran out of time; None when it failed."""
    return [_paid(sample.verdict) for sample in samples]


def code_partial(samples: Sequence[RewardInput]) -> Rewards:
    """The share of tests that passed, in [0, 1], where the verdict has one; `accuracy` otherwise."""
    return [_share_of_tests(sample.verdict) for sample in samples]


def format_reward(samples: Sequence[RewardInput]) -> Rewards:
    """1 when the model closed its thinking itself, once, and wrote something after it; otherwise 0."""
    return [float(sample.closed_once and bool(sample.answer_text.strip())) for sample in samples]


def length_exact(samples: Sequence[RewardInput], *, target: int | None = None, alpha: float = 0.0003) -> Rewards:
    """accuracy - alpha * |target - thinking tokens| (L1-Exact, arXiv 2503.04697; it includes the accuracy).

    `target` None: the thinking budget.
    """
    return [_with_accuracy(sample, target, lambda paid, spare: paid - alpha * abs(spare)) for sample in samples]


def length_max(samples: Sequence[RewardInput], *, target: int | None = None, alpha: float = 0.0003) -> Rewards:
    """accuracy * (1 + clip(alpha * (target - thinking tokens), -1, 1)) / 2: one half at the target, in [0, 1].

    L1-Max as its code has it (it includes the accuracy). The paper (arXiv 2503.04697) writes clip(alpha * spare + 1/2,
    0, 1), twice as steep and also one half at the target. `target` None: the thinking budget.
    """
    return [
        _with_accuracy(sample, target, lambda paid, spare: paid * (1 + min(1.0, max(-1.0, alpha * spare))) / 2)
        for sample in samples
    ]


def soft_overlong(samples: Sequence[RewardInput], *, longest: int, cache: int) -> Rewards:
    """0 up to `longest - cache` completion tokens, falling to -1 at `longest`, -1 above (DAPO, arXiv 2503.14476)."""
    if not 0 < cache <= longest:
        raise ConfigError(f"soft_overlong needs 0 < cache <= longest; cache is {cache}, longest is {longest}")
    over = (len(sample.completion_ids) - (longest - cache) for sample in samples)
    return [-min(1.0, max(0.0, tokens / cache)) for tokens in over]


def repetition(samples: Sequence[RewardInput], *, n: int = 3, penalty: float = -1.0) -> Rewards:
    """`penalty` times the share of n-grams of the completion's ids that occurred before (arXiv 2502.03373, C.2)."""
    if n < 1 or penalty > 0:
        raise ConfigError(f"repetition needs n of 1 or more and a penalty of 0 or less; n is {n}, penalty is {penalty}")
    return [penalty * _repeated_share(sample.completion_ids, n) for sample in samples]


REWARDS: dict[str, Callable[..., Rewards]] = {
    "accuracy": accuracy,
    "code_partial": code_partial,
    "format": format_reward,
    "length_exact": length_exact,
    "length_max": length_max,
    "soft_overlong": soft_overlong,
    "repetition": repetition,
}


def load_reward(name: str, options: Mapping[str, Any], deadline_s: float = DEADLINE_S) -> RewardFunction:
    """The reward called `name` in REWARDS, or at `package.module:function`, with its keyword options bound.

    One call of a function of the user's own may take `deadline_s` seconds.

    Raises:
        ConfigError: no such reward, module or function, an option that it does not take, one that is missing, or a
            value of another type.
    """
    if ":" in name:
        return own_reward(name, options, deadline_s)
    function = REWARDS.get(name)
    if function is None:
        close = get_close_matches(name, REWARDS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"use {', '.join(REWARDS)} or your package.module:function"
        raise ConfigError(f"no reward is called '{name}'; {hint}")
    check_options(name, function, options)
    bound = partial(function, **_typed(name, function, options))
    bound(())  # options that cannot work fail here, not after the first generation
    return bound


def _typed(name: str, function: Callable[..., Rewards], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the function declares them: numbers from the command line come as text."""
    kinds = get_type_hints(function)
    typed = {}
    for key, value in options.items():
        try:
            typed[key] = TypeAdapter(kinds[key], config=ConfigDict(allow_inf_nan=False)).validate_python(value)
        except ValidationError as error:
            raise ConfigError(f"reward {name}: {key} is {value!r}; {error.errors()[0]['msg'].lower()}") from None
    return typed


@dataclass(frozen=True, slots=True)
class Scores:
    """values: float64 [samples, rewards], NaN where a reward returned None or raised. errors: rewards that raised, with
    how many samples that cost and the last message."""

    values: np.ndarray
    errors: dict[str, tuple[int, str]] = field(default_factory=dict)


def joined(parts: Sequence[Scores]) -> Scores:
    """Scores of all samples from those of their parts."""
    errors: dict[str, tuple[int, str]] = {}
    for part in parts:
        for name, (count, message) in part.errors.items():
            errors[name] = (errors.get(name, (0, ""))[0] + count, message)
    return Scores(np.concatenate([part.values for part in parts]), errors)


def score(rewards: Mapping[str, RewardFunction], samples: Sequence[RewardInput]) -> Scores:
    """Every reward of every sample. A reward that raises is asked again sample by sample, and those that raise stay
    without one.

    Raises:
        ValueError: a reward returned the wrong number of values, or something that is no number; its name is given.
    """
    values = np.full((len(samples), len(rewards)), np.nan)
    errors: dict[str, tuple[int, str]] = {}
    for column, (name, function) in enumerate(rewards.items()):
        found = _tried(name, function, samples)
        if isinstance(found, str):
            with ThreadPoolExecutor(WORKERS) as pool:
                one_by_one = list(pool.map(lambda sample: _tried(name, function, [sample]), samples))  # noqa: B023
            failed = [one for one in one_by_one if isinstance(one, str)]
            if failed:
                errors[name] = (len(failed), failed[-1])
            found = np.array([np.nan if isinstance(one, str) else one[0] for one in one_by_one])
        values[:, column] = found
    return Scores(values, errors)


def _tried(name: str, function: RewardFunction, samples: Sequence[RewardInput]) -> np.ndarray | str:
    """The values, or what went wrong: one bad sample must not end a run."""
    try:
        return checked(name, function(samples), len(samples))
    except WrongRewards:
        raise
    except RewardFailed as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a named boundary, as the docstring says
        return f"{type(error).__name__}: {error}"


def _paid(verdict: Verdict) -> float | None:
    return None if verdict.status is Status.ERROR else float(verdict.status is Status.CORRECT)


def _share_of_tests(verdict: Verdict) -> float | None:
    return _paid(verdict) if verdict.score is None else verdict.score


def _with_accuracy(sample: RewardInput, target: int | None, combine: Callable[[float, int], float]) -> float | None:
    """`combine(accuracy, tokens left of the target)`."""
    paid = _paid(sample.verdict)
    aim = sample.budget if target is None else target
    return None if paid is None else combine(paid, aim - sample.thinking_tokens)


def _repeated_share(ids: Sequence[int], n: int) -> float:
    total = len(ids) - n + 1
    return 0.0 if total < 1 else 1 - len(set(zip(*(ids[start:] for start in range(n)), strict=False))) / total

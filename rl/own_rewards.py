"""Rewards of the user's own, in processes that are killed when a call takes too long.

A function named `package.module:function` is imported in a worker of `verifiers.pool` and called there with a list of
`RewardInput`. It may keep what it loads from one call to the next; after a call that was killed it starts again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from reasoning.config import ConfigError
from rl.reward_input import RewardInput, Rewards, WrongRewards, checked
from verifiers.pool import JobFailed, JobTimeout, WorkerPool

WORKERS = 8
"""Processes, started when needed: one for whole generations, the others where samples are tried one by one."""

_ANY_MEMORY = 1 << 46  # bytes; what a function of the user loads is the user's choice


class RewardFailed(Exception):
    """A call raised, died or took too long; the message is ready to show."""


def own_reward(place: str, options: Mapping[str, Any], deadline_s: float) -> Callable[[Sequence[RewardInput]], Rewards]:
    """The function at `place`, which raises `RewardFailed` and `WrongRewards`. It is imported here once, as a check.

    Raises:
        ConfigError: no such module or function, or an option that it does not take.
    """
    check_options(place, _imported(place), options)
    pool = WorkerPool("rl.own_rewards:load", size=WORKERS, deadline_s=deadline_s, memory_bytes=_ANY_MEMORY)

    def reward(samples: Sequence[RewardInput]) -> Rewards:
        try:
            reply, _ = pool.call(place, dict(options), [sample.line() for sample in samples])
        except JobTimeout:
            raise RewardFailed(f"no answer within {deadline_s:g} s (checks.reward_deadline_s)") from None
        except JobFailed as error:
            raise RewardFailed(str(error)) from None
        if "wrong" in reply:
            raise WrongRewards(reply["wrong"])
        return reply["values"]

    return reward


def load() -> Callable[[str, dict[str, Any], list[dict[str, Any]]], dict[str, Any]]:
    """The factory for the workers."""

    def call(place: str, options: dict[str, Any], lines: list[dict[str, Any]]) -> dict[str, Any]:
        returned = _imported(place)([RewardInput.of(line) for line in lines], **options)
        try:
            return {"values": checked(place, returned, len(lines)).tolist()}
        except WrongRewards as error:
            return {"wrong": str(error)}

    return call


def check_options(name: str, function: Callable[..., Rewards], options: Mapping[str, Any]) -> None:
    """Refuse options that the function does not take, and those that are missing."""
    try:
        inspect.signature(function).bind((), **options)
    except TypeError as error:
        written = ", ".join(f"{key}={value!r}" for key, value in options.items())
        raise ConfigError(f"reward {name} cannot be called as {name}(samples, {written}): {error}") from error


@cache
def _imported(place: str) -> Callable[..., Rewards]:
    module_name, _, function_name = place.partition(":")
    try:
        function = getattr(import_module(module_name), function_name)
    except ImportError as error:
        raise ConfigError(f"reward {place}: {module_name} cannot be imported: {error}") from error
    except AttributeError as error:
        raise ConfigError(f"reward {place}: {module_name} has no '{function_name}'") from error
    if not callable(function):
        raise ConfigError(f"reward {place} is a {type(function).__name__}, not a function")
    return function

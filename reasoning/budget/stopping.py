"""When to stop thinking: rules that see the answers a trace would give so far, and nothing else.

A probe is the answer that is forced at a budget. The same rules stop a trace while it is sampled
(`BudgetController`) and are replayed on stored traces (`eval.policies`), so that both stop at the same probe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol

from reasoning.config import ConfigError


@dataclass(frozen=True, slots=True)
class Probe:
    """What the answer forced at a budget tells a rule."""

    label: str | None  # which answer it is; None: none could be read
    confidence: float | None = None  # mean probability of its tokens as sampled, if the engine gave log-probabilities


class StopRule(Protocol):
    """Whether to stop at the last of the probes so far. Budgets ascending, budget 0 is no probe."""

    def __call__(self, probes: Sequence[Probe]) -> bool: ...


@dataclass(frozen=True, slots=True)
class Agreement:
    """Stop when the last `times` probes gave the same answer (Y. Fu et al., Dynasor, 2024)."""

    times: int

    def __call__(self, probes: Sequence[Probe]) -> bool:
        last = probes[-self.times :]
        return len(last) == self.times and last[0].label is not None and len({probe.label for probe in last}) == 1


@dataclass(frozen=True, slots=True)
class Confidence:
    """Stop when the probe is sure of its answer: mean token probability (C. Yang et al., DEER, 2025)."""

    threshold: float

    def __call__(self, probes: Sequence[Probe]) -> bool:
        last = probes[-1]
        return last.label is not None and last.confidence is not None and last.confidence >= self.threshold


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a policy. `read` turns its text into a value and raises ValueError with what it wants.

    `default` is the text that stands where none is given; None: it has to be given.
    """

    name: str
    read: Callable[[str], Any]
    default: str | None = None


def at_least(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or int(text) < least:
            raise ValueError(f"a whole number of at least {least}")
        return int(text)

    return read


def probability(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value <= 1.0:
        raise ValueError("a number above 0, at most 1")
    return value


RULES: dict[str, tuple[Argument, ...]] = {
    "agree": (Argument("n", at_least(2)),),
    "deer": (Argument("p", probability, "0.95"),),
}
"""Policies that can stop a trace while it is sampled, with their arguments."""

FACTORIES: dict[str, Callable[..., StopRule]] = {
    "agree": lambda n: Agreement(times=n),
    "deer": lambda p: Confidence(threshold=p),
}


def stop_rule(text: str) -> StopRule:
    """The rule that `text` names, such as `agree:3`.

    Raises:
        ConfigError: there is none; the message says what to write.
    """
    name, values = read_call(text, RULES)
    return FACTORIES[name](**values)


def read_call(text: str, known: Mapping[str, Sequence[Argument]]) -> tuple[str, dict[str, Any]]:
    """A name and its arguments from `name:value,key=value`.

    Raises:
        ConfigError: an unknown name or argument, one that is missing, or a value that cannot be read.
    """
    name, _, rest = text.partition(":")
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(known)}."
        raise ConfigError(f"unknown policy '{name}'. {hint}")
    arguments = {argument.name: argument for argument in known[name]}
    values: dict[str, Any] = {}
    for place, part in enumerate(filter(None, rest.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            if place >= len(arguments):
                raise ConfigError(f"{text}: too many arguments; write {usage(name, known[name])}")
            key, value = known[name][place].name, part
        if key not in arguments or key in values:
            what = "unknown" if key not in arguments else "repeated"
            raise ConfigError(f"{text}: {what} argument '{key}'; write {usage(name, known[name])}")
        try:
            values[key] = arguments[key].read(value)
        except ValueError as error:
            raise ConfigError(f"{text}: {key} is {error}, not '{value}'") from None
    for key, argument in arguments.items():
        if key in values:
            continue
        if argument.default is None:
            raise ConfigError(f"{text}: {key} is missing; write {usage(name, known[name])}")
        values[key] = argument.read(argument.default)
    return name, values


def usage(name: str, arguments: Sequence[Argument]) -> str:
    """`agree:n=N`, as in a message or a help text."""
    parts = [f"{one.name}={one.name.upper() if one.default is None else one.default}" for one in arguments]
    return name + (":" + ",".join(parts) if parts else "")

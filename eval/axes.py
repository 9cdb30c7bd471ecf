"""What accuracy can be drawn against: tokens, or what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from reasoning.budgets import format_budget
from reasoning.config import ConfigError


@dataclass(frozen=True, slots=True)
class Axis:
    """A cost of samples. `text` writes a tick; no cost is drawn below `floor`, for the logarithm."""

    name: str
    noun: str
    caption: str  # how it is counted; may be empty
    text: Callable[[float], str]
    unit: float = 1.0  # what a whole number of it stands for, where samples carry whole numbers
    floor: float = 1e-30

    @property
    def per_sample(self) -> str:
        if self.name == "tokens":
            return "Tokens spent per sample: thinking + answer, mean (log scale)"
        return f"{self._start} per sample, mean (log scale)"

    @property
    def per_task(self) -> str:
        spent = " spent" if self.name == "tokens" else ""
        return f"{self._start}{spent} per task, all samples together, mean (log scale)"

    @property
    def mean(self) -> str:
        spent = " spent" if self.name == "tokens" else ""
        return f"{self._start}{spent}, mean (log scale)"

    @property
    def _start(self) -> str:
        return self.noun[0].upper() + self.noun[1:]


def short(tokens: float) -> str:
    """A round number of tokens as budgets are written, millions too: 500, 1k, 3M."""
    return f"{tokens / 1e6:g}M" if tokens >= 1e6 else format_budget(round(tokens))


PREFIXES = (
    *(("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)),
    *(("µ", 1e-6), ("n", 1e-9)),
)


def with_prefix(value: float) -> str:
    """A round number with the prefix that suits it: 20G, 1T, 50µ; none from a thousandth to a thousand."""
    if 1e-3 <= value < 1e3:
        return f"{value:g}"
    for prefix, size in PREFIXES:
        if value >= size:
            return f"{value / size:g}{prefix}"
    return f"{value:g}"


_ALONE = "a sample's prompt, thinking and answer, nothing twice that the prefix cache had"
_SHARED = "the run's, divided among its samples by the bytes of memory that each moves"

TOKENS = Axis("tokens", "tokens", "", lambda tokens: short(tokens) if tokens >= 1 else "", floor=1.0)
AXES = {
    axis.name: axis
    for axis in (
        TOKENS,
        Axis("flops", "floating-point operations", f"Operations: of {_ALONE}.", with_prefix),
        Axis(
            "bytes",
            "bytes of memory traffic",
            f"Bytes: cache of {_ALONE}, and its share of the weights that each step reads.",
            with_prefix,
        ),
        Axis("gpu-seconds", "device-seconds", f"Device-seconds: {_SHARED}.", with_prefix, unit=1e-9),
        Axis("joules", "joules", f"Joules, by NVML: {_SHARED}.", with_prefix, unit=1e-9),
        Axis("dollars", "dollars", f"Dollars: device-seconds at the user's price; {_SHARED}.", with_prefix, 1e-12),
    )
}


def find_axis(name: str) -> Axis:
    """The axis of that name.

    Raises:
        ConfigError: there is none.
    """
    if name in AXES:
        return AXES[name]
    close = get_close_matches(name, AXES, n=1)
    meant = f" Did you mean {close[0]}?" if close else ""
    raise ConfigError(f"--axis {name} is not known.{meant} Write one of {', '.join(AXES)}")

"""What counts as equal, as data: presets by name, each with a short hash for results."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Policy:
    """How an answer is found and compared. A result is only comparable with results of the same hash."""

    engine: Literal["own", "math_verify"] = "own"
    anchors: Literal["all", "final"] = "all"
    """Without a box: `all` takes "the answer is" and the like; `final` only <answer>, #### and "final answer"."""
    significant_digits: int = 6
    """Digits that a rounded decimal must show to stand for an exact value."""
    units: Literal["agree", "ignore"] = "agree"
    """Whether units on both sides must agree or convert to each other."""
    bare_percent: bool = True
    """Whether 45 may stand for 45 %."""
    solved_form: bool = True
    """Whether an equation that is still to be solved is refused."""

    @property
    def hash(self) -> str:
        """Eight hexadecimal digits that change with every setting."""
        settings = ";".join(f"{name}={value}" for name, value in sorted(asdict(self).items()))
        return hashlib.sha256(settings.encode()).hexdigest()[:8]


PRESETS: dict[str, Policy] = {
    "reward": Policy(),  # the reward in training is the verdict in evaluation
    "eval": Policy(),
    "minerva": Policy(anchors="final", units="ignore", significant_digits=3, solved_form=False),
    "math_verify_compat": Policy(engine="math_verify"),
}
DEFAULT = "eval"


def policy_named(name: str) -> Policy:
    """The preset of that name. Raises `ValueError` with the names there are."""
    if name not in PRESETS:
        raise ValueError(f"no policy is called {name!r}; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]

"""How far the planner is from measured steps of a device, and the constants that would bring it nearest.

    python -m benchmarks.planner_fit benchmarks/results/long-context-h200.json

Reads what `benchmarks.long_context` wrote, and looks for the shares, the wait of a layer and the times of the host
(`Reached` in reasoning/hardware.py) that give back its steps with the smallest relative errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.long_context_results import CLOSE
from reasoning.compute import Storage
from reasoning.files import read_json
from reasoning.hardware import Hardware, of_device
from reasoning.model_shape import DTYPE_BYTES, load_shape
from reasoning.roofline import Setup, decode_step

UNITS = {"weights_share": 1.0, "cache_share": 1.0, "layer_s": 1e-6, "host_s": 1e-3, "host_request_s": 1e-6}
"""What is fitted, each near one or a few tens in this unit."""


@dataclass(frozen=True, slots=True)
class Measured:
    setup: Setup
    batch: int
    context: float  # mean of the requests
    seconds: float


def measured(record: dict[str, Any]) -> Iterator[Measured]:
    """The steps of one shape, on a device that the planner knows."""
    hardware = of_device(record["engine"]["device"])
    if hardware is None:
        raise SystemExit(f"the planner does not know the device {record['engine']['device']}")
    size = float(DTYPE_BYTES[record["engine"]["dtype"]])
    setup = Setup(load_shape(record["config"]), hardware, Storage(size, size, size))
    for cell in record["cells"]:
        if cell["status"] == "measured":
            yield Measured(setup, cell["batch"], cell["context_tokens"] / cell["batch"], cell["step_s"])


def errors(values: Sequence[float], steps: Sequence[Measured]) -> np.ndarray:
    """Logarithm of planned over measured seconds, of each step."""
    fitted = {name: value * unit for (name, unit), value in zip(UNITS.items(), values, strict=True)}
    ratios = []
    for step in steps:
        device: Hardware = step.setup.hardware
        setup = replace(step.setup, hardware=replace(device, reached=replace(device.reached, **fitted)))
        ratios.append(decode_step(setup, step.batch, step.context).seconds / step.seconds)
    return np.log(ratios)


def known(steps: Sequence[Measured]) -> list[float]:
    """The constants of the device as the planner has them, in `UNITS`."""
    reached = steps[0].setup.hardware.reached
    return [getattr(reached, name) / unit for name, unit in UNITS.items()]


def fit(steps: Sequence[Measured]) -> list[float]:
    """The constants with the least absolute errors, in `UNITS`, large errors counting more.

    A weak pull keeps those that the steps do not tell: a model that never waits for the host says nothing of it.
    """
    from scipy.optimize import minimize

    start = known(steps)

    def loss(values: Sequence[float]) -> float:
        found = errors(values, steps)
        pull = np.log(np.maximum(values, 1e-6) / np.array(start))
        return float(np.abs(found).sum() + 5 * (found**2).sum() + 0.05 * (pull**2).sum())

    return list(minimize(loss, start, method="Nelder-Mead", options={"maxiter": 4000}).x)


def say(title: str, values: Sequence[float], steps: Sequence[Measured]) -> None:
    found = np.expm1(errors(values, steps))
    print(
        f"{title}: " + ", ".join(f"{name} {value * UNITS[name]:.3g}" for name, value in zip(UNITS, values, strict=True))
    )
    print(
        f"  {(np.abs(found) <= CLOSE).sum()} of {len(steps)} steps within {CLOSE:.0%}; errors from "
        f"{found.min():+.1%} to {found.max():+.1%}, median size {np.median(np.abs(found)):.1%}"
    )


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file", type=Path)
    given = options.parse_args(arguments)
    steps = [step for record in read_json(given.file)["shapes"].values() for step in measured(record)]
    say("as the planner has them", known(steps), steps)
    say("fitted to these steps", fit(steps), steps)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

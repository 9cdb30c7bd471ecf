"""The fit gives back the constants that steps were made with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.long_context_shapes import SHAPES, write_model
from benchmarks.planner_fit import Measured, errors, fit
from reasoning.compute import Storage
from reasoning.hardware import find_hardware
from reasoning.model_shape import ModelShape, load_shape
from reasoning.roofline import Setup, decode_step

TRUE = [0.8, 0.7, 60.0, 3.0, 30.0]


def shape(name: str, folder: Path) -> ModelShape:
    write_model(SHAPES[name], folder)
    return load_shape(str(folder))


def test_constants_come_back_from_steps_that_they_made(tmp_path: Path):
    setups = [Setup(shape(name, tmp_path), find_hardware("h200"), Storage(2, 2, 2)) for name in ("1.5b", "8b")]
    places = [(setup, batch, context) for setup in setups for batch in (1, 64, 256) for context in (1000, 30_000)]
    reached = replace(
        setups[0].hardware.reached,
        weights_share=0.8,
        cache_share=0.7,
        layer_s=60e-6,
        host_s=3e-3,
        host_request_s=30e-6,
    )
    steps = []
    for setup, batch, context in places:
        made = replace(setup, hardware=replace(setup.hardware, reached=reached))
        steps.append(Measured(setup, batch, context, decode_step(made, batch, context).seconds))
    assert np.abs(errors(TRUE, steps)).max() < 1e-9
    found = fit(steps)
    assert np.abs(errors(found, steps)).max() < 0.05
    assert found[1] == pytest.approx(
        0.7, rel=0.03
    )  # long contexts tell it; how weights and layers share the rest they do not
    assert found[3:] == pytest.approx([3.0, 30.0], rel=0.01)

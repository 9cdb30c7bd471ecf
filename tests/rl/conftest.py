"""A checked training run of the tiny model, for tests that need one to begin with."""

from __future__ import annotations

import pytest

from reasoning.config import load_settings
from reasoning.train_config import TrainConfig
from reasoning.train_plan import TrainPlan, plan_training
from tests.end_to_end import training


@pytest.fixture(scope="session")
def plan(tmp_path_factory: pytest.TempPathFactory) -> TrainPlan:
    folder = tmp_path_factory.mktemp("plan")
    return plan_training(load_settings(TrainConfig, training.config(training.save_model(folder / "m"), folder), {}))

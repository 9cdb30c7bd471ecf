"""Training makes what is rewarded more frequent: two rewards that a random tiny model learns within a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reasoning.summary
from reasoning.engine.base import Engine
from reasoning.files import read_json_lines
from reasoning.train_plan import TrainPlan
from tests.end_to_end import training

HERE = "tests.end_to_end.own_rewards"


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of each held-out evaluation take longer than all the rest of a run, and have their own tests."""
    monkeypatch.setattr(reasoning.summary, "show_run", lambda *_: [])


def start(plan: TrainPlan, _log: Path) -> Engine:
    return training.SamplingEngine(plan)


def learn(tmp_path: Path, reward: str, **changes: Any) -> list[dict[str, Any]]:
    model = training.save_model(tmp_path / "model")
    grpo = {"learning_rate": 2e-2, "per_device_train_batch_size": 32, "max_steps": 35, "save_steps": 100}
    grpo |= {"lr_scheduler_type": "constant", "num_generations": 8} | changes.pop("grpo", {})
    file = training.config(model, tmp_path, rewards={f"{HERE}:{reward}": {}}, budget=6, max_answer_tokens=2, grpo=grpo)
    assert training.main(file, out=tmp_path / "run", start=start) == 0
    return [line for line in read_json_lines(tmp_path / "run" / "metrics.jsonl") if "reward" in line]


@pytest.mark.parametrize(
    "grpo",
    [
        {},
        pytest.param({"loss_type": "dr_grpo", "scale_rewards": "none"}, marks=pytest.mark.slow),
        pytest.param(
            {"loss_type": "grpo", "importance_sampling_level": "sequence", "num_iterations": 2, "max_steps": 60},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["dapo", "dr_grpo", "gspo"],
)
def test_learns_what_the_first_token_should_be(tmp_path: Path, grpo: dict[str, Any]) -> None:
    lines = learn(tmp_path, "first_token", grpo=grpo)
    assert lines[0]["reward"] < 0.5
    assert sum(line["reward"] for line in lines[-3:]) / 3 > 0.9
    mismatch = [line["sampling/sampling_logp_difference/mean"] for line in lines if "loss" in line]
    assert mismatch and max(mismatch) < 1e-4


def test_learns_to_be_brief(tmp_path: Path) -> None:
    lines = learn(tmp_path, "shorter", grpo={"max_steps": 40, "learning_rate": 1e-2})
    assert lines[-1]["completion_tokens"] < 0.7 * lines[0]["completion_tokens"]


def test_a_kl_keeps_the_policy_near_its_beginning(tmp_path: Path) -> None:
    lines = learn(tmp_path, "first_token", grpo={"beta": 10.0, "max_steps": 10})
    assert lines[0]["kl"] == pytest.approx(0, abs=1e-5)
    assert lines[-1]["reward"] < 0.9

"""`reasoning.train` from settings to plots, with the scripted engine and a tiny model."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import reasoning.summary
from reasoning.compare import what_is_measured
from reasoning.engine.base import Engine, Output
from reasoning.engine.scripted import ScriptedEngine
from reasoning.files import read_json, read_json_lines
from reasoning.run_folder import open_run
from reasoning.train_plan import TrainPlan
from rl.metrics import MetricsLog
from tests.end_to_end import training


@pytest.fixture(scope="session")
def trained_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return training.save_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def whole(trained_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trainings")
    out = folder / "whole"
    assert training.main(training.config(trained_model, folder), out=out) == 0
    return out


def test_leaves_everything(whole: Path) -> None:
    assert read_json(whole / "manifest.json")["status"] == "complete"
    for name in ("model/model.safetensors", "model/tokenizer.json", "checkpoints/step-000004/state.pt", "config.json"):
        assert (whole / name).is_file(), name
    for figure in ("reward", "length", "before_after"):
        for suffix in ("png", "svg", "json"):
            assert (whole / "plots" / f"{figure}.{suffix}").stat().st_size > 0
    assert len(list((whole / "rollouts").glob("*.parquet"))) == 4


def test_the_trained_model_is_not_taken_for_the_one_before(whole: Path) -> None:
    before, after = (what_is_measured(open_run(whole / "eval" / f"step-00000{step}")) for step in (0, 4))
    assert (before.pop("trained_steps"), after.pop("trained_steps")) == (0, 4)
    assert before == after


def test_metrics_are_a_line_a_step(whole: Path) -> None:
    lines = [line for line in read_json_lines(whole / "metrics.jsonl") if "reward" in line]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        assert line["reward"] == line["accuracy"] == line["verdicts/correct"]
        phases = ("generate", "score", "sync", "pack", "update", "idle")
        assert sum(line[f"time/{phase}"] for phase in phases) == pytest.approx(line["time/step"])
        assert 0 <= line["padding"] < 1 and line["update_tokens_per_s"] > 0
    assert any(0 < line["reward"] < 1 for line in lines)


LONG = {"max_steps": 12, "save_steps": 3, "per_device_train_batch_size": 8, "steps_per_generation": 2}
"""Two windows a generation, each used twice: four steps a generation, with checkpoints in between."""


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of each held-out evaluation take longer than all the rest of a run, and have their own tests."""
    monkeypatch.setattr(reasoning.summary, "show_run", lambda *_: [])


class Killed(BaseException):
    """Stands for a signal that no program can handle."""


@pytest.fixture(scope="session")
def long(trained_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("trainings")
    file = training.config(trained_model, folder, grpo=LONG | {"num_iterations": 2}, curriculum=True)
    assert training.main(file, out=folder / "whole") == 0
    return file, folder / "whole"


SLOW = pytest.mark.slow


@pytest.mark.parametrize("step", [*(pytest.param(step, marks=SLOW) for step in (1, 2, 4, 5, 8, 10)), 3, 7, 11])
def test_killed_at_any_step_it_goes_on_as_if_nothing_had_happened(
    long: tuple[Path, Path], step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps 5 to 8 share a generation; the third epoch begins with step 7."""
    file, whole = long
    append = MetricsLog.append

    def kill(log: MetricsLog, at: int, metrics: Mapping[str, Any]) -> None:
        append(log, at, metrics)
        if at == step and "time/step" in metrics:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(MetricsLog, "append", kill)
        with pytest.raises(Killed):
            training.main(file, out=tmp_path / "run")
    assert training.main(file, out=tmp_path / "run", resume=True) == 0
    training.assert_same(tmp_path / "run", whole)


def test_killed_while_it_generates(long: tuple[Path, Path], tmp_path: Path) -> None:
    file, whole = long

    def start(plan: TrainPlan, log: Path) -> Engine:
        engine = training.start_scripted(plan, log)
        step, calls = engine.step, iter(range(1000))

        def counted() -> list[Output]:
            if next(calls) == 70:
                raise Killed
            return step()

        setattr(engine, "step", counted)  # noqa: B010
        return engine

    with pytest.raises(Killed):
        training.main(file, out=tmp_path / "run", start=start)
    assert 0 < len(list((tmp_path / "run" / "rollouts").iterdir())) < 3
    assert training.main(file, out=tmp_path / "run", resume=True) == 0
    training.assert_same(tmp_path / "run", whole)


def test_an_engine_that_dies_leaves_a_checkpoint(long: tuple[Path, Path], tmp_path: Path, capsys) -> None:
    file, whole = long

    def start(plan: TrainPlan, _log: Path) -> Engine:
        return ScriptedEngine(training.Script(plan), plan.max_model_len, fail_at_step=70)

    assert training.main(file, out=tmp_path / "run", start=start) == 1
    assert "--resume" in capsys.readouterr().err
    assert training.main(file, out=tmp_path / "run", resume=True) == 0
    training.assert_same(tmp_path / "run", whole)


def test_half_written_checkpoints_are_ignored(long: tuple[Path, Path], tmp_path: Path) -> None:
    file, whole = long
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    shutil.rmtree(run / "checkpoints" / "step-000012")
    (run / "checkpoints" / "step-000012.tmp").mkdir()
    (run / "checkpoints" / "step-000011").mkdir()  # without its state
    assert training.main(file, out=run, resume=True) == 0
    training.assert_same(run, whole)

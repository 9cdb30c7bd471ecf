"""`reasoning.report --axis`: accuracy over what tokens cost, without generating again."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from reasoning import report
from reasoning.engine.base import Engine, EngineState
from reasoning.eval import parse
from reasoning.evaluation import evaluate
from reasoning.files import read_json
from reasoning.preflight import Plan
from tests.end_to_end import scripted
from tests.end_to_end.conftest import lines
from tests.test_model_shape import config

SHAPE = config("qwen3", 64, 2, 4, 2, 128, 900, head_dim=16)
WATTS = 300.0


class Measured(scripted.SlowEngine):
    """On a device that draws the same power all the time."""

    def state(self) -> EngineState:
        state = super().state()
        return replace(state, energy_j=WATTS * state.time_s)


def start(plan: Plan, _log: Path) -> Engine:
    return Measured(scripted.Model(plan), plan.max_model_len, max_running=64)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shaped")
    model = scripted.save_model(folder / "model", **SHAPE | {"max_position_embeddings": scripted.CONTEXT})
    command = ["--model", str(model), "--budgets", "8,16,32", "--samples", "4", "--limit", "12", "--quiet"]
    assert evaluate(*parse([*command, "--out", str(folder / "run")]), start) == 0
    return folder / "run"


@pytest.fixture
def shaped(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "run"))


def costs(folder: Path, figure: str = "accuracy") -> list[float]:
    found = read_json(folder / "plots" / f"{figure}.json")
    return [point["tokens_mean"] for point in found["series"][0]["points"]]


def test_the_manifest_keeps_the_shape_so_that_no_model_is_needed(measured):
    assert read_json(measured / "manifest.json")["model_config"]["hidden_size"] == 64
    assert "hidden_size" not in (measured / "report.html").read_text()


def test_what_the_run_computed_is_in_its_results(measured):
    found, last = read_json(measured / "results.json")["compute"], lines(measured / "engine.jsonl")[-1]
    weights = 2 * (2 * (64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 128 + 2 * 16) + 64 * 900)
    computed = last["generated_tokens"] + last["prompt_tokens"] - last["cached_tokens"]
    assert found["flops"] == pytest.approx(weights * computed, rel=0.35)  # and attention; no head in prompts
    assert found["device_seconds"] == pytest.approx(last["time_s"])
    assert found["joules"] == pytest.approx(WATTS * last["time_s"])


@pytest.mark.parametrize("axis", ["flops", "dollars"])
def test_every_accuracy_figure_is_drawn_over_an_axis(shaped, run, axis):
    before = read_json(shaped / "results.json")
    price = ["--price-per-hour", "7.2"] if axis == "dollars" else []
    outcome = run([str(shaped), "--axis", axis, *price, "--policy", "agree:2", "--policy", "split:60"], report.main)
    assert outcome.code == 0
    for figure in ("accuracy", "parallel", "policies"):
        found = read_json(shaped / "plots" / f"{figure}.json")
        assert found["axis"] == axis
        assert (shaped / "plots" / f"{figure}.png").stat().st_size > 5000
    drawn = costs(shaped)
    assert all(cost > 0 for cost in drawn) and drawn == sorted(drawn)
    policies = read_json(shaped / "plots" / "policies.json")["policies"]
    assert [policy["policy"] for policy in policies] == ["agree:2"], "split chooses within tokens"
    after = read_json(shaped / "results.json")
    assert after["points"] == before["points"], "results.json stays in tokens"
    assert len(after["policies"]) == 2


def test_axes_agree_with_each_other(shaped, run):
    drawn = {}
    for axis in ("bytes", "joules"):
        assert run([str(shaped), "--axis", axis], report.main).code == 0
        drawn[axis] = costs(shaped)
    whole = read_json(shaped / "results.json")["compute"]
    for moved, joules in zip(*drawn.values(), strict=True):
        assert joules == pytest.approx(moved * whole["joules"] / whole["hbm_bytes"], rel=1e-3)


def test_tokens_are_what_a_report_goes_back_to(shaped, run):
    before = costs(shaped)
    assert run([str(shaped), "--axis", "flops"], report.main).code == 0
    assert costs(shaped) != before
    assert run([str(shaped)], report.main).code == 0
    assert costs(shaped) == before


def test_runs_are_compared_over_an_axis(shaped, tmp_path, run):
    other = Path(shutil.copytree(shaped, tmp_path / "other"))
    assert run([str(shaped), str(other), "--axis", "flops"], report.main).code == 0
    found = read_json(shaped / "plots" / "comparison.json")
    assert found["axis"] == "flops"
    first, second = ([point["tokens_mean"] for point in series["points"]] for series in found["series"])
    assert first == second == costs(shaped)
    assert all(math.isfinite(cost) and cost > 1e4 for cost in first)


def test_what_a_run_cannot_say_is_refused(shaped, folder, tmp_path, run):
    assert "config.json has no" in run([str(folder), "--axis", "flops"], report.main).err, "a model without a shape"
    states = lines(shaped / "engine.jsonl")
    (shaped / "engine.jsonl").write_text("".join(json.dumps(state | {"energy_j": None}) + "\n" for state in states))
    outcome = run([str(shaped), "--axis", "joules"], report.main)
    assert outcome.code == 2
    assert "does not say how much energy it took: no NVML there" in outcome.err
    assert "go together" in run([str(shaped), "--axis", "dollars"], report.main).err
    assert "go together" in run([str(shaped), "--price-per-hour", "3"], report.main).err
    assert "Did you mean flops?" in run([str(shaped), "--axis", "flop"], report.main).err
    manifest = read_json(shaped / "manifest.json")
    del manifest["model_config"]
    (shaped / "manifest.json").write_text(json.dumps(manifest))
    outcome = run([str(shaped), "--axis", "flops"], report.main)
    assert outcome.code == 2
    assert "was made by an earlier version, which did not store the shape of its model" in outcome.err

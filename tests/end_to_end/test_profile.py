"""`reasoning.eval --profile` over an engine whose steps take a known time."""

from __future__ import annotations

from pathlib import Path

import pytest

from reasoning import report
from reasoning.engine.base import Engine
from reasoning.engine.scripted import ScriptedEngine
from reasoning.engine.steps import COLUMNS
from reasoning.eval import parse
from reasoning.evaluation import evaluate
from reasoning.files import read_json
from reasoning.preflight import Plan
from tests.end_to_end import scripted
from tests.end_to_end.conftest import arguments, lines

FIXED, REQUEST, TOKEN = 4e-3, 1e-4, 2e-6  # seconds
FIGURES = ("throughput", "steps", "latency")


def start(plan: Plan, _log: Path) -> Engine:
    return ScriptedEngine(
        scripted.Model(plan),
        plan.max_model_len,
        max_running=plan.config.engine.max_num_seqs,
        step_seconds=lambda batch, context: FIXED + REQUEST * batch + TOKEN * context,
    )


@pytest.fixture(scope="module")
def profiled(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "profiled"
    assert evaluate(*parse(arguments(model, out, "--profile", "--quiet", "--engine.max_num_seqs", "24")), start) == 0
    return out


def test_the_line_through_the_steps_is_the_engines(profiled):
    found = read_json(profiled / "results.json")["throughput"]
    line = found["line"]
    assert line["fixed_s"] == pytest.approx(FIXED, rel=0.03)
    assert line["request_s"] == pytest.approx(REQUEST, rel=0.03)
    assert line["token_s"] == pytest.approx(TOKEN, rel=0.03)
    assert line["error"] < 0.001
    for speed in found["speeds"]:
        expected = FIXED + REQUEST * speed["batch"] + TOKEN * speed["batch"] * speed["position"]
        assert speed["tokens_per_s"] == pytest.approx(speed["batch"] / expected, rel=0.05)


def test_every_step_is_stored_once(profiled):
    stored = lines(profiled / "steps.jsonl")
    last = lines(profiled / "engine.jsonl")[-1]
    assert {tuple(line) for line in stored} == {("attempt", *COLUMNS)}
    assert sum(len(line["batch"]) for line in stored) == last["steps"]
    assert sum(sum(line["batch"]) for line in stored) == last["generated_tokens"]
    assert sum(sum(line["prefill"]) for line in stored) == last["prompt_tokens"] - last["cached_tokens"]
    found = read_json(profiled / "results.json")["throughput"]
    assert found["steps"] == last["steps"] > found["decoding_steps"] > 0
    assert found["prefix_hit_rate"] == last["cached_tokens"] / last["prompt_tokens"]


def test_waits_are_known_of_all_that_answered(profiled):
    found = read_json(profiled / "results.json")["throughput"]
    assert list(found["answer_s"]) == ["0", "8", "16", "none"]
    assert found["first_token_s"]["p50"] > 0
    answered = 0
    for trace in lines(profiled / "traces.jsonl"):
        waits = trace["timings"]
        assert waits["sample_first_s"] > 0
        assert (waits["sample_answer_s"] is None) == (trace["answer_start"] is None)
        if not trace["forced"]:  # of a forced one the wall clock is in it, which this engine does not follow
            answered += 1
            assert waits["sample_answer_s"] > waits["sample_first_s"]
    assert answered > 0


def test_figures_and_tables_show_it_and_report_makes_them_again(profiled):
    page = (profiled / "report.html").read_text("utf-8")
    for words in ("Throughput", "Latency", "first answer token at 16", "a step takes"):
        assert words in page
    results = (profiled / "results.json").read_text("utf-8")
    before = [(profiled / "plots" / f"{name}.json").read_text("utf-8") for name in FIGURES]
    assert report.main([str(profiled)]) == 0
    assert (profiled / "results.json").read_text("utf-8") == results
    assert [(profiled / "plots" / f"{name}.json").read_text("utf-8") for name in FIGURES] == before


def test_an_ordinary_run_has_none_of_it(folder):
    assert read_json(folder / "results.json")["throughput"] is None
    assert not (folder / "steps.jsonl").exists()
    assert not any((folder / "plots" / f"{name}.png").exists() for name in FIGURES)
    assert all(trace["timings"]["sample_first_s"] is None for trace in lines(folder / "traces.jsonl"))

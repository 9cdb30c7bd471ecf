"""Aggregates of a run, and what is said before anybody reads them."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from eval.curves import MISSING, GradedSample
from eval.results import Results, as_json, build, write
from eval.sentences import result_sentences
from reasoning.types import NO_LIMIT, FinishReason, SampleKey

RUN = {"model": "m", "task_set": "t", "method": "forced answer", "seed": 0}


def sample(task: str, budget: int, status: str = "correct", level: str | None = None, **facts: bool) -> GradedSample:
    flags = {"bound": False, "forced": False, "escaped": False, "looped": False} | facts
    reason = FinishReason.ERROR if status == MISSING else FinishReason.ANSWERED
    return GradedSample(SampleKey(task, 0, budget), level, status, 10, 2, reason, extracted=None, **flags)


def results(
    samples: list[GradedSample], planned: int | None = None, violations: tuple[str, ...] = (), redrawn: int = 0
) -> Results:
    return build(samples, RUN, len(samples) if planned is None else planned, violations, redrawn, {"engine_tokens": 1})


def test_nothing_to_doubt():
    assert results([sample(f"t{n}", 8) for n in range(20)]).warnings == []


def test_doubts_come_worst_first_with_their_numbers():
    samples = [sample(f"t{n}", 8, "no_answer" if n < 4 else "correct") for n in range(20)]
    samples += [sample(f"t{n}", NO_LIMIT, looped=n < 10) for n in range(20)]
    samples += [sample(f"t{n}", 16, "timeout" if n < 1 else MISSING if n < 2 else "wrong") for n in range(20)]
    found = results(samples, planned=80, violations=("t1 thought too long",), redrawn=2)
    assert found.warnings == [
        "1 of 60 samples did not honour their budget, so the numbers mean nothing: t1 thought too long",
        "partial run: 60 of 80 samples; short ones finish first and are more often right, "
        "so accuracy may be far too high and no interval holds",
        "2 samples were drawn again after an interruption and came out differently: "
        "their budgets do not share one trace",
        "the engine failed on 1 of 60 samples; they are in no rate",
        "the verifier failed: 5 % at 16 (share of the samples at that budget)",
        "no answer: 20 % at 8 (share of the samples at that budget)",
        "the thinking ended in a loop: 50 % at none (share of the samples at that budget)",
    ]
    assert found.failed_share == pytest.approx(2 / 60)


def test_only_a_finished_run_has_a_curve_to_speak_of():
    samples = [sample(f"t{n}", budget, "wrong" if budget == 8 else "correct") for n in range(20) for budget in (8, 16)]
    headline, *curve = result_sentences(results(samples))
    assert headline.startswith("m is right on 100.0 % of t")
    assert curve[0].startswith("Accuracy changes with the budget from 8 to 16")
    (so_far,) = result_sentences(results(samples, planned=80))
    assert so_far.startswith("So far, m is right on 100.0 % of t [no interval holds before the run is finished] within")
    assert "95 %" not in so_far


def test_completions_of_another_tool_are_never_unfinished():
    found = replace(results([sample("t", NO_LIMIT)], planned=2), run=RUN | {"imported": {}})
    assert (found.is_partial, found.is_unfinished) == (True, False)
    assert found.warnings == ["partial run: 1 of 2 samples; the tasks have different numbers of samples"]
    assert result_sentences(found)[0].startswith("m is right on 100.0 % of t [95 % interval ")


def test_a_model_that_never_thinks_is_named():
    silent = [replace(sample(f"t{n}", budget), thinking_tokens=0) for n in range(4) for budget in (0, 8)]
    assert results(silent).warnings == [
        "the model never began to think: no sample has a thinking token, so the budgets measure nothing"
    ]
    assert results([replace(sample("t", 0), thinking_tokens=0)]).warnings == []


def test_levels_are_told_apart_only_where_there_are_several():
    assert results([sample("a", 8, level="4"), sample("b", 8, level="4")]).levels == {}
    levels = results([sample("a", 8, level="3"), sample("b", 8, "wrong", level="4")]).levels
    assert {level: points[0].accuracy for level, points in levels.items()} == {"3": 1.0, "4": 0.0}


def test_levels_that_are_numbers_come_in_their_order_and_before_words():
    samples = [sample(level, 8, level=level) for level in ("10", "hard", "9", "1")]
    assert list(results(samples).levels) == ["1", "9", "10", "hard"]


def test_statuses_and_reasons_are_counts_in_json_and_no_columns(tmp_path):
    write(results([sample("a", 8), sample("b", 8, "wrong"), sample("c", 8, MISSING)]), tmp_path)
    (point,) = json.loads((tmp_path / "results.json").read_text())["points"]
    assert {name: n for name, n in point["statuses"].items() if n} == {"correct": 1, "wrong": 1, "missing": 1}
    assert {name: n for name, n in point["finish_reasons"].items() if n} == {"answered": 2, "error": 1}
    assert "statuses" not in (tmp_path / "results.csv").read_text()


def test_numbers_that_do_not_exist_are_null_in_json_and_empty_in_csv(tmp_path):
    found = results([sample("a", 8), sample("b", 8), sample("a", NO_LIMIT, MISSING), sample("b", NO_LIMIT, MISSING)])
    write(found, tmp_path)
    stored = json.loads((tmp_path / "results.json").read_text())
    assert [point["accuracy"] for point in stored["points"]] == [1.0, None]
    assert [(point["budget"], point["label"]) for point in stored["points"]] == [(8, "8"), (None, "none")]
    assert (stored["points"][1]["n_samples"], stored["points"][1]["n_missing"]) == (0, 2)
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert [(row["budget"], row["accuracy"]) for row in rows] == [("8", "1.0"), ("none", "")]


def test_the_documented_schema_is_the_one_that_is_written():
    text = (Path(__file__).parents[2] / "docs" / "results.md").read_text("utf-8")
    section = text.partition("## results.json, schema ")[2].partition("\n## ")[0]
    first_cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)]
    written = as_json(results([sample("a", 8)]))
    assert documented == list(written)
    assert section.startswith(f"{written['schema']}\n")


def test_a_run_without_samples_is_partial_and_has_no_points():
    found = results([], planned=4)
    assert as_json(found)["status"] == "partial"
    assert (found.points, found.can_be_drawn, found.failed_share) == ((), False, 0.0)

"""Results from stored runs: graded again, rebuilt, compared."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reasoning import report, score
from reasoning.compare import what_is_measured
from reasoning.files import read_json, write_json, write_json_lines
from reasoning.pages import line_names
from reasoning.run_folder import RunFolder
from reasoning.summary import plot, summarise
from tests.end_to_end.conftest import Outcome, arguments, cost, lines, results, verdicts
from tests.end_to_end.scripted import ROOT

Run = Callable[..., Outcome]


def test_score_finds_what_eval_found(folder, run: Run):
    before, graded, spent = results(folder), verdicts(folder), cost(folder)
    (folder / "verdicts.jsonl").unlink()
    (folder / "results.json").unlink()
    shutil.rmtree(folder / "plots")
    outcome = run([str(folder)], score.main)
    assert outcome.code == 0
    assert (results(folder), verdicts(folder), cost(folder)) == (before, graded, spent)
    assert (folder / "plots" / "accuracy.png").exists()


def test_score_says_what_changed(folder, run: Run):
    stored = lines(folder / "verdicts.jsonl")
    right = [verdict for verdict in stored if verdict["status"] == "correct"]
    write_json_lines(folder / "verdicts.jsonl", [v | {"status": "wrong"} if v in right[:3] else v for v in stored])
    outcome = run([str(folder)], score.main)
    assert "3 of 128 verdicts changed" in outcome.out
    assert sum(verdict["status"] == "correct" for verdict in lines(folder / "verdicts.jsonl")) == len(right)


def test_report_rebuilds_from_stored_verdicts(folder, run: Run):
    before = results(folder)
    stored = lines(folder / "verdicts.jsonl")
    write_json_lines(folder / "verdicts.jsonl", [verdict | {"status": "wrong"} for verdict in stored])
    assert run([str(folder)], report.main).code == 0
    assert [point["accuracy"] for point in results(folder)["points"]] == [0.0] * 4
    write_json_lines(folder / "verdicts.jsonl", stored)
    assert run([str(folder)], report.main).code == 0
    assert results(folder) == before


def test_report_marks_an_unfinished_run(folder, run: Run):
    stored = lines(folder / "traces.jsonl")
    write_json_lines(folder / "traces.jsonl", stored[: len(stored) // 2])
    outcome = run([str(folder)], report.main)
    found = results(folder)
    assert (outcome.code, found["status"]) == (0, "partial")
    assert f"warning: partial run: {found['finished']} of 128 samples" in outcome.out
    figure = read_json(folder / "plots" / "accuracy.json")
    assert "PARTIAL" in figure["caption"]
    assert figure["title"].startswith("PARTIAL RUN: How often ")


@pytest.mark.parametrize("command", [score.main, report.main])
@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("traces.jsonl", '{"task_id":"a"}\n', "traces.jsonl, line 1: not a record"),
        ("verdicts.jsonl", '{"task_id":"a","sample":0,"budget":8,"status":"maybe"}\n', "line 1: not a record"),
        ("verdicts.jsonl", "[]\n", "line 1: not a JSON object"),
        ("tasks.jsonl", "{}\n", "tasks.jsonl, line 1: not a record"),
        ("tasks.jsonl", "", "tasks.jsonl has no task"),
        ("engine.jsonl", "{}\n", "engine.jsonl, line 1: not a record"),
        ("config.json", "{", "config.json: not a JSON object"),
        ("manifest.json", "", "manifest.json: not a JSON object"),
    ],
)
def test_a_damaged_file_is_named(folder, run: Run, command, file, content, said):
    (folder / file).write_text(content)
    outcome = run([str(folder)], command)
    assert (outcome.code, said in outcome.err) == (2, True), outcome.err


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_the_lines_that_read_a_run_with_pandas(folder, tmp_path, page):
    (code,) = re.findall(r"```python\n(import pandas.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    ids = sorted({verdict["task_id"] for verdict in lines(folder / "verdicts.jsonl")})
    same_number = "dtype" in code
    names = {task_id: "0" * place + "1" if same_number else task_id for place, task_id in enumerate(ids)}
    for name in ("traces", "verdicts"):
        own = [line | {"task_id": names[line["task_id"]]} for line in lines(folder / f"{name}.jsonl")]
        write_json_lines(folder / f"{name}.jsonl", own)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(folder)
    code += "samples[['budget', 'status', 'text']].to_csv('samples.csv')"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=100)
    with (tmp_path / "samples.csv").open() as table:
        found = Counter((row["budget"], row["status"]) for row in csv.DictReader(table))
    assert found.total() == 128
    for point in results(folder)["points"]:
        budget = "" if point["budget"] is None else f"{point['budget']:.1f}"  # none is NaN
        assert found[budget, "correct"] == point["statuses"]["correct"]


def test_report_says_where_verdicts_are_to_be_had(folder, run: Run):
    stored = lines(folder / "verdicts.jsonl")
    write_json_lines(folder / "verdicts.jsonl", stored[:100])
    assert "stored answers without a verdict, in no rate: 28" in run([str(folder)], report.main).out
    assert "without a verdict" not in run([str(folder)], score.main).out


@pytest.mark.parametrize("kept", ["nothing", "failures"])
def test_report_of_a_run_without_a_result(folder, run: Run, kept):
    failed = {"finish_reason": "error", "error": "out of blocks"}
    stored = [] if kept == "nothing" else [trace | failed for trace in lines(folder / "traces.jsonl")]
    write_json_lines(folder / "traces.jsonl", stored)
    write_json_lines(folder / "verdicts.jsonl", [])
    outcome = run([str(folder)], report.main)
    assert (outcome.code, "plot:" in outcome.out) == (0, False)
    assert results(folder)["finished"] == (0 if kept == "nothing" else 128)


@pytest.mark.parametrize("command", [score.main, report.main])
def test_a_budget_that_was_not_honoured_is_exit_code_3(folder, run: Run, command):
    stored = lines(folder / "traces.jsonl")
    overrun = next(trace for trace in stored if trace["budgets"] == [8])
    overrun["completion_ids"].insert(0, overrun["completion_ids"][0])
    write_json_lines(folder / "traces.jsonl", stored)
    outcome = run([str(folder)], command)
    assert (outcome.code, len(results(folder)["violations"])) == (3, 1)
    assert outcome.out.startswith("warning: 1 of 128 samples did not honour their budget")


def test_report_compares_runs(folder, model, tmp_path, run: Run):
    other = tmp_path / "other"
    assert run(arguments(model, other, "--closing", "none", "--quiet")).code == 0
    outcome = run([str(folder), str(other)], report.main)
    assert outcome.code == 0
    assert "All 16 tasks are common to the runs." in outcome.out
    assert "closing none against closing bare at 8 (-" in outcome.out, "without an answer what is cut is never right"
    assert f"comparison:   {folder}/plots/comparison.png" in outcome.out
    series = read_json(folder / "plots" / "comparison.json")["series"]
    assert [line["name"] for line in series] == ["closing bare", "closing none"]
    contrasts = read_json(folder / "plots" / "difference.json")["contrasts"]
    assert [contrast["budget"] for contrast in contrasts] == [8, 16, None], "only one of them has budget 0"
    own, others = ([point["accuracy"] for point in results(one)["points"]] for one in (folder, other))
    assert [c["delta"] for c in contrasts] == pytest.approx([b - a for a, b in zip(own[1:], others, strict=True)])
    page = (folder / "comparison.html").read_text("utf-8")
    assert "All 16 tasks are common to the runs." in page
    assert page.count("data:image/svg+xml;base64,") == 2


def test_report_compares_the_tasks_in_common(folder, model, tmp_path, run: Run):
    fewer, others = tmp_path / "fewer", tmp_path / "others"
    small = ["--limit", "8", "--budgets", "8", "--samples", "1", "--baseline", "false", "--quiet"]
    assert run(arguments(model, fewer, *small)).code == 0
    outcome = run([str(folder), str(fewer)], report.main)
    common = read_json(folder / "plots" / "comparison.json")["series"][0]["points"][0]["n_tasks"]
    assert (outcome.code, 0 < common < 16) == (0, True)
    words = f"Compared on the {common} tasks that all runs have (of finished 16, fewer 8)."
    assert words in outcome.out
    assert "fewer is finished again" not in outcome.out
    assert run(arguments(model, others, *small, "--seed", "1")).code == 0
    (folder / "report.html").write_text("as it was")
    refused = run([str(folder), str(others)], report.main)
    assert (refused.code, (folder / "report.html").read_text()) == (2, "as it was")  # refused before it is drawn again
    assert (
        "these runs have no task in common (finished: countdown, 16 tasks, others: countdown, 8 tasks)" in refused.err
    )


def test_a_comparison_marks_an_unfinished_run_and_needs_results(folder, tmp_path, run: Run):
    half = Path(shutil.copytree(folder, tmp_path / "half"))
    stored = lines(half / "traces.jsonl")
    write_json_lines(half / "traces.jsonl", stored[: len(stored) // 2])
    compared = run([str(folder), str(half)], report.main)
    assert (compared.code, "half is not finished" in compared.out) == (0, True)
    assert not any(claim in compared.out for claim in ("A difference", "No difference", "makes a run uncertain"))
    assert read_json(folder / "plots" / "comparison.json")["title"].startswith("PARTIAL RUN: ")
    assert "half: partial run: " in (folder / "comparison.html").read_text("utf-8")
    write_json_lines(half / "traces.jsonl", [])
    assert f"{half} has no result to compare yet" in run([str(folder), str(half)], report.main).err


def test_the_same_run_again_shows_the_noise(folder, tmp_path, run: Run):
    again = Path(shutil.copytree(folder, tmp_path / "again"))
    outcome = run([str(folder), str(again)], report.main)
    assert (
        "again is finished again with the same settings and the same seed: "
        "what does not reproduce makes a run uncertain by 0.0 points at 0"
    ) in outcome.out
    twice = run([str(folder), str(again), f"{again}/../again"], report.main)
    assert (twice.code, "again/../again is given twice; compare a run with others" in twice.err) == (2, True)


def test_what_makes_it_the_same_run_again(folder, tmp_path):
    again = RunFolder(Path(shutil.copytree(folder, tmp_path / "again")))
    config, wanted = again.read_config(), what_is_measured(RunFolder(folder))
    write_json(again.config, config | {"seed": 1, "out": "x", "engine": config["engine"] | {"max_num_seqs": 1}})
    assert what_is_measured(again) == wanted
    write_json(again.config, config | {"engine": config["engine"] | {"dtype": "float32"}})
    assert what_is_measured(again) != wanted
    write_json(again.config, config)
    again.update_manifest(model_sha256="0")
    assert what_is_measured(again) != wanted


def test_lines_are_named_after_what_tells_the_runs_apart(folder, tmp_path, monkeypatch):
    found = summarise(RunFolder(folder)).results
    larger = replace(found, run={**found.run, "model": "large"})
    monkeypatch.chdir(folder)
    same_name = tmp_path / "again" / folder.name
    assert line_names([(Path("."), found.run), (tmp_path / "other", larger.run)]) == ["tiny", "large"]
    assert line_names([(Path("."), found.run), (same_name, found.run)]) == [".", str(same_name)]
    assert line_names([(Path("."), found.run), (tmp_path / "third", found.run)]) == ["finished", "third"]
    drawn = read_json(plot([(folder, found), (tmp_path / "other", larger)], tmp_path / "comparison")[2])["series"]
    assert [line["name"] for line in drawn] == ["tiny", "large"]


def test_tasks_are_for_a_file_of_completions(folder, run: Run):
    outcome = run([str(folder), "--tasks", "countdown"], score.main)
    assert (outcome.code, "is a folder; --tasks is for a file of completions" in outcome.err) == (2, True)


def test_score_and_report_need_a_run(tmp_path, run: Run):
    assert run([str(tmp_path / "gone")], score.main).err == f"error: no run folder at {tmp_path}/gone\n"
    outcome = run([str(tmp_path)], report.main)
    assert (outcome.code, "is not a run folder" in outcome.err) == (2, True)

"""Results from stored runs: graded again, rebuilt, compared."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reasoning import report, score
from reasoning.files import read_json, write_json, write_json_lines
from reasoning.run_folder import RunFolder
from reasoning.summary import plot, summarise
from tests.end_to_end.conftest import Outcome, arguments, cost, lines, results, verdicts

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
    assert run(arguments(model, other, "--seed", "1", "--quiet")).code == 0
    outcome = run([str(folder), str(other)], report.main)
    assert outcome.code == 0
    assert "these runs are on different tasks" in outcome.out
    assert f"comparison:   {folder}/plots/comparison.png" in outcome.out
    series = read_json(folder / "plots" / "comparison.json")["series"]
    assert [line["name"] for line in series] == ["finished", "other"]


def test_lines_are_named_after_what_tells_the_runs_apart(folder, tmp_path, monkeypatch):
    def names(*folders: Path) -> list[str]:
        runs = [(path, summarise(RunFolder(path)).results) for path in folders]
        return [line["name"] for line in read_json(plot(runs, tmp_path / "comparison")[2])["series"]]

    same_name = Path(shutil.copytree(folder, tmp_path / "again" / folder.name))
    other_model = Path(shutil.copytree(folder, tmp_path / "other"))
    config = read_json(other_model / "config.json")
    write_json(other_model / "config.json", config | {"model": "hub/large"})
    monkeypatch.chdir(folder)
    assert names(Path("."), other_model) == ["tiny", "large"]
    assert names(Path("."), same_name) == [".", str(same_name)]
    assert names(Path("."), same_name.rename(tmp_path / "third")) == ["finished", "third"]


def test_score_and_report_need_a_run(tmp_path, run: Run):
    assert run([str(tmp_path / "gone")], score.main).err == f"error: no run folder at {tmp_path}/gone\n"
    outcome = run([str(tmp_path)], report.main)
    assert (outcome.code, "is not a run folder" in outcome.err) == (2, True)

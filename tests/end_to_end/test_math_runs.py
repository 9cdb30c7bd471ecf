"""Runs on mathematical tasks: the policy that they are graded by, and a second opinion on their verdicts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reasoning import score
from reasoning.files import read_json, write_json, write_json_lines
from tests.end_to_end.conftest import Outcome, arguments, lines, results
from verifiers.policy import PRESETS

Run = Callable[..., Outcome]

ANSWERS = (
    ("4", "So \\boxed{4}.", "correct"),
    ("\\frac{1}{2}", "That is \\boxed{0.5}", "correct"),
    ("x = 3", "\\boxed{4}", "wrong"),
    ("2", "It is \\boxed{\\int_0^2 x\\,dx}", "wrong"),
    ("13 \\text{ cm}", "\\boxed{13 \\text{ kg}}", "wrong"),
    ("7", "I do not know.", "no_answer"),
)


@pytest.fixture(scope="module")
def graded(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The complete run as if its tasks had been mathematical, with answers of all kinds."""
    folder = Path(shutil.copytree(finished, tmp_path_factory.mktemp("math") / "run"))
    tasks = lines(folder / "tasks.jsonl")
    rows = {task["id"]: ANSWERS[number % len(ANSWERS)] for number, task in enumerate(tasks)}
    write_json_lines(
        folder / "tasks.jsonl", [t | {"verifier": "math", "reference": rows[t["id"]][0], "meta": {}} for t in tasks]
    )
    traces = [trace | {"answer_text": rows[trace["task_id"]][1]} for trace in lines(folder / "traces.jsonl")]
    write_json_lines(folder / "traces.jsonl", traces)
    assert score.main([str(folder)]) == 0
    return folder


@pytest.fixture
def math_run(graded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(graded, tmp_path / "math"))


def statuses(folder: Path) -> dict[str, str]:
    """By reference."""
    references = {task["id"]: task["reference"] for task in lines(folder / "tasks.jsonl")}
    return {references[verdict["task_id"]]: verdict["status"] for verdict in lines(folder / "verdicts.jsonl")}


def test_the_default_policy_is_in_every_result(folder):
    wanted = ("eval", PRESETS["eval"].hash)
    for found in (read_json(folder / "manifest.json"), results(folder)["run"]):
        assert (found["policy"], found["policy_hash"]) == wanted
    assert read_json(folder / "config.json")["grading"] == {"policy": "eval"}


def test_a_run_says_by_which_policy_it_was_graded(model, tmp_path, run: Run):
    out = tmp_path / "run"
    assert run(arguments(model, out, "--quiet", "--grading.policy", "minerva")).code == 0
    found = results(out)["run"]
    assert (found["policy"], found["policy_hash"]) == ("minerva", PRESETS["minerva"].hash)


@pytest.mark.parametrize("command", ["eval", "score"])
def test_a_policy_that_is_not_there(model, folder, tmp_path, run: Run, command):
    if command == "eval":
        outcome = run(arguments(model, tmp_path / "run", "--grading.policy", "minvera"))
        assert outcome.err == "error: --grading.policy: no policy is called 'minvera'; did you mean minerva?\n"
        assert not (tmp_path / "run").exists()
    else:
        outcome = run([str(folder), "--grading", "strict"], score.main)
        assert outcome.err.startswith("error: --grading: invalid choice: 'strict' (choose from")
        assert all(name in outcome.err for name in PRESETS)
    assert outcome.code == 2


def test_score_grades_by_the_policy_of_the_run(math_run):
    assert statuses(math_run) == {reference: status for reference, _, status in ANSWERS}
    assert results(math_run)["run"]["policy"] == "eval"


def test_score_by_another_policy_is_recorded_and_taken_back(math_run, run: Run):
    assert run([str(math_run), "--grading", "minerva"], score.main).code == 0
    found = results(math_run)["run"]
    assert (found["policy"], found["policy_hash"]) == ("minerva", PRESETS["minerva"].hash)
    assert read_json(math_run / "config.json")["grading"] == {"policy": "eval"}
    assert statuses(math_run)["13 \\text{ cm}"] == "correct", "minerva ignores units"
    outcome = run([str(math_run)], score.main)
    assert "verdicts changed" in outcome.out
    assert results(math_run)["run"]["policy"] == "eval"
    assert statuses(math_run) == {reference: status for reference, _, status in ANSWERS}


def test_a_run_that_was_graded_by_another_policy_is_not_resumed(folder, model, run: Run):
    assert run([str(folder), "--grading", "minerva"], score.main).code == 0
    outcome = run(arguments(model, folder, "--resume"))
    assert (outcome.code, "these differ: policy.hash." in outcome.err) == (2, True)


def test_a_run_of_an_earlier_version_is_graded_by_the_default(math_run, run: Run):
    config = read_json(math_run / "config.json")
    del config["grading"]
    write_json(math_run / "config.json", config)
    assert run([str(math_run)], score.main).code == 0
    assert results(math_run)["run"]["policy"] == "eval"


def test_the_audit_shows_where_the_two_differ(math_run, run: Run):
    before = (math_run / "verdicts.jsonl").read_bytes()
    outcome = run([str(math_run), "--audit"], score.main)
    assert outcome.code == 0
    assert (math_run / "verdicts.jsonl").read_bytes() == before, "an audit grades nothing again"
    differing = lines(math_run / "audit.jsonl")
    assert differing
    assert {(row["ours"] == "correct") != (row["theirs"] == "correct") for row in differing} == {True}
    # Math-Verify takes the integral itself, and pays for the restated question.
    restated = {(r["ours"], r["rule"], r["theirs"], r["extracted"]) for r in differing if r["reference"] == "2"}
    assert restated == {("wrong", "unevaluated", "correct", "\\int_0^2 x\\,dx")}
    verdicts = {(v["task_id"], v["sample"], v["budget"]): v for v in lines(math_run / "verdicts.jsonl")}
    for row in differing:
        for budget in row["budgets"]:
            verdict = verdicts[row["task_id"], row["sample"], budget]
            assert (verdict["status"], verdict["rule"]) == (row["ours"], row["rule"])
    assert f"they differ on {len(differing)}" in outcome.out
    assert "wrong: unevaluated" in outcome.out
    assert f"disagreements: {math_run}/audit.jsonl" in outcome.out


def test_an_audit_without_a_difference(math_run, run: Run):
    tasks = lines(math_run / "tasks.jsonl")
    write_json_lines(math_run / "tasks.jsonl", [task | {"reference": "4"} for task in tasks])
    traces = [trace | {"answer_text": "\\boxed{4}"} for trace in lines(math_run / "traces.jsonl")]
    write_json_lines(math_run / "traces.jsonl", traces)
    assert run([str(math_run)], score.main).code == 0
    outcome = run([str(math_run), "--audit"], score.main)
    assert f"{len(traces)} answers: both pay {len(traces)}, neither pays 0, they differ on 0" in outcome.out
    assert lines(math_run / "audit.jsonl") == []


def test_an_audit_needs_mathematics(folder, run: Run):
    outcome = run([str(folder), "--audit"], score.main)
    assert outcome.code == 2
    assert "has no mathematical answers with a verdict (its tasks are graded by: countdown)" in outcome.err
    assert not (folder / "audit.jsonl").exists()


def test_an_audit_does_not_grade(math_run, run: Run):
    outcome = run([str(math_run), "--audit", "--grading", "eval"], score.main)
    assert (outcome.code, "grade with --grading first" in outcome.err) == (2, True)

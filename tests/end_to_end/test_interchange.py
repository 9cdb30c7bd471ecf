"""Completions of other tools: read by their fields, graded like a run, and reported like one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from reasoning import report, score
from reasoning.files import read_json
from reasoning.interchange import read_completions
from reasoning.tasks import TaskError
from tests.end_to_end.conftest import Outcome, lines, results

Run = Callable[..., Outcome]

PROBLEMS = [("a", "What is 1 + 1?", "2"), ("b", "What is 2 + 3?", "5"), ("c", "What is 4 + 4?", "8")]
BOX = "<think>Let me see.</think>So it is \\boxed{%s}."


def write(path: Path, records: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    records = ({"id": name, "problem": problem, "answer": answer} for name, problem, answer in PROBLEMS)
    return write(tmp_path / "sums.jsonl", records)


def lm_eval(doc_id: int, texts: list[str], **more: Any) -> dict[str, Any]:
    _, problem, answer = PROBLEMS[doc_id]
    doc = {"question": problem, "answer": answer}
    return {"doc_id": doc_id, "doc": doc, "target": answer, "arguments": [[problem]], "resps": [texts], **more}


def inspect(choices: object) -> dict[str, Any]:
    return {"id": "a", "output": {"completion": "", "choices": choices}}


FORMS = {
    "plain": [
        {"id": "a", "completion": BOX % 2},
        {"id": "a", "completion": BOX % 3},
        {"id": "b", "completion": BOX % 5},
        {"id": "b", "completion": "no idea"},
    ],
    "lm-eval": [
        lm_eval(0, [BOX % 2, BOX % 3], filter="strict-match"),
        lm_eval(1, [BOX % 5, "no idea"], filter="strict-match"),
        lm_eval(0, [BOX % 2, BOX % 3], filter="flexible-extract"),
        lm_eval(1, [BOX % 5, "no idea"], filter="flexible-extract"),
    ],
    "inspect": [
        {"id": "a", "epoch": 1, "target": "2", "output": {"completion": BOX % 2, "choices": []}},
        {"id": "b", "epoch": 1, "target": "5", "output": {"choices": [{"message": {"content": BOX % 5}}]}},
        {"id": "a", "epoch": 2, "output": BOX % 3},
        {
            "id": "b",
            "epoch": 2,
            "output": {
                "choices": [
                    {
                        "message": {
                            "content": [{"type": "reasoning", "reasoning": "5"}, {"type": "text", "text": "no idea"}]
                        }
                    }
                ]
            },
        },
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_run(tmp_path, tasks, run: Run, form):
    file, out = write(tmp_path / "answers.jsonl", FORMS[form]), tmp_path / "run"
    outcome = run([str(file), "--tasks", str(tasks), "--out", str(out)], score.main)
    assert outcome.code == 0
    assert "warning: tasks without a completion in the file, which are left out: 1" in outcome.out
    (point,) = results(out)["points"]
    assert (point["label"], point["n_tasks"], point["n_samples"]) == ("none", 2, 4)
    assert point["accuracy"] == 0.5
    assert point["statuses"] | {"correct": 2, "wrong": 1, "no_answer": 1} == point["statuses"]
    assert point["pass_at"] == {"1": 0.5, "2": 1.0}
    assert point["tokens_mean"] is None, "nobody counted them: unknown, not zero"
    assert results(out)["status"] == "complete"
    assert read_json(out / "manifest.json")["imported"]["form"] == form
    assert point["bound_share"] is None, "what ended them is not known either"
    assert set(read_json(out / "results.json")["cost"].values()) == {None}
    page = (out / "report.html").read_text("utf-8")
    assert "in completions of another tool (2 tasks, 4 samples)" in page
    assert not any(unknown in page for unknown in ("tokens a sample", "no limit on its thinking", "decoded tokens"))
    assert "verdicts changed" not in outcome.out, "there were none before"


def test_the_folder_is_an_ordinary_run(tmp_path, tasks, folder, run: Run):
    file, out = write(tmp_path / "answers.jsonl", FORMS["plain"]), tmp_path / "run"
    assert run([str(file), "--tasks", str(tasks), "--out", str(out)], score.main).code == 0
    before = results(out)
    assert run([str(out)], score.main).code == 0
    assert run([str(out)], report.main).code == 0
    assert results(out) == before
    other = Path(shutil.copytree(out, tmp_path / "other"))
    compared = run([str(out), str(other)], report.main)
    assert compared.code == 0
    assert "No difference is shown: other against run at none (+0.0" in compared.out
    unlike = run([str(out), str(folder)], report.main)
    assert (unlike.code, "these runs have no task in common" in unlike.err) == (2, True)


def test_a_used_folder_is_refused(tmp_path, tasks, run: Run):
    file, out = write(tmp_path / "answers.jsonl", FORMS["plain"]), tmp_path / "run"
    assert run([str(file), "--tasks", str(tasks), "--out", str(out)], score.main).code == 0
    again = run([str(file), "--tasks", str(tasks), "--out", str(out)], score.main)
    assert (again.code, f"{out} already holds a run. Choose another --out." in again.err) == (2, True)
    replayed = run([str(out), "--policy", "vote:1"], report.main)
    assert (replayed.code, "whose tokens nobody counted: no policy can be replayed" in replayed.err) == (2, True)


def test_thinking_that_never_closed_and_failures_stay_apart(tmp_path, tasks, run: Run):
    records = [
        {"id": "a", "output": {"completion": "<think>It is \\boxed{2}"}},
        {"id": "b", "output": None, "error": {"message": "connection lost"}},
        {"id": "c", "output": {"completion": "\\boxed{8} \ud800"}},
    ]
    file, out = write(tmp_path / "answers.jsonl", records), tmp_path / "run"
    assert run([str(file), "--tasks", str(tasks), "--out", str(out)], score.main).code == 0
    (point,) = results(out)["points"]
    assert (point["n_samples"], point["n_missing"], point["accuracy"]) == (2, 1, 0.5)
    assert "the other tool failed on 1 of 3 samples; they are in no rate" in results(out)["warnings"]
    stored = {trace["task_id"]: trace for trace in lines(out / "traces.jsonl")}
    assert stored["a"]["finish_reason"] == "unclosed"
    assert (stored["b"]["finish_reason"], stored["b"]["error"]) == ("error", "connection lost")
    assert stored["c"]["text"] == "\\boxed{8} ?"


def test_uneven_samples_make_a_partial_run(tmp_path, tasks, run: Run):
    file, out = write(tmp_path / "answers.jsonl", FORMS["plain"][:3]), tmp_path / "run"
    outcome = run([str(file), "--tasks", str(tasks), "--out", str(out)], score.main)
    assert "warning: partial run: 3 of 4 samples; the tasks have different numbers of samples" in outcome.out
    assert results(out)["points"][0]["pass_at"] == {"1": 0.75}, "one task has one sample alone"


BAD = {
    "no known form": ([{"id": "a", "answer": "2"}], "line 1: the fields id, answer are of no known form; write plain"),
    "another form": ([*FORMS["plain"][:1], lm_eval(0, ["2"])], "line 2: looks like lm-eval, but the lines before"),
    "not text": ([{"id": "a", "completion": 2}], "line 1: the field 'completion' holds no text but int: 2"),
    "an id that is none": ([{"id": None, "completion": "2"}], "line 1: the id None is neither text nor"),
    "no such task": ([{"id": "aa", "completion": "2"}], "line 1: {tasks} has no task 'aa'; did you mean 'a'?"),
    "another problem": (
        [lm_eval(1, ["2"]) | {"doc_id": 0}],
        "line 1: the problem of doc_id 0 is not that of task 'a', number 0 of",
    ),
    "beyond the tasks": ([lm_eval(0, ["2"]) | {"doc_id": 3}], "line 1: doc_id 3 is beyond the 3 tasks of"),
    "log-likelihoods": ([lm_eval(0, [[-1.5, False]])], "line 1: the field 'resps' holds no text but list"),
    "several requests": ([lm_eval(0, ["2"]) | {"resps": [["2"], ["3"]]}], "line 1: resps is not one list of generated"),
    "a message that is none": ([inspect([{"message": "2"}])], "line 1: output has no completion, and no text"),
    "a choice that is none": ([inspect([2])], "line 1: output has no completion, and no text at choices[0]"),
    "choices that are none": ([inspect("2")], "line 1: output has no completion, and no text at choices[0]"),
    "parts that are none": ([inspect([{"message": {"content": [2]}}])], "line 1: output has no completion, and no"),
    "a document that is text": ([lm_eval(0, ["2"]) | {"doc": "1 + 1", "doc_id": 7}], "line 1: doc_id 7 is beyond"),
    "nothing": ([], "has no completions; its lines should be plain"),
    "no object": ([3], "line 1: a JSON object was expected, not int"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_read_is_named_with_its_line(tmp_path, tasks, run: Run, kind):
    records, message = BAD[kind]
    file, out = write(tmp_path / "answers.jsonl", records), tmp_path / "run"
    outcome = run([str(file), "--tasks", str(tasks), "--out", str(out)], score.main)
    assert outcome.code == 2
    assert message.format(tasks=tasks) in outcome.err
    assert not out.exists(), "nothing was started"


def test_a_file_needs_its_tasks_and_a_run_no_folder(tmp_path, folder, run: Run):
    file = write(tmp_path / "answers.jsonl", FORMS["plain"])
    assert "say which tasks its completions answer: --tasks NAME or FILE" in run([str(file)], score.main).err
    assert "--out is for the completions of a file" in run([str(folder), "--out", "x"], score.main).err
    missing = run([str(tmp_path / "gone.jsonl"), "--tasks", str(file)], score.main)
    assert (missing.code, "there is no such file" in missing.err) == (2, True)


def test_a_filter_that_comes_alone_drops_nothing(tmp_path):
    file = write(tmp_path / "x.jsonl", [lm_eval(0, ["2"], filter="none"), lm_eval(0, ["3"], filter="none")])
    assert [completion.text for completion in read_completions(file)[1]] == ["2", "3"]
    with pytest.raises(TaskError, match=r"cannot read '\.txt' files"):
        read_completions(tmp_path / "x.txt")

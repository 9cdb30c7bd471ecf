"""What several attempts at a run cost together, and samples that a later attempt drew differently."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reasoning import evaluation
from reasoning.engine.base import Engine, Request
from reasoning.engine.scripted import ScriptedEngine
from reasoning.eval import parse
from reasoning.evaluation import evaluate
from reasoning.files import read_json, write_json_lines
from reasoning.preflight import Plan
from reasoning.types import NO_LIMIT
from tests.end_to_end import scripted
from tests.end_to_end.conftest import Child, Outcome, cost, line_count, lines, many, results, resume_arguments

Run = Callable[..., Outcome]
Fork = Callable[..., Child]


def test_an_attempt_that_was_killed_is_paid_for(model, tmp_path, uninterrupted, run: Run, fork: Fork, monkeypatch):
    monkeypatch.setenv(scripted.STEP_SECONDS, "0.01")
    monkeypatch.setattr("reasoning.sampling.STATE_EVERY_S", 0.0)
    out = tmp_path / "killed"
    child = fork(many(model, out))
    assert child.wait_for(lambda: line_count(out / "traces.jsonl") >= 20)
    child.kill(signal.SIGKILL)
    child.wait()
    lost = lines(out / "engine.jsonl")[-1]
    monkeypatch.delenv(scripted.STEP_SECONDS)
    assert run(many(model, out, "--resume")).code == 0
    last = lines(out / "engine.jsonl")[-1]
    assert (lost["attempt"], last["attempt"]) == (1, 2)
    assert cost(out)["engine_tokens"] == lost["generated_tokens"] + last["generated_tokens"]
    assert cost(out)["engine_seconds"] == pytest.approx(lost["time_s"] + last["time_s"])
    assert cost(out)["engine_tokens"] > cost(out)["decoded_tokens"] >= cost(uninterrupted)["decoded_tokens"]
    assert cost(out)["engine_tokens"] > cost(uninterrupted)["engine_tokens"], "what the kill threw away was work"


def test_a_run_ends_once_even_if_its_summary_fails(model, tmp_path, run: Run, monkeypatch):
    ends: list[str] = []
    end = evaluation.end_attempt
    monkeypatch.setattr(
        evaluation, "end_attempt", lambda folder, status, at: (ends.append(status), end(folder, status, at))
    )

    def fail(_folder: object) -> None:
        raise ZeroDivisionError("no summary today")

    with monkeypatch.context() as broken:
        broken.setattr(evaluation, "summarise", fail)
        outcome = run(many(model, tmp_path / "run", limit=4))
    assert (outcome.code, ends) == (1, ["failed"])
    assert read_json(tmp_path / "run" / "manifest.json")["status"] == "failed"
    assert "32 of 32 samples are on disk" in outcome.err
    assert run(resume_arguments(outcome.err)).code == 0
    assert ends == ["failed", "complete"]
    assert len(read_json(tmp_path / "run" / "manifest.json")["attempts"]) == 1, "nothing was left to sample"


class OtherDraws(scripted.Model):
    """Writes something else for the same seeds, as a graphics processor may once the batch is another."""

    def __call__(self, request: Request) -> tuple[int, ...]:
        return super().__call__(replace(request, seed=request.seed + 1))


def start_dying(plan: Plan, _log: Path) -> Engine:
    return ScriptedEngine(scripted.Model(plan), plan.max_model_len, max_running=8, fail_at_step=100)


def start_other(plan: Plan, _log: Path) -> Engine:
    return ScriptedEngine(OtherDraws(plan), plan.max_model_len, max_running=8)


def split_samples(folder: Path) -> int:
    """Samples with rows of both attempts, told by their first thinking token: every seed begins differently."""
    first: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for trace in lines(folder / "traces.jsonl"):
        if trace["thinking_tokens"]:
            first[trace["task_id"], trace["sample"]].add(trace["completion_ids"][0])
    return sum(len(starts) > 1 for starts in first.values())


def test_samples_that_come_out_differently_the_second_time_are_counted(model, tmp_path, run: Run):
    out = tmp_path / "redrawn"
    assert run(many(model, out), lambda words: evaluate(*parse(words), start_dying)).code == 1
    outcome = run(many(model, out, "--resume"), lambda words: evaluate(*parse(words), start_other))
    redrawn = read_json(out / "results.json")["redrawn"]
    assert outcome.code == 0
    assert 0 < redrawn == split_samples(out) <= 8
    message = f"warning: {redrawn} samples were drawn again after an interruption and came out differently: "
    assert message + "their budgets do not share one trace" in outcome.out


def test_samples_that_come_out_the_same_are_not(model, tmp_path, uninterrupted, run: Run):
    out = tmp_path / "same"
    assert run(many(model, out), lambda words: evaluate(*parse(words), start_dying)).code == 1
    assert run(many(model, out, "--resume")).code == 0
    assert results(out) == results(uninterrupted)
    assert results(out)["redrawn"] == 0


def test_a_trace_that_closed_early_cannot_have_gone_on(folder, run: Run):
    """The same ids, but one row says that the thinking ended by itself where another went on."""
    from reasoning import report

    stored = lines(folder / "traces.jsonl")
    cut = next(trace for trace in stored if trace["budgets"] == [8] and trace["bound"])
    assert any(
        trace["task_id"] == cut["task_id"] and trace["thinking_tokens"] > 8 and max(map(limit, trace["budgets"])) > 8
        for trace in stored
    )
    cut["bound"] = cut["forced"] = False
    write_json_lines(folder / "traces.jsonl", stored)
    run([str(folder)], report.main)
    assert results(folder)["redrawn"] == 1


def limit(budget: int | None) -> int:
    return NO_LIMIT if budget is None else budget

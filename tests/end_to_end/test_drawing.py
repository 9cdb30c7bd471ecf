"""Policies that draw the samples of a task: what an online run draws, votes and says is what the replay does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import policy_table
from eval.policies import POLICIES
from eval.replay import draw, filter_traces, majority
from eval.stored import whole_samples
from eval.voted import Voting, task_ballots
from reasoning import pages, report, summary
from reasoning.budget.drawing import Adaptive, AdaptiveShare, BetaStop
from reasoning.files import read_json
from reasoning.online import Draws
from reasoning.run_folder import RunFolder
from reasoning.summary import read_samples
from reasoning.types import NO_LIMIT, FinishReason
from tests.end_to_end import scripted
from tests.end_to_end.conftest import Outcome, line_count, lines, results

Run = Callable[..., Outcome]

BUDGETS = "8,16,24,none"


def arguments(model: Path, out: Path, *more: str, budgets: str = BUDGETS) -> list[str]:
    settings = ["--samples", "8", "--limit", "12", "--quiet", "--baseline", "false", "--logprobs", "true"]
    return ["--model", str(model), "--budgets", budgets, *settings, "--out", str(out), *more]


@pytest.fixture(scope="module", autouse=True)
def undrawn() -> Generator[None]:
    """No figures and no page: they take most of the time and are tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "show_run", lambda *_: [])
        yield


@pytest.fixture(scope="module")
def plain(model, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "plain"
    assert scripted.main(arguments(model, out)) == 0
    return out


ONLINE = {
    "asc:0.75": "none",
    "beta:0.9": "24",
    "deepconf:0.5,warmup=3": BUDGETS,
    "split:60": BUDGETS,
    "difficulty:60,bins=2": BUDGETS,
}
"""Policies and the budgets to sample them at."""


@pytest.fixture(scope="module")
def online(model, plain, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    runs = {text: folder / text.partition(":")[0] for text in ONLINE}
    for text, out in runs.items():
        assert scripted.main(arguments(model, out, "--policy", typed(text, plain), budgets=ONLINE[text])) == 0
    return runs


def typed(text: str, plain: Path) -> str:
    return f"{text},from={plain}" if text.startswith(("split", "difficulty")) else text


@pytest.fixture(scope="module")
def replayed(plain, tmp_path_factory) -> dict[str, dict]:
    """The policies on the plain run, as results.json has them."""
    out = Path(shutil.copytree(plain, tmp_path_factory.mktemp("runs") / "replayed"))
    asked = [text + (",budget=24" if text.startswith("beta") else "") for text in ONLINE]
    assert report.main([str(out), *(word for text in asked for word in ("--policy", text))]) == 0
    return dict(zip(ONLINE, read_json(out / "results.json")["policies"], strict=True))


def ballots(path: Path, text: str) -> dict[str, tuple[float, list[int]]]:
    found = task_ballots(read_samples(RunFolder(path)), Voting(text, NO_LIMIT))
    return {task_id: (ballot.right, list(ballot.tokens)) for task_id, ballot in found.items()}


@pytest.mark.parametrize(("text", "rule"), [("asc:0.75", AdaptiveShare(0.75)), ("beta:0.9", BetaStop(0.9))])
def test_online_draws_the_samples_that_the_replay_draws(plain, online, text, rule):
    stored = whole_samples(read_samples(RunFolder(plain)))
    at = stored.at(stored.budgets[-1] if text.startswith("asc") else 24)
    wanted = {task_id: majority(draw(rows, rule)) for task_id, rows in zip(stored.tasks, at, strict=True)}
    assert ballots(online[text], text) == {task: (one.right, list(one.tokens)) for task, one in wanted.items()}
    assert len({len(one.tokens) for one in wanted.values()}) > 2  # the test can tell


def test_online_stops_the_traces_that_the_replay_stops(plain, online):
    text = "deepconf:0.5,warmup=3"
    tasks = whole_samples(read_samples(RunFolder(plain))).tasks
    wanted = {task_id: filter_traces(samples, 0.5, 3) for task_id, samples in tasks.items()}
    assert ballots(online[text], text) == {task: (one.right, list(one.tokens)) for task, one in wanted.items()}
    rows = lines(online[text] / "traces.jsonl")
    stopped = [row for row in rows if row["stopped"]]
    assert {row["thinking_tokens"] for row in stopped} >= {8, 16, 24}
    assert all(row["finish_reason"] == "cut" and row["answer_tokens"] == 0 for row in stopped)
    assert len(rows) == 12 * 8  # nothing but the largest budget was asked for an answer
    assert all(row["sample"] >= 3 for row in stopped)


@pytest.mark.parametrize("text", ["split:60", "difficulty:60,bins=2"])
def test_online_gives_each_task_what_the_replay_gives_it(online, replayed, text):
    manifest = read_json(online[text] / "manifest.json")
    assert len(manifest["allocation"]) == 12
    named = {f"{votes} x {'none' if budget is None else budget}" for budget, votes in manifest["allocation"].values()}
    assert named == set(replayed[text]["chosen"].replace("; ", " or ").split(" or "))
    drawn = {(row["task_id"], row["budgets"][0]) for row in lines(online[text] / "traces.jsonl")}
    assert drawn == {(task_id, budget) for task_id, (budget, _) in manifest["allocation"].items()}


def test_an_allocation_draws_other_samples_than_those_it_was_chosen_by(plain, online):
    known = {row["seed"] for row in lines(plain / "traces.jsonl")}
    fresh = {row["seed"] for row in lines(online["difficulty:60,bins=2"] / "traces.jsonl")}
    assert fresh
    assert not known & fresh
    assert known >= {row["seed"] for row in lines(online["asc:0.75"] / "traces.jsonl")}  # the test can tell


@pytest.mark.parametrize("text", ["asc:0.75", "beta:0.9", "deepconf:0.5,warmup=3"])
def test_the_results_of_the_online_run_are_those_of_the_replay(online, replayed, text):
    found, wanted = read_json(online[text] / "results.json"), replayed[text]
    (point,) = found["points"]
    assert (point["accuracy"], point["low"], point["high"]) == (wanted["accuracy"], wanted["low"], wanted["high"])
    assert point["tokens_mean"] == pytest.approx(wanted["tokens_mean"])
    assert (point["vote"], found["run"]["stopping"], point["n_tasks"]) == (text, text, 12)


def test_a_task_with_fewer_samples_misses_none(online):
    """What an adaptive run drew is all that it owes; nothing is said that takes as many samples of every task."""
    found = read_json(online["asc:0.75"] / "results.json")
    (point,) = found["points"]
    drawn = line_count(online["asc:0.75"] / "traces.jsonl")
    assert (found["status"], found["planned"], found["finished"]) == ("complete", drawn, drawn)
    assert (point["n_samples"], point["n_missing"], drawn < 12 * 8) == (drawn, 0, True)
    assert (point["pass_at"], point["majority_at"], found["parallel"], found["differences"]) == ({}, {}, [], [])
    assert set(found["shape"].values()) == {None}
    levels = found["levels"].values()
    assert sum(one["n_samples"] for points in levels for one in points) == drawn
    assert [one["vote"] for points in levels for one in points] == ["asc:0.75"] * len(levels)


def test_a_trace_that_was_stopped_is_not_one_without_an_answer(online):
    out = online["deepconf:0.5,warmup=3"]
    (point,) = read_json(out / "results.json")["points"]
    asked = [row for row in lines(out / "traces.jsonl") if not row["stopped"]]
    assert point["no_answer_share"] == sum(row["answer_text"] == "" for row in asked) / len(asked)
    assert point["statuses"]["no_answer"] > 2 * point["no_answer_share"] * point["n_samples"]


@pytest.mark.parametrize("text", ["beta:0.9", "deepconf:0.5,warmup=3", "difficulty:60,bins=2"])
def test_a_resumed_run_comes_to_the_same_decisions(model, plain, online, tmp_path, run: Run, text):
    out = Path(shutil.copytree(online[text], tmp_path / "torn"))
    kept = (out / "traces.jsonl").read_text().splitlines(keepends=True)
    (out / "traces.jsonl").write_text("".join(kept[: len(kept) // 2]))
    graded = (out / "verdicts.jsonl").read_text().splitlines(keepends=True)
    (out / "verdicts.jsonl").write_text("".join(graded[: len(graded) // 4]))
    partial = run([str(out)], report.main)
    assert (partial.code, read_json(out / "results.json")["status"]) == (0, "partial")
    again = run(arguments(model, out, "--policy", typed(text, plain), "--resume", budgets=ONLINE[text]))
    assert again.code == 0, again.err
    assert results(out) == results(online[text])


def test_an_undecided_task_is_in_no_rate(online, tmp_path, run: Run):
    out = Path(shutil.copytree(online["asc:0.75"], tmp_path / "torn"))
    rows = lines(out / "traces.jsonl")
    name = max(rows, key=lambda row: row["sample"])["task_id"]
    kept = [row for row in rows if (row["task_id"], row["sample"]) != (name, 1)]
    (out / "traces.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    assert run([str(out)], report.main).code == 0
    found = read_json(out / "results.json")
    assert (found["points"][0]["n_tasks"], found["status"], found["planned"] - found["finished"]) == (11, "partial", 1)
    assert found["warnings"][0].endswith("samples; undecided tasks, the harder ones as a rule, are in no rate")


def test_policies_are_compared_with_the_run_without_one(online, plain, tmp_path, run: Run, monkeypatch):
    monkeypatch.setattr(summary, "show_run", pages.show_run)
    first = Path(shutil.copytree(plain, tmp_path / "plain"))
    outcome = run([str(first), str(online["asc:0.75"])], report.main)
    assert outcome.code == 0, outcome.err
    assert (
        "policy asc:0.75 is one vote a task, at the tokens of all its samples; policy none is a single" in outcome.out
    )
    lines_drawn = read_json(first / "plots" / "comparison.json")["series"]
    assert [len(line["points"]) for line in lines_drawn] == [4, 1]
    vote = read_json(online["asc:0.75"] / "results.json")["points"][0]
    assert lines_drawn[1]["points"][0]["accuracy"] == vote["accuracy"]
    assert (
        "tokens a task, by the vote of the samples that asc:0.75 drew"
        in (online["asc:0.75"] / "report.html").read_text()
    )


@pytest.mark.parametrize(
    ("policy", "budgets", "message"),
    [
        ("asc", "8,16", "compares the answers at one budget: write --budgets 16, not 8,16"),
        ("beta", "0,16", "has no use for budget 0; leave it out"),
        ("deepconf:0.5,warmup=8", "16", "with 8 samples a task; --samples says how many it may draw: write 9 or more"),
        ("split:60", "16", "split:60: from is missing"),
        ("split:60,from=nowhere", "16", "no run folder at nowhere"),
        ("split:60,from=PLAIN", "12", "has no budget 12 to choose by"),
        ("split:2,from=PLAIN", "8", "2 tokens a task are too few"),
        ("difficulty:60,from=ONLINE", "24", "was sampled under beta:0.9"),
        ("cap:8", "16", "no run can be sampled under the policy 'cap'; there are agree:n=N"),
        ("best:4", "16", "no run can be sampled under the policy 'best'; there are agree:n=N"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_starts(
    model, plain, online, tmp_path, run: Run, policy, budgets, message
):
    text = policy.replace("PLAIN", str(plain)).replace("ONLINE", str(online["beta:0.9"]))
    outcome = run(arguments(model, tmp_path / "never", "--policy", text, budgets=budgets))
    assert (outcome.code, message in outcome.err) == (2, True), outcome.err
    assert not (tmp_path / "never").exists()


def test_a_run_is_sampled_under_one_policy(model, tmp_path, run: Run):
    outcome = run(arguments(model, tmp_path / "never", "--policy", "asc", "--policy", "beta", budgets="16"))
    assert (outcome.code, "sampled under one policy: give one of asc, beta" in outcome.err) == (2, True), outcome.err


def test_an_allocation_needs_a_run_of_the_same_tasks(model, plain, tmp_path, run: Run):
    outcome = run(arguments(model, tmp_path / "never", "--policy", f"split:60,from={plain}", "--seed", "5"))
    assert (outcome.code, "of the 12 tasks" in outcome.err) == (2, True), outcome.err


def test_the_table_of_all_policies(plain, tmp_path, capsys):
    assert policy_table.main([str(plain), "--out", str(tmp_path)]) == 0
    record = read_json(tmp_path / "table.json")
    named = [row["policy"] for row in record["policies"]]
    assert {name.partition(":")[0] for name in named} == set(POLICIES)
    rows = (tmp_path / "table.md").read_text().splitlines()
    assert len(rows) == 2 + len(named)
    assert {row.count("|") for row in rows} == {len(policy_table.HEADINGS) + 1}
    never = next(row for row in record["policies"] if row["policy"] == "never")
    assert (never["saved"], never["accuracy"]) == (0.0, never["baseline_accuracy"])
    assert {cell["votes"] for cell in record["map"]} == {1, 2, 4, 8}
    assert all((tmp_path / f"{name}.png").exists() for name in ("heatmap", "parallel", "policies"))
    assert f"{len(named)} policies" in capsys.readouterr().out


def test_a_task_of_which_the_engine_failed_a_sample_is_left_undecided(online):
    """It draws no more in this attempt; the next one draws the sample again."""
    out = RunFolder(online["asc:0.75"])
    rows = {(row.key.task_id, row.key.sample): row for row in out.read_generations()}
    name = next(task_id for task_id, number in rows if number > 1)
    empty = RunFolder(online["asc:0.75"] / "nothing")
    draws = Draws(Adaptive(AdaptiveShare(0.75), NO_LIMIT, 8), [name], lambda _task, answer: answer or None, empty)
    assert [(task_id, draw.number) for task_id, draw in draws.first()] == [(name, 0), (name, 1)]
    failed = replace(rows[name, 1], finish_reason=FinishReason.ERROR)
    verdict = out.read_verdicts()[rows[name, 0].key]
    assert draws.add([failed, rows[name, 0]], []) == []
    assert (draws.n_finished, draws.is_waiting) == (0, True)
    assert draws.add([], [((rows[name, 0].key,), verdict)]) == []
    assert (draws.n_finished, draws.is_waiting) == (1, False)


def test_a_resumed_run_refuses_another_allocation(model, plain, online, tmp_path, run: Run):
    text = "difficulty:60,bins=2"
    out = Path(shutil.copytree(online[text], tmp_path / "changed"))
    RunFolder(out).update_manifest(allocation_hash="of another choice")
    outcome = run(arguments(model, out, "--policy", typed(text, plain), "--resume", budgets=BUDGETS))
    assert (outcome.code, "these differ: allocation.hash" in outcome.err) == (2, True), outcome.err

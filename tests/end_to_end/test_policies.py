"""Policies online and replayed, through the commands that people type."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from eval.replay import replay_thinking
from eval.stored import whole_samples
from reasoning import report
from reasoning.budget.stopping import Agreement
from reasoning.files import read_json
from reasoning.run_folder import RunFolder
from reasoning.summary import graded_sample
from tests.end_to_end import scripted
from tests.end_to_end.conftest import Outcome, lines

Run = Callable[..., Outcome]

BUDGETS = "4,8,12,16,24,none"


def arguments(model: Path, out: Path, *more: str) -> list[str]:
    settings = ["--budgets", BUDGETS, "--samples", "4", "--limit", "12", "--quiet", "--baseline", "false"]
    return ["--model", str(model), *settings, "--out", str(out), *more]


@pytest.fixture(scope="module")
def plain(model, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "plain"
    assert scripted.main(arguments(model, out)) == 0
    return out


@pytest.fixture(scope="module")
def stopped(model, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "stopped"
    assert scripted.main(arguments(model, out, "--policy", "agree:2")) == 0
    return out


def samples(path: Path):
    folder = RunFolder(path)
    tasks, verdicts = folder.read_tasks(), folder.read_verdicts()
    return [graded_sample(row, tasks[row.key.task_id], verdicts.get(row.key)) for row in folder.read_generations()]


ASKED = ("never", "agree:2", "cap:8", "agree:3", "vote:2", "asc", "beta:0.9", "split:60", "difficulty:60,bins=2")


@pytest.fixture(scope="module")
def replayed(plain, tmp_path_factory) -> dict[str, dict]:
    """Every policy on the run without one, as results.json has them."""
    out = Path(shutil.copytree(plain, tmp_path_factory.mktemp("runs") / "replayed"))
    assert report.main([str(out), *(word for text in ASKED for word in ("--policy", text))]) == 0
    return {row["policy"]: row for row in read_json(out / "results.json")["policies"]}


def test_online_stops_where_the_replay_does(plain, stopped):
    """For every sample: the same budget, the same answer, the same tokens."""
    last = {row.key: row for row in samples(stopped)}
    stops = set()
    for rows in (rows for task in whole_samples(samples(plain)).tasks.values() for rows in task):
        replayed = replay_thinking(rows, Agreement(2))
        online = last[rows[-1].key]
        assert (float(online.status == "correct"), online.spent_tokens) == (replayed.right, replayed.tokens)
        assert online.probe_tokens == replayed.probe_tokens
        stops.add(replayed.stop)
    assert len(stops) > 3  # the test can tell


def test_the_results_of_the_online_run_are_those_of_the_replay(replayed, stopped):
    agreed, found = replayed["agree:2"], read_json(stopped / "results.json")
    point = found["points"][-1]
    assert (point["accuracy"], point["low"], point["high"]) == (agreed["accuracy"], agreed["low"], agreed["high"])
    assert point["tokens_mean"] == pytest.approx(agreed["tokens_mean"])
    assert (found["run"]["stopping"], found["violations"]) == ("agree:2", [])


def test_never_stop_is_the_last_point(plain, replayed):
    never, point = replayed["never"], read_json(plain / "results.json")["points"][-1]
    assert (never["accuracy"], never["low"], never["high"]) == (point["accuracy"], point["low"], point["high"])
    assert never["tokens_mean"] == pytest.approx(point["tokens_mean"])
    assert (never["saved"], never["saved_low"], never["difference"]) == (0.0, 0.0, 0.0)


def test_several_policies_at_once(replayed, folder, run: Run):
    assert tuple(replayed) == ASKED
    assert replayed["split:60"]["chosen"]
    assert json.dumps(replayed, allow_nan=False)
    assert "saved at equal accuracy" in run([str(folder), "--policy", "never"], report.main).out
    assert len(read_json(folder / "results.json")["policies"]) == 1


def test_stopping_saves_what_the_engine_generates(plain, stopped):
    spent = [read_json(path / "results.json")["cost"]["engine_tokens"] for path in (stopped, plain)]
    assert spent[0] < spent[1]


def test_a_run_with_a_policy_is_continued_whole(model, stopped, tmp_path, run: Run):
    """A sample of which one row is on disk is drawn again with all of its budgets: the rule needs them."""
    out = Path(shutil.copytree(stopped, tmp_path / "torn"))
    kept = (out / "traces.jsonl").read_text().splitlines(keepends=True)
    (out / "traces.jsonl").write_text("".join(kept[: len(kept) // 2]))
    (out / "verdicts.jsonl").unlink()
    assert run(arguments(model, out, "--policy", "agree:2", "--resume")).code == 0
    assert read_json(out / "results.json")["points"] == read_json(stopped / "results.json")["points"]


def test_a_run_that_a_policy_stopped_has_nothing_to_replay(stopped, run: Run):
    outcome = run([str(stopped), "--policy", "never"], report.main)
    assert (outcome.code, "was sampled under agree:2" in outcome.err) == (2, True)


def test_log_probabilities_are_asked_for(plain, model, tmp_path, run: Run):
    outcome = run([str(plain), "--policy", "deer"], report.main)
    assert (outcome.code, "--logprobs true" in outcome.err) == (2, True)
    outcome = run(arguments(model, tmp_path / "never", "--policy", "deer"))
    assert (outcome.code, "add --logprobs true" in outcome.err, (tmp_path / "never").exists()) == (2, True, False)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--policy", "agre:2"], "unknown policy 'agre'. Did you mean agree?"),
        (["--policy", "vote:2"], "reasoning.report RUN --policy vote:2"),
        (["--policy", "agree:2", "--closing", "none"], "closing none forces none"),
    ],
)
def test_a_policy_that_cannot_run_is_refused_before_anything_starts(model, tmp_path, run: Run, more, message):
    outcome = run(arguments(model, tmp_path / "never", *more))
    assert (outcome.code, message in outcome.err) == (2, True), outcome.err
    assert not (tmp_path / "never").exists()


def test_the_rows_say_that_a_policy_stopped_them(stopped):
    traces = lines(stopped / "traces.jsonl")
    assert any(trace["stopped"] and len(trace["budgets"]) > 1 for trace in traces)
    assert all(trace["probe_tokens"] >= 0 and trace["answer_confidence"] is None for trace in traces)

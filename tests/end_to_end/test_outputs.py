"""What a run leaves behind, what it prints, and what score and report make of it."""

from __future__ import annotations

import csv
import hashlib
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from reasoning.console import command_line
from reasoning.engine.base import Engine, Output, StopReason
from reasoning.eval import parse
from reasoning.evaluation import evaluate
from reasoning.files import read_json, write_json_lines
from reasoning.preflight import Plan
from reasoning.summary import describe_run
from tests.end_to_end import scripted
from tests.end_to_end.conftest import Outcome, arguments, lines, results

Run = Callable[..., Outcome]


def test_the_numbers_are_those_of_plain_counting(folder):
    found = read_json(folder / "results.json")
    assert (found["schema"], found["status"], found["planned"], found["finished"]) == (2, "complete", 128, 128)
    assert [(point["budget"], point["label"]) for point in found["points"]] == [
        (0, "0"), (8, "8"), (16, "16"), (None, "none"),
    ]  # fmt: skip
    graded = lines(folder / "verdicts.jsonl")
    traces = {(t["task_id"], t["sample"], b): t for t in lines(folder / "traces.jsonl") for b in t["budgets"]}
    assert len(traces) == len(graded) == 128
    for point in found["points"]:
        mine = [verdict for verdict in graded if verdict["budget"] == point["budget"]]
        right = sum(verdict["status"] == "correct" for verdict in mine)
        assert (point["n_samples"], point["n_tasks"], point["n_missing"]) == (32, 16, 0)
        assert point["accuracy"] == pytest.approx(right / 32)
        assert point["low"] <= point["accuracy"] <= point["high"]
        spent = [t["thinking_tokens"] + t["answer_tokens"] for key, t in traces.items() if key[2] == point["budget"]]
        assert point["tokens_mean"] == pytest.approx(sum(spent) / 32)
    rates = [point["accuracy"] for point in found["points"]]
    assert rates == sorted(rates), "the script is right more often after more thinking"
    assert rates[0] < rates[-1]
    assert [(d["budget_low"], d["budget_high"]) for d in found["differences"]] == [(0, 8), (8, 16), (16, None)]
    assert found["differences"][0]["delta"] == pytest.approx(rates[1] - rates[0])


def test_the_table_as_csv(folder):
    rows = list(csv.DictReader((folder / "results.csv").open()))
    assert Counter(row["level"] for row in rows) == {"all": 4, "3": 4, "4": 4, "5": 4, "6": 4}
    points = read_json(folder / "results.json")["points"]
    whole = [row for row in rows if row["level"] == "all"]
    assert [row["budget"] for row in whole] == ["0", "8", "16", "none"]
    assert [float(row["accuracy"]) for row in whole] == [point["accuracy"] for point in points]


def test_budgets_that_share_a_completion_share_its_line(folder):
    stored = lines(folder / "traces.jsonl")
    shared = [trace for trace in stored if len(trace["budgets"]) > 1]
    assert shared
    assert len(stored) < 128
    for trace in stored:
        assert len(trace["prompt_ids"]) > 0
        assert trace["text"]
        assert trace["finish_reason"] == "answered"
        bounded = [budget for budget in trace["budgets"] if budget is not None]
        assert all(trace["thinking_tokens"] <= budget for budget in bounded)


def test_the_manifest_says_where_the_numbers_come_from(folder, model):
    manifest = read_json(folder / "manifest.json")
    assert manifest["status"] == "complete"
    (attempt,) = manifest["attempts"]
    assert attempt["command"][:3] == ["python", "-m", "reasoning.eval"]
    assert attempt["versions"]["python"] == sys.version.split()[0]
    assert {"torch", "transformers", "numpy"} <= attempt["versions"].keys()
    assert attempt["engine"]["max_model_len"] == 512
    template = scripted.build_tokenizer(16).chat_template
    assert manifest["template_sha256"] == hashlib.sha256(str(template).encode()).hexdigest()
    assert len(manifest["data_sha256"]) == 64
    assert manifest["started"] <= manifest["ended"]
    assert manifest["seconds"] > 0
    assert len(manifest["model_sha256"]) == 64


def test_the_stored_settings_are_resolved(folder):
    config = read_json(folder / "config.json")
    resolved = {"temperature": 1.0, "top_p": 0.9, "top_k": 0, "min_p": 0.0}
    assert config["sampling"] == resolved, "top_p is the model's own suggestion"
    assert config["max_answer_tokens"] == 48, "the model's own suggestion"
    assert config["countdown"]["prompt"] == "compact", "the model asks for it"
    assert config["budgets"] == [8, 16, "none"]
    assert config["engine"]["max_num_seqs"] == 256


def test_settings_win_over_the_models_suggestions(model, tmp_path, run: Run):
    given = ["--top-p", "0.5", "--temperature", "0.25", "--max-answer-tokens", "40", "--countdown.levels", "4"]
    assert run(arguments(model, tmp_path / "run", *given)).code == 0
    config = read_json(tmp_path / "run" / "config.json")
    assert config["sampling"] == {"temperature": 0.25, "top_p": 0.5, "top_k": 0, "min_p": 0.0}
    assert (config["max_answer_tokens"], config["countdown"]["levels"]) == (40, [4])


def test_engine_states_are_sampled(folder):
    states = lines(folder / "engine.jsonl")
    assert states
    assert {"running", "waiting", "kv_blocks_used", "preemptions", "cached_tokens", "step_s"} <= states[0].keys()
    assert {state["attempt"] for state in states} == {1}


def test_the_cost_is_what_the_engine_did_and_what_of_it_was_stored(folder):
    cost, last = read_json(folder / "results.json")["cost"], lines(folder / "engine.jsonl")[-1]
    stored = lines(folder / "traces.jsonl")
    assert cost == {
        "decoded_tokens": sum(trace["decoded_tokens"] for trace in stored),
        "cached_tokens": sum(trace["cached_tokens"] for trace in stored),
        "engine_tokens": last["generated_tokens"],
        "engine_seconds": pytest.approx(last["time_s"]),
    }
    assert last["running"] == last["waiting"] == 0, "the last state is that of the end"
    assert cost["engine_tokens"] >= cost["decoded_tokens"] > 0


def test_what_the_user_sees(model, tmp_path, run: Run):
    out = tmp_path / "run"
    outcome = run(arguments(model, out))
    assert "16 tasks x budgets 0, 8, 16, none x 2 each = 128 samples" in outcome.err
    assert "temperature 1, top-p 0.9, closing bare, seed 0" in outcome.err
    assert "128 of 128 samples" in outcome.err
    table = outcome.out
    assert all(heading in table for heading in ("budget", "tokens spent", "accuracy", "bound", "no answer", "samples"))
    warnings, _, rest = table.partition("budget")
    assert warnings.startswith("warning: no answer: "), "doubts come before the numbers"
    assert f"run folder:   {out}" in rest
    assert f"plot:         {out}/plots/accuracy.png" in rest
    assert command_line("reasoning.score", str(out)) in rest
    assert command_line("reasoning.report", str(out), "OTHER_RUN") in rest
    assert {path.suffix for path in (out / "plots").iterdir()} == {".png", ".svg", ".json"}
    assert max(map(len, table.splitlines())) <= 80 + len(str(out))


def test_quiet_leaves_the_result(model, tmp_path, run: Run):
    outcome = run(arguments(model, tmp_path / "run", "--quiet"))
    assert outcome.err == ""
    assert "tokens spent" in outcome.out


def test_the_baseline_can_be_left_out(model, tmp_path, run: Run):
    assert run(arguments(model, tmp_path / "run", "--baseline", "false", "--quiet")).code == 0
    assert [point["budget"] for point in results(tmp_path / "run")["points"]] == [8, 16, None]


def test_truncation_is_another_method(model, tmp_path, run: Run):
    outcome = run(arguments(model, tmp_path / "run", "--closing", "none", "--quiet"))
    points = results(tmp_path / "run")["points"]
    assert (outcome.code, points[0]["method"]) == (0, "truncation")
    assert [point["budget"] for point in points] == [8, 16, None], "a baseline without answers says nothing"
    cut = points[0]["finish_reasons"]["cut"]
    assert 0 < cut <= points[0]["statuses"]["no_answer"]


def test_settings_from_a_file(model, tmp_path, run: Run):
    settings = tmp_path / "eval.yaml"
    settings.write_text(
        f"model: {model}\nbudgets: [8, 16]\nlimit: 8\nout: {tmp_path}/run\ncountdown: {{levels: [3]}}\n"
    )
    assert run([str(settings), "--limit", "4", "--quiet"]).code == 0
    found = results(tmp_path / "run")
    assert [point["n_tasks"] for point in found["points"]] == [4, 4, 4]
    assert found["run"]["task_set"] == "countdown (3 numbers)"


@pytest.mark.parametrize(
    ("tasks", "levels", "name"),
    [
        ("countdown", [3, 4, 5, 6], "countdown"),
        ("countdown", [6, 3, 3], "countdown (3, 6 numbers)"),
        ("mine/countdown.jsonl", [4], "countdown"),
        ("gsm8k", [4], "gsm8k"),
    ],
)
def test_the_task_set_names_a_part_of_the_levels(folder, tasks, levels, name):
    config = read_json(folder / "config.json") | {"tasks": tasks, "countdown": {"levels": levels}}
    assert describe_run(config, read_json(folder / "manifest.json"))["task_set"] == name


def test_own_tasks(model, tmp_path, run: Run):
    data = tmp_path / "sums.jsonl"
    records = [{"id": f"q{n}", "problem": f"{n} 2 =3", "numbers": [n, 2], "answer": "3"} for n in range(5)]
    write_json_lines(data, records)
    verifier = ["--data.verifier", "countdown"]
    command = ["--model", str(model), "--tasks", str(data), *verifier, "--budgets", "64", "--quiet"]
    assert run([*command, "--out", str(tmp_path / "run")]).code == 0
    found = results(tmp_path / "run")
    assert (found["run"]["task_set"], found["points"][0]["n_tasks"]) == ("sums", 5)


def test_a_dry_run_starts_nothing(model, tmp_path, run: Run):
    def no_engine(plan: Plan, log: Path) -> Engine:
        raise AssertionError("a dry run starts no engine")

    out = tmp_path / "run"
    outcome = run(arguments(model, out, "--dry-run"), lambda words: evaluate(*parse(words), no_engine))
    assert outcome.code == 0
    assert not out.exists()
    assert "temperature: 1.0" in outcome.out
    assert "prompt: compact" in outcome.out
    assert outcome.out.count("<|assistant|>") == 1, "the first prompt is shown as the model sees it"
    assert "= 128 samples" in outcome.out
    assert "tokens to decode" in outcome.out


def test_the_libraries_are_kept_from_the_hub_unless_something_lies_there(model, tmp_path, run: Run, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    words = ["--model", str(model), "--budgets", "8", "--out", str(tmp_path / "run"), "--dry-run"]
    assert run([*words, "--tasks", "gsm8k", "--data.path", str(tmp_path / "gone.jsonl")]).code == 2
    assert os.environ.pop("HF_HUB_OFFLINE") == "1"
    assert run(words).code == 0
    assert os.environ.pop("HF_HUB_OFFLINE") == "1"


def test_no_network_is_touched(model, tmp_path, run: Run, monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("an evaluation of local things reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert run(arguments(model, tmp_path / "run", "--quiet")).code == 0


class FailingEngine(scripted.SlowEngine):
    """Fails on the requests of every second task."""

    def step(self) -> list[Output]:
        return [self._failed(output) if output.finished else output for output in super().step()]

    def _failed(self, output: Output) -> Output:
        if hashlib.sha256(output.request_id.partition("/")[0].encode()).digest()[0] % 2:
            return output
        return Output(output.request_id, (), True, StopReason.ERROR, error="out of blocks")


def start_failing(plan: Plan, log: Path) -> Engine:
    return FailingEngine(scripted.Model(plan), plan.max_model_len)


def test_too_many_failures_are_exit_code_3_and_are_sampled_again(model, tmp_path, folder, run: Run):
    out = tmp_path / "failing"
    outcome = run(arguments(model, out), lambda words: evaluate(*parse(words), start_failing))
    found = results(out)
    missing = sum(point["n_missing"] for point in found["points"])
    assert outcome.code == 3
    assert 0 < missing < 128
    assert outcome.out.startswith(f"warning: the engine failed on {missing} of 128 samples; they are in no rate")
    assert f"error: {missing} of 128 samples failed" in outcome.err
    assert all(point["n_samples"] + point["n_missing"] == 32 for point in found["points"])
    assert run(arguments(model, out, "--resume")).code == 0
    assert results(out) == results(folder)


def test_failures_can_be_tolerated(model, tmp_path, run: Run):
    words = arguments(model, tmp_path / "run", "--max-errors", "0.9")
    assert run(words, lambda words: evaluate(*parse(words), start_failing)).code == 0


def test_a_budget_that_was_not_honoured_is_exit_code_3(model, folder, run: Run):
    stored = lines(folder / "traces.jsonl")
    index = next(i for i, trace in enumerate(stored) if trace["budgets"] == [8])
    stored[index]["completion_ids"].insert(0, stored[index]["completion_ids"][0])
    write_json_lines(folder / "traces.jsonl", stored)
    outcome = run(arguments(model, folder, "--resume"))
    assert outcome.code == 3
    assert outcome.out.startswith("warning: 1 of 128 samples did not honour their budget")
    assert "1 over budget" in outcome.err
    assert len(results(folder)["violations"]) == 1


def test_help_fits_one_screen():
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "reasoning.eval", "--help"],
        cwd=scripted.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert time.monotonic() - started < 10, "help must not wait for heavy imports"
    assert len(done.stdout.splitlines()) <= 40
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert all(f"--{flag}" in done.stdout for flag in ("budgets", "top-k", "max-answer-tokens", "dry-run", "resume"))
    assert "engine.max_num_seqs" in done.stdout


@pytest.mark.parametrize("command", ["eval", "score", "report"])
def test_a_command_run_as_a_script_names_the_right_way(command):
    done = subprocess.run(
        [sys.executable, f"reasoning/{command}.py"], cwd=scripted.ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"run this as a module: python -m reasoning.{command}")


def test_nothing_heavy_is_imported_before_the_settings_are_checked():
    code = "import sys, reasoning.eval; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=scripted.ROOT, capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "vllm", "datasets", "matplotlib", "sympy", "scipy", "rich"}
    assert heavy.isdisjoint(done.stdout.split())

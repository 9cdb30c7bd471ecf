"""The main job for real: the bundled model on vLLM through the command that users type."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def evaluate(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reasoning.eval", "--out", str(out), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)


def completions(run: Path) -> dict[tuple[str, int], list[int]]:
    """Ids by (task, budget)."""
    lines = [json.loads(line) for line in (run / "traces.jsonl").read_text().splitlines()]
    return {(line["task_id"], budget): line["completion_ids"] for line in lines for budget in line["budgets"]}


def test_more_thinking_solves_more_and_neither_batch_nor_nesting_changes_an_id(tmp_path: Path) -> None:
    options = ("--budgets", "32,1k", "--countdown.levels", "3", "--limit", "12")
    done = evaluate(tmp_path / "wide", *options)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "wide/results.json").read_text())
    accuracy = {point["budget"]: point["accuracy"] for point in results["points"]}
    assert accuracy[1000] >= 0.75 > accuracy[32] + 0.2  # perfect search: 98 % and about 15 %
    assert results["violations"] == []
    assert "1k" in done.stdout and str(tmp_path / "wide/plots/accuracy.png") in done.stdout

    narrow = evaluate(tmp_path / "narrow", *options, "--engine.max_num_seqs", "3")
    assert narrow.returncode == 0, narrow.stderr
    assert completions(tmp_path / "narrow") == completions(tmp_path / "wide")

    alone = evaluate(tmp_path / "alone", "--budgets", "32", *options[2:])
    assert alone.returncode == 0, alone.stderr
    nested = {key: ids for key, ids in completions(tmp_path / "wide").items() if key[1] <= 32}
    assert completions(tmp_path / "alone") == nested


@pytest.mark.gpu
def test_on_cuda_the_bundled_model_reaches_its_curve(tmp_path: Path) -> None:
    done = evaluate(tmp_path / "run", "--budgets", "64,4096", "--countdown.levels", "4", "--limit", "256")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run/results.json").read_text())
    accuracy = {point["budget"]: point["accuracy"] for point in results["points"]}
    assert accuracy[64] < 0.25 and accuracy[4096] > 0.88

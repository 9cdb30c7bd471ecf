"""The same evaluation with the whole KV cache and with a tenth of what it used: preemptions, and accuracy.

    python -m benchmarks.kv_pressure --limit 500 --budgets 256,1k --json benchmarks/results/kv-pressure.json

Both runs have the same tasks, seeds and number of requests at once. The second gets a share of the most that the first
had in use, so that the pressure does not depend on how much memory the machine has; it gets more where one request of
the largest budget needs more. Each run is a process of its own, and what finished is written even if the other fails.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval.comparison import noise_floor
from eval.statistics import difference_interval
from reasoning.budgets import format_budget
from reasoning.files import read_json
from reasoning.kv_cache import GIB
from reasoning.run_folder import RunFolder
from verifiers.base import Status

SPARE_BLOCKS = 2
"""Beside one request: vLLM's placeholder, and what rounding down takes."""


def evaluate(given: argparse.Namespace, out: Path, kv_bytes: int | None) -> dict[str, Any]:
    """Run one evaluation; what it took of the cache, and why it ended if it did not finish."""
    command = [sys.executable, "-u", "-m", "reasoning.eval", "--model", given.model, "--tasks", given.tasks]
    command += ["--budgets", given.budgets, "--samples", given.samples, "--limit", given.limit, "--seed", given.seed]
    command += ["--engine.max_num_seqs", given.concurrency, "--out", str(out)]
    command += ["--engine.gpu_memory_utilization", given.memory]
    if kv_bytes is not None:
        command += ["--engine.kv_cache_gb", repr(kv_bytes / GIB)]
    code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    if code:
        return {"exit_code": code, "log": (out / "run.log").read_text("utf-8")[-2000:] if out.exists() else ""}
    manifest, results = read_json(out / "manifest.json"), read_json(out / "results.json")
    engine = manifest["attempts"][-1]["engine"]
    return {
        "exit_code": code,
        "device": engine["device"],
        "vllm": engine["vllm"],
        "seconds": manifest["seconds"],
        "status": results["status"],
        "finished": results["finished"],
        "kv_cache": results["kv_cache"],
        "accuracy": {point["label"]: point["accuracy"] for point in results["points"]},
        "warnings": results["warnings"],
    }


def rates(out: Path) -> dict[int, dict[str, float]]:
    """Budget -> task -> share of right samples."""
    right: dict[int, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for key, verdict in RunFolder(out).read_verdicts().items():
        right[key.budget][key.task_id].append(verdict.status is Status.CORRECT)
    return {budget: {task: float(np.mean(found)) for task, found in tasks.items()} for budget, tasks in right.items()}


def same_ids(one: Path, other: Path) -> float:
    """Share of the samples that have the same ids in both runs."""
    ids = {row.key: row.completion_ids for row in RunFolder(one).read_generations()}
    equal = [ids[row.key] == row.completion_ids for row in RunFolder(other).read_generations()]
    return float(np.mean(equal))


def compare(whole: Path, cut: Path) -> list[dict[str, Any]]:
    """At each budget, the cut cache minus the whole one, paired by task, and the noise of one run."""
    before, after = rates(whole), rates(cut)
    rows = []
    for budget in sorted(before, key=abs):
        tasks = sorted(before[budget])
        differences = np.array([after[budget][task] - before[budget][task] for task in tasks])
        found = difference_interval(differences)
        row = {"budget": format_budget(budget), "n_tasks": len(tasks), "difference": found.value}
        rows.append(row | {"low": found.low, "high": found.high, "noise_floor": noise_floor(differences)})
    return rows


def keep_figures(folder: Path, *runs: Path) -> None:
    """Copy the figure of the KV cache of each run, under the run's name."""
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        for path in run.glob("plots/kv.*"):
            shutil.copy(path, folder / f"kv-pressure-{run.name}{path.suffix}")


def cut_bytes(kv: Mapping[str, Any], share: float) -> int:
    """Bytes of the cut cache: the share of the peak, but a whole request of the largest budget at least."""
    one = kv["largest_request_bytes"] + SPARE_BLOCKS * kv["block_bytes"]
    return max(round(share * kv["peak_bytes"]), one)


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", default="pocket")
    options.add_argument("--tasks", default="countdown")
    options.add_argument("--budgets", default="256,1k")
    options.add_argument("--samples", default="1")
    options.add_argument("--limit", default="500")
    options.add_argument("--seed", default="0")
    options.add_argument("--concurrency", default="256")
    options.add_argument("--share", type=float, default=0.1)
    options.add_argument("--memory", default="0.9", help="share of the GPU's memory that the engine may take")
    options.add_argument("--json", type=Path)
    options.add_argument("--plots", type=Path, metavar="FOLDER", help="where the figures of both caches go")
    given = options.parse_args(arguments)
    record: dict[str, Any] = {"command": ["python", "-m", "benchmarks.kv_pressure", *arguments]}

    def note(name: str, value: Any) -> None:
        record[name] = value
        print(f"{name}: {json.dumps(value)}", flush=True)
        if given.json:
            given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as folder:
        whole, cut = Path(folder, "whole"), Path(folder, "cut")
        note("whole", evaluate(given, whole, None))
        if record["whole"]["exit_code"]:
            return 1
        size = cut_bytes(record["whole"]["kv_cache"], given.share)
        note("cut_share_of_peak", size / record["whole"]["kv_cache"]["peak_bytes"])
        note("cut", evaluate(given, cut, size))
        if given.plots is not None:
            keep_figures(given.plots, whole, cut)
        if record["cut"]["exit_code"]:
            return 1
        note("same_ids_share", same_ids(whole, cut))
        note("differences", compare(whole, cut))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Sampled tokens a second of one engine and of several on the same device (`engine.replicas`), in one run.

    python -m benchmarks.replicas --json FILE

The bundled model, the same tasks and seeds, log-probabilities kept as in training. Every number of replicas is a
process of its own with a time limit; the engines sample everything once before the clock starts. Ids are compared with
those of one engine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.train_cells import report, run_cells
from reasoning.engine.base import Engine, EngineSettings
from reasoning.engine.environment import prepare_environment
from reasoning.eval_config import load_config
from reasoning.preflight import Plan, make_plan
from reasoning.sampling import controller

LIMIT_S = 240.0


def measure(given: argparse.Namespace, replicas: int) -> None:
    """The cell of one number of replicas."""
    from reasoning.engine.replica import EngineArguments
    from reasoning.engine.replicas import open_engine

    chosen = {"budgets": given.budget, "limit": given.limit, "baseline": "false", "countdown.levels": "6"}
    engine = {"max_num_seqs": given.limit, "replicas": str(replicas), "kv_cache_gb": given.kv_cache_gb}
    plan = make_plan(load_config(None, chosen | {f"engine.{name}": value for name, value in engine.items()}))
    settings = EngineSettings(**plan.config.engine.model_dump())
    started = open_engine(EngineArguments(plan.model.source, settings, plan.max_model_len, logprobs=True))
    try:
        found = [_sample(plan, started) for _ in range(given.repeats + 1)][1:]
        described = started.describe()
    finally:
        started.close()
    report(
        {
            "replicas": replicas,
            "seconds": statistics.median(one["seconds"] for one in found),
            "tokens_per_s": statistics.median(one["tokens"] / one["seconds"] for one in found),
            "each": found,
            "engine": {name: described[name] for name in ("device", "vllm", "torch", "dtype")},
        }
    )


def _sample(plan: Plan, engine: Engine) -> dict[str, Any]:
    """Every task once."""
    driver = controller(plan, engine)
    for task in plan.tasks:
        driver.submit(task.id, 0, plan.rendered[task.id])
    rows = []
    started = time.perf_counter()
    while driver.unfinished:
        rows += driver.step()
    seconds = time.perf_counter() - started
    ids = sorted((row.key.task_id, row.completion_ids) for row in rows)
    digest = hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16]
    return {"seconds": seconds, "tokens": sum(row.decoded_tokens for row in rows), "ids": digest}


def _describe(cell: dict[str, Any]) -> str:
    if "error" in cell:
        return cell["error"]
    return f"{cell['replicas']} replicas: {cell['tokens_per_s']:,.0f} tokens/s, {cell['seconds']:.2f} s"


def summarise(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many times faster than one engine each is, and whether its ids are the same."""
    measured = [cell for cell in cells if "error" not in cell]
    one = next((cell for cell in measured if cell["replicas"] == 1), None)
    return [
        {
            "replicas": cell["replicas"],
            "tokens_per_s": cell["tokens_per_s"],
            "times_one": one and cell["tokens_per_s"] / one["tokens_per_s"],
            "same_ids": one and {run["ids"] for run in cell["each"]} == {run["ids"] for run in one["each"]},
        }
        for cell in measured
    ]


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--replicas", default="1,2", help="numbers of engines, as in 1,2,4,8")
    options.add_argument("--limit", default="256", help="tasks, all at once")
    options.add_argument("--budget", default="256")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--kv-cache-gb", default="2", help="of all engines together")
    options.add_argument("--json", type=Path)
    options.add_argument("--side", type=int, help=argparse.SUPPRESS)
    given = options.parse_args(arguments)
    prepare_environment()
    if given.side:
        measure(given, given.side)
        return 0
    cells: list[dict[str, Any]] = []
    for replicas in map(int, given.replicas.split(",")):
        command = ["benchmarks.replicas", *arguments, "--side", str(replicas)]
        cells += run_cells(f"{replicas} replicas", command, LIMIT_S, _describe)
        if given.json:
            given.json.write_text(json.dumps({"summary": summarise(cells), "cells": cells}, indent=1) + "\n")
    print(json.dumps(summarise(cells), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Wall time of an evaluation with --profile against the same without it.

    python -m benchmarks.profile_overhead --limit 64 --budgets 64,256,1k --pairs 5 --json FILE

One engine runs the same samples again and again, in turn with and without everything that --profile adds: a look at
every step's plan, a time for every token, and the steps written to a file. What each pair took is printed, with the
median of the ratios; and the same for CPU time, which other processes disturb less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reasoning.engine.environment import prepare_environment
from reasoning.eval_config import load_config
from reasoning.preflight import Plan, make_plan
from reasoning.run_folder import RunFolder
from reasoning.sampling import Recorder, controller


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--budgets", default="64,256,1k")
    options.add_argument("--limit", default="64")
    options.add_argument("--levels", default="4")
    options.add_argument("--concurrency", default="256")
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--memory", default="0.9", help="share of the GPU's memory that the engine may take")
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    prepare_environment()
    overrides = {"budgets": given.budgets, "limit": given.limit, "countdown.levels": given.levels}
    overrides |= {"engine.max_num_seqs": given.concurrency, "engine.gpu_memory_utilization": given.memory}
    plans = {side: make_plan(load_config(None, overrides | {"profile": side})) for side in ("true", "false")}
    record = {"command": ["python", "-m", "benchmarks.profile_overhead", *arguments]} | compare(plans, given.pairs)
    if given.json:
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


def compare(plans: dict[str, Plan], pairs: int) -> dict[str, Any]:
    from reasoning.engine.base import EngineSettings
    from reasoning.engine.vllm import VllmEngine

    plan = plans["true"]
    settings = EngineSettings(**plan.config.engine.model_dump())
    engine = VllmEngine(plan.model.source, settings, plan.max_model_len, profile=True)
    watch = engine._watch
    found: dict[str, list[tuple[float, float]]] = {"true": [], "false": []}
    for number in range(pairs + 1):
        # In turn, and in turn the first: what warms up or drifts meets both sides.
        for side in ("true", "false") if number % 2 else ("false", "true"):
            engine._watch = watch if side == "true" else None
            engine._ledger._times = side == "true"
            engine._client.reset_prefix_cache()
            wall, cpu = time.perf_counter(), time.process_time()
            _sample(plans[side], engine)
            took = time.perf_counter() - wall, time.process_time() - cpu
            if number:  # the first pair warms up
                found[side].append(took)
                print(f"profile {side:>5}: {took[0]:.3f} s, {took[1]:.3f} s of CPU", flush=True)
    described = engine.describe()
    engine.close()
    ratios = {
        kind: [on[at] / off[at] for on, off in zip(found["true"], found["false"], strict=True)]
        for at, kind in enumerate(("wall", "cpu"))
    }
    medians = {kind: statistics.median(values) for kind, values in ratios.items()}
    print(f"{described['device']}, vLLM {described['vllm']}: with --profile over without, median of {pairs} pairs")
    for kind, values in ratios.items():
        print(f"{kind:>5}: {medians[kind]:.4f} (from {min(values):.4f} to {max(values):.4f})")
    return {"engine": described, "seconds_with": found["true"], "seconds_without": found["false"], "ratios": ratios} | {
        "median_ratio": medians
    }


def _sample(plan: Plan, engine: Any) -> None:
    """What an evaluation does between the start of the engine and the last verdict."""
    with tempfile.TemporaryDirectory() as folder, Recorder(RunFolder(Path(folder)), plan, 0) as recorder:
        budgets = controller(plan, engine)
        for task in plan.tasks:
            budgets.submit(task.id, 0, plan.rendered[task.id])
        while budgets.unfinished:
            recorder.record(budgets.step())
            recorder.observe(engine)
        recorder.write_state(engine)
        recorder.finish()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What several budgets cost over the largest alone, and whether nesting changes the answer.

    python -m benchmarks.budget_cost --limit 512 --json benchmarks/results/budget_cost.json

In one run of one engine, over the same tasks: all budgets nested in one trace, each budget by itself, and eight budgets
against the largest of them. Two ratios are printed for each set of budgets: tokens decoded for all of them over those
of their own traces (what the largest budget alone costs on exactly these traces), and over a separate run of the
largest budget, whose traces are others.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval.statistics import paired_differences
from reasoning.budgets import format_budget, parse_budgets
from reasoning.engine.base import EngineSettings
from reasoning.engine.environment import prepare_environment
from reasoning.eval_config import load_config
from reasoning.preflight import Plan, make_plan
from reasoning.sampling import controller
from reasoning.types import Generation
from verifiers import grade
from verifiers.base import Status


def run(plan: Plan, settings: Mapping[str, Sequence[int]]) -> tuple[dict[str, list[Generation]], dict[str, Any], float]:
    """Sample every task once a setting, all at the same time: generations by setting, the engine, seconds."""
    from reasoning.engine.vllm import VllmEngine

    engine = VllmEngine(
        plan.model.source, EngineSettings(**plan.config.engine.model_dump()), plan.max_model_len, plan.config.seed
    )
    driver = controller(plan, engine)
    for number, budgets in enumerate(settings.values()):
        for task in plan.tasks:
            driver.submit(task.id, number, plan.rendered[task.id], budgets)
    names = list(settings)
    found: dict[str, list[Generation]] = defaultdict(list)
    started = time.perf_counter()
    while driver.unfinished:
        for generation in driver.step():
            found[names[generation.key.sample]].append(generation)
    seconds = time.perf_counter() - started
    description = engine.describe()
    engine.close()
    return found, description, seconds


def right(plan: Plan, generations: Sequence[Generation], budget: int) -> np.ndarray:
    """1.0 or 0.0 for each task at one budget, in the order of the tasks."""
    answers = {row.key.task_id: row.answer_text for row in generations if row.key.budget == budget}
    verdicts = [grade(task.verifier, answers[task.id], task.reference, task.meta) for task in plan.tasks]
    return np.array([float(verdict.status is Status.CORRECT) for verdict in verdicts])


def cost(nested: Sequence[Generation], alone: Sequence[Generation]) -> dict[str, float]:
    """Tokens decoded for nested budgets, and by what factor they exceed their own traces and a run of the largest."""
    largest = max(row.key.budget for row in nested)
    total = sum(row.decoded_tokens for row in nested)
    traces = sum(row.decoded_tokens for row in nested if row.key.budget == largest)
    separate = sum(row.decoded_tokens for row in alone)
    return {
        "decoded": total,
        "traces": traces,
        "separate": separate,
        "ratio": total / traces,
        "ratio_separate": total / separate,
    }


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--budgets", default="1k,10k,50k")
    options.add_argument("--many", default="512,1k,2k,4k,8k,16k,32k,65k")
    options.add_argument("--limit", default="64")
    options.add_argument("--concurrency", default="256")
    options.add_argument("--seed", default="0")
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    prepare_environment()
    budgets, many = parse_budgets(given.budgets), parse_budgets(given.many)
    every = sorted({*budgets, *many})
    overrides = {"budgets": ",".join(map(str, every)), "limit": given.limit, "seed": given.seed, "baseline": "false"}
    plan = make_plan(load_config(None, overrides | {"engine.max_num_seqs": given.concurrency}))
    settings: dict[str, Sequence[int]] = {"nested": budgets, "many": many, "many alone": many[-1:]}
    settings |= {f"{format_budget(budget)} alone": (budget,) for budget in budgets}
    found, engine, seconds = run(plan, settings)
    few = cost(found["nested"], found[f"{format_budget(budgets[-1])} alone"])
    eight = cost(found["many"], found["many alone"])
    print(f"{engine['device']}, vLLM {engine['vllm']}, {len(plan.tasks)} tasks, {seconds:.0f} s for all")
    for name, row in ((given.budgets, few), (given.many, eight)):
        print(
            f"{name}: {row['decoded']:,} tokens decoded, {row['ratio']:.3f}x its traces, "
            f"{row['ratio_separate']:.3f}x a separate run"
        )
    comparison = []
    for budget in budgets:
        nested = right(plan, found["nested"], budget)
        independent = right(plan, found[f"{format_budget(budget)} alone"], budget)
        difference = paired_differences(np.stack((independent, nested), axis=1))[0]
        comparison.append(
            {
                "budget": budget,
                "nested": nested.mean(),
                "independent": independent.mean(),
                "difference": difference.value,
                "low": difference.low,
                "high": difference.high,
            }
        )
        print(
            f"{format_budget(budget):>5}: nested {nested.mean():.1%}, independent {independent.mean():.1%}, "
            f"difference {difference.value:+.1%} [{difference.low:+.1%}, {difference.high:+.1%}]"
        )
    if given.json:
        record = {
            "command": ["python", "-m", "benchmarks.budget_cost", *arguments],
            "engine": engine,
            "seconds": seconds,
            "n_tasks": len(plan.tasks),
            "few": few,
            "many": eight,
            "nesting": comparison,
        }
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

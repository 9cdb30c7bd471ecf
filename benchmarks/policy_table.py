"""What every policy brings on one stored run, and longer thinking against more samples: a table and its figures.

    python -m benchmarks.policy_table RUN --out benchmarks/results/policies

RUN is of several samples a task at several budgets, with --logprobs true for the policies that look at confidence.
Nothing is sampled and RUN is left as it is. Writes table.json, table.md and the figures heatmap, parallel and
policies (.png, .svg, .json) into --out. Without --policy all are replayed, each at one or two settings.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from eval.allocation import MapPoint, map_of
from eval.cost_plots import policy_figure
from eval.curves import GradedSample, curve
from eval.parallel_plots import parallel_heat_map, sequential_or_parallel
from eval.policies import apply_policies, parse_policy
from eval.savings import PolicyResult
from eval.stored import Stored, whole_samples
from eval.wording import p_value, percent, points
from reasoning.budgets import format_budget, json_budget
from reasoning.run_folder import open_run
from reasoning.summary import check_replayable, describe_run, read_samples

HEADINGS = (
    "policy",
    "accuracy [95 %]",
    "tokens",
    "of these probes",
    "compared with",
    "difference, points [95 %]",
    "p",
    "tokens saved [95 %]",
    "saved at equal accuracy [95 %]",
    "chose",
)

ON_THE_CURVES = ("never", "cap", "vote")
"""Policies that are points of the plain curves, and so are not drawn beside them."""


def usual_policies(stored: Stored) -> Iterator[str]:
    """Every policy that the run can answer; allocations at the cost of 1 and of 4 samples."""
    rows = [row for samples in stored.tasks.values() for sample in samples for row in sample]
    fewest = min(map(len, stored.tasks.values()))
    largest = [row.spent_tokens for row in rows if row.key.budget == stored.budgets[-1]]
    mean = sum(largest) / len(largest)
    sure = any(row.answer_confidence is not None for row in rows)
    yield "never"
    yield from (f"cap:{format_budget(stored.budgets[-place])}" for place in (4, 3, 2) if place <= len(stored.budgets))
    yield from ("agree:2", "agree:3")
    if sure:
        yield from ("deer:0.95", "deer:0.99")
    if fewest < 2:
        return
    yield from (f"vote:{count}" for count in (2, 4, 8) if count < fewest)
    yield from ("vote", "asc:0.75", "beta:0.95")
    if sure:
        yield "best"
        if fewest > 4:
            yield from ("deepconf:0.9,warmup=4", "deepconf:0.5,warmup=4")
    for samples in (1, 4):
        if samples < fewest:
            yield f"split:{_rounded(samples * mean)}"
            yield f"difficulty:{_rounded(samples * mean)},bins=3"


def _rounded(tokens: float) -> int:
    """Up to two figures: a number that can be typed."""
    scale = 10 ** max(len(str(int(tokens))) - 2, 0)
    return math.ceil(tokens / scale) * scale


def as_markdown(results: Sequence[PolicyResult]) -> str:
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| " + " | ".join(cells) + " |" for cells in map(_cells, results)]
    return "\n".join(lines)


def _cells(one: PolicyResult) -> tuple[str, ...]:
    shares = ((one.saved, one.saved_low, one.saved_high), (one.saved_equal, one.saved_equal_low, one.saved_equal_high))
    saved = ["{:z.0f} % [{:z.0f}, {:z.0f}]".format(*(100 * share for share in found)) for found in shares]
    baseline = f"{one.plain}: {percent(one.baseline_accuracy)} at {one.baseline_tokens_mean:,.0f}"
    return (
        f"`{one.policy}`",
        f"{percent(one.accuracy)} [{100 * one.low:.1f}, {100 * one.high:.1f}]",
        f"{one.tokens_mean:,.0f}",
        f"{one.probe_tokens_mean:,.0f}",
        baseline,
        points(one.difference, one.difference_low, one.difference_high),
        p_value(one.p_value),
        *saved,
        one.chosen,
    )


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("run", type=Path)
    options.add_argument("--policy", action="append", default=[], help="NAME:ARGS; may come again (default: all)")
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args(arguments)
    started = time.monotonic()
    folder = open_run(given.run)
    check_replayable(folder)
    run = describe_run(folder.read_config(), folder.read_manifest())
    samples = read_samples(folder)
    stored = whole_samples(samples)
    asked = given.policy or list(usual_policies(stored))
    print(f"{len(stored.tasks):,} tasks, {sum(map(len, stored.tasks.values())):,} whole samples, {len(asked)} policies")
    results = []
    for text in asked:
        results += apply_policies([parse_policy(text)], samples, seed=run["seed"])
        print(f"{time.monotonic() - started:5.0f} s  " + "  ".join(_cells(results[-1])), flush=True)
    cells = map_of(samples, seed=run["seed"])
    given.out.mkdir(parents=True, exist_ok=True)
    command = ["python", "-m", "benchmarks.policy_table", *arguments]
    record = {"command": command, "run": run, "policies": list(map(asdict, results)), "map": list(map(_row, cells))}
    (given.out / "table.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    (given.out / "table.md").write_text(as_markdown(results) + "\n", encoding="utf-8")
    draw(results, samples, cells, given.out, run["model"], run["task_set"])
    print(f"{given.out}: table.json, table.md, figures; {time.monotonic() - started:.0f} s")
    return 0


def draw(
    results: Sequence[PolicyResult],
    samples: Sequence[GradedSample],
    cells: Sequence[MapPoint],
    out: Path,
    model: str,
    task_set: str,
) -> None:
    plain = curve(samples, model=model, task_set=task_set, method="")
    note = f"{model} on {task_set}."
    parallel_heat_map(cells, out / "heatmap", note=note)
    sequential_or_parallel(plain, cells, out / "parallel", note=note)
    shown: dict[str, PolicyResult] = {}  # one setting of each policy, the first: more would hide one another
    for one in results:
        shown.setdefault(one.policy.partition(":")[0], one)
    others = [one for name, one in shown.items() if name not in ON_THE_CURVES]
    policy_figure(others, plain, cells, out / "policies", note=note)


def _row(cell: MapPoint) -> dict[str, object]:
    return asdict(cell) | {"budget": json_budget(cell.budget), "label": format_budget(cell.budget)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

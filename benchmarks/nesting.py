"""Is a budget nested in a longer trace the same as a run of that budget alone?

    python -m benchmarks.nesting --budgets 64,256,1k --limit 128

Runs all budgets at once and then each alone, with the same seeds, and compares ids and verdicts sample by sample. Where
the engine computes the same whatever is in the batch (the CPU), every id has to be the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eval.statistics import paired_differences
from reasoning.budgets import format_budget, parse_budgets
from reasoning.run_folder import RunFolder
from reasoning.types import SampleKey
from verifiers.base import Status


def run(budgets: str, limit: str, out: Path) -> tuple[dict[SampleKey, tuple[int, ...]], dict[SampleKey, bool]]:
    """Ids and verdicts of one evaluation of the bundled model, by sample."""
    options = ["--budgets", budgets, "--limit", limit, "--baseline", "false", "--out", str(out), "--quiet"]
    subprocess.run([sys.executable, "-m", "reasoning.eval", *options], check=True, stdout=subprocess.DEVNULL)
    folder = RunFolder(out)
    ids = {row.key: row.completion_ids for row in folder.read_generations()}
    return ids, {key: verdict.status is Status.CORRECT for key, verdict in folder.read_verdicts().items()}


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--budgets", default="64,256,1k")
    options.add_argument("--limit", default="128")
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        nested_ids, nested_right = run(given.budgets, given.limit, Path(folder, "nested"))
        for budget in map(format_budget, parse_budgets(given.budgets)):
            ids, right = run(budget, given.limit, Path(folder, budget))
            keys = sorted(ids)
            pairs = np.array([[right[key], nested_right[key]] for key in keys], float)
            difference = paired_differences(pairs)[0]
            row = {
                "budget": budget,
                "samples": len(keys),
                "same_ids": sum(ids[key] == nested_ids[key] for key in keys),
                "alone": pairs[:, 0].mean(),
                "nested": pairs[:, 1].mean(),
                "difference": [difference.value, difference.low, difference.high],
            }
            rows.append(row)
            print(
                f"{budget:>5}: {row['same_ids']} of {row['samples']} samples have the same ids; "
                f"alone {row['alone']:.1%}, nested {row['nested']:.1%}, difference {difference.value:+.1%}",
                flush=True,
            )
    if given.json:
        record = {"command": ["python", "-m", "benchmarks.nesting", *arguments], "budgets": rows}
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

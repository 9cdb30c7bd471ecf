"""What bombs cost the ordinary answers beside them.

    python -m benchmarks.math_pool [--count 10000] [--every 50] [--repeats 3] [--json OUT]

The same ordinary pairs are graded twice, from threads as a run does: alone, and with one bomb in `--every` pairs mixed
in (benchmarks.math_bombs). Every run is a process of its own, warm before its clock starts; the two alternate. Printed
are the wall times, what came back (every verdict, in order, and which are not as they should be), the processes left,
and the ratio: ordinary pairs a second with bombs over those without.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

from benchmarks.math_bombs import make_bombs
from benchmarks.math_pairs import Pair, make_pairs
from reasoning.grading import THREADS
from reasoning.provenance import versions
from verifiers import close, grade
from verifiers.base import Status, Verdict
from verifiers.policy import DEFAULT, PRESETS

WARM_UP = 200


def mixed(count: int, every: int, *, bombs: bool) -> list[tuple[Pair, bool]]:
    """`count` pairs, each with whether it is a bomb; without bombs only the ordinary ones, the same."""
    every_bomb = iter(make_bombs(count // every))
    ordinary = iter(make_pairs(count - count // every))
    rows = [(next(every_bomb), True) if at % every == every - 1 else (next(ordinary), False) for at in range(count)]
    return [row for row in rows if bombs or not row[1]]


def run(count: int, every: int, policy: str, *, bombs: bool) -> dict[str, Any]:
    """Grade one mix, and say what came of it."""
    rows = mixed(count, every, bombs=bombs)

    def verdict_on(pair: Pair) -> Verdict:
        return grade("math", pair.completion, pair.reference, {"policy": policy})

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(verdict_on, make_pairs(WARM_UP, seed=1)))
        started = time.perf_counter()
        verdicts = list(threads.map(verdict_on, (pair for pair, _ in rows)))
        seconds = time.perf_counter() - started
    found = {
        "seconds": seconds,
        "ordinary_pairs": sum(not bomb for _, bomb in rows),
        "lost": sum(pair.reference != verdict.reference for (pair, _), verdict in zip(rows, verdicts, strict=True)),
    }
    for name, wanted in (("ordinary", False), ("bombs", True)):
        graded = [(pair, verdict) for (pair, bomb), verdict in zip(rows, verdicts, strict=True) if bomb == wanted]
        found[name] = {
            "statuses": dict(Counter(verdict.status.value for _, verdict in graded)),
            "wrong_verdicts": sum((verdict.status is Status.CORRECT) != pair.right for pair, verdict in graded),
            "slowest_s": max((verdict.seconds for _, verdict in graded), default=0.0),
        }
    close()
    found["processes_left"] = len(psutil.Process().children(recursive=True))
    return found


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--every", type=int, default=50)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--policy", default=DEFAULT, choices=sorted(PRESETS))
    options.add_argument("--json", type=Path)
    options.add_argument("--side", choices=("alone", "with bombs"), help=argparse.SUPPRESS)
    given = options.parse_args(arguments)
    if given.side:
        print(json.dumps(run(given.count, given.every, given.policy, bombs=given.side == "with bombs")))
        return 0
    found: dict[str, list[dict[str, Any]]] = {"alone": [], "with bombs": []}
    for repeat in range(given.repeats):
        for side in list(found)[:: 1 if repeat % 2 == 0 else -1]:
            command = [sys.executable, "-m", "benchmarks.math_pool", *arguments, "--side", side]
            found[side].append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    rates = {side: [row["ordinary_pairs"] / row["seconds"] for row in rows] for side, rows in found.items()}
    medians = {side: statistics.median(rate) for side, rate in rates.items()}
    ratio = medians["with bombs"] / medians["alone"]
    cores = len(os.sched_getaffinity(0))
    print(f"{given.count:,} pairs, one in {given.every} a bomb, {cores} cores, policy {given.policy}")
    for side, rows in found.items():
        seconds = [round(row["seconds"], 2) for row in rows]
        print(f"{side:>12}: {medians[side]:,.0f} ordinary pairs/s (median; wall {seconds} s)")
        for name in ("ordinary", "bombs"):
            print(f"{name:>16}: {rows[-1][name]}")
        left = [row["processes_left"] for row in rows]
        print(f"{'':>4}lost verdicts: {[row['lost'] for row in rows]}, processes left: {left}")
    print(f"{'ratio':>12}: {ratio:.3f}")
    if given.json:
        record = {
            "command": ["python", "-m", "benchmarks.math_pool", *arguments],
            "versions": versions(),
            "cores": cores,
            "policy": {"name": given.policy, "hash": PRESETS[given.policy].hash},
            "runs": found,
            "ratio": ratio,
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

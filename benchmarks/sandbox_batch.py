"""How long does a batch of graded programs wait for the hostile ones in it?

    python -m benchmarks.sandbox_batch --json FILE

Grades the completions of one task as training does: all right, then with one in ten hostile, which end by themselves,
by a cap or early (`verifiers/sandbox/hopeless.py`), then with one in ten an endless loop that only its deadline ends,
these behind the others and in a last batch spread among them. The growth over the first is to be one limit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from reasoning.grading import Grader
from reasoning.types import SampleKey, Task
from verifiers.base import Status

RIGHT = "def f(x):\n    return x + 1\n"
HOSTILE = (
    "import time\ndef f(x):\n    time.sleep(99)\n",
    "def f(x):\n    while True:\n        pass\n",
    "import os\nwhile True:\n    os.fork()\n",
    "x = []\nwhile True:\n    x.append(bytearray(1 << 24))\n",
    "import os\ndef f(x):\n    os._exit(0)\n",
    "import time\ntime.sleep(99)\n",
)
STUBBORN = "import itertools\ndef f(x):\n    for _ in itertools.count():\n        abs(x)\n"


def batches(completions: int) -> dict[str, list[str]]:
    """The programs of each batch, by its name."""
    bad = completions // 10
    right = [RIGHT] * (completions - bad)
    spread = [RIGHT] * completions
    for number in range(bad):
        spread[(number + 1) * completions // (bad + 1)] = STUBBORN
    return {
        "clean": [RIGHT] * completions,
        "hostile": [*right, *(HOSTILE[number % len(HOSTILE)] for number in range(bad))],
        "stubborn": [*right, *[STUBBORN] * bad],
        "spread": spread,
    }


def graded(grader: Grader, programs: Sequence[str]) -> tuple[float, int]:
    """Seconds until all have a verdict, and how many of these were starved; the right programs have to be correct, and
    they alone.
    """
    started = time.monotonic()
    for number, program in enumerate(programs):
        grader.submit((SampleKey("t", number, 0),), f"```python\n{program}```")
    verdicts = {keys[0].sample: verdict for keys, verdict in grader.finish()}
    seconds = time.monotonic() - started
    wrong = [n for n, program in enumerate(programs) if (verdicts[n].status is Status.CORRECT) != (program == RIGHT)]
    if wrong:
        raise SystemExit(f"the verdicts on programs {wrong} are not right")
    return seconds, sum(verdict.starved for verdict in verdicts.values())


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--completions", type=int, default=64)
    options.add_argument("--timeout", type=float, default=2.0, help="limit of a program, seconds")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    tests = {"type": "call", "entry": "f", "cases": [{"args": [1], "expected": 2}]}
    limits = {"timeout_s": given.timeout, "memory_mb": 256}
    grader = Grader({"t": Task("t", (), "", "code", meta={"tests": tests, "limits": limits})}, "reward", fair=False)
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in batches(given.completions)}
    try:
        for programs in batches(given.completions).values():
            graded(grader, programs)  # starts the workers
        for _ in range(given.repeats):
            for name, programs in batches(given.completions).items():
                found[name].append(graded(grader, programs))
    finally:
        grader.close()
    seconds = {name: [one for one, _ in results] for name, results in found.items()}
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, times in seconds.items():
        growth = medians[name] - medians["clean"]
        print(f"{name:>9}: median {medians[name]:.2f} s of {[round(one, 2) for one in times]}, growth {growth:.2f} s")
        print(f"{'':>11}{growth / given.timeout:.2f} of the limit; starved {[starved for _, starved in found[name]]}")
    if given.json:
        record = {
            "command": ["python", "-m", "benchmarks.sandbox_batch", *arguments],
            "cores": len(os.sched_getaffinity(0)),
            "hostile": given.completions // 10,
            "limit_s": given.timeout,
            "seconds": seconds,
            "starved": {name: [starved for _, starved in results] for name, results in found.items()},
        }
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

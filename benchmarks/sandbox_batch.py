"""How long does a batch of graded programs wait for the hostile ones in it?

    python -m benchmarks.sandbox_batch --json FILE

Grades 64 completions of one task as training does: all right, then with 6 hostile ones that end by themselves, by a cap
or early (`verifiers/sandbox/hopeless.py`), then with 6 endless loops that only their deadline ends.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from reasoning.grading import Grader
from reasoning.types import SampleKey, Task
from verifiers.base import Status

COMPLETIONS = 64
RIGHT = "def f(x):\n    return x + 1\n"
HOSTILE = (
    "import time\ndef f(x):\n    time.sleep(99)\n",
    "def f(x):\n    while True:\n        pass\n",
    "import os\nwhile True:\n    os.fork()\n",
    "x = []\nwhile True:\n    x.append(bytearray(1 << 24))\n",
    "import os\ndef f(x):\n    os._exit(0)\n",
    "import time\ntime.sleep(99)\n",
)
STUBBORN = ("import itertools\ndef f(x):\n    for _ in itertools.count():\n        abs(x)\n",) * len(HOSTILE)


def graded_s(grader: Grader, programs: Sequence[str]) -> float:
    """Seconds until all have a verdict; the right ones, and they alone, have to be correct."""
    started = time.monotonic()
    for number, program in enumerate(programs):
        grader.submit((SampleKey("t", number, 0),), f"```python\n{program}```")
    verdicts = {keys[0].sample: verdict.status for keys, verdict in grader.finish()}
    seconds = time.monotonic() - started
    wrong = [n for n, program in enumerate(programs) if (verdicts[n] is Status.CORRECT) is not (program == RIGHT)]
    if wrong:
        raise SystemExit(f"the verdicts on programs {wrong} are not right")
    return seconds


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--timeout", type=float, default=2.0, help="limit of a program, seconds")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    tests = {"type": "call", "entry": "f", "cases": [{"args": [1], "expected": 2}]}
    limits = {"timeout_s": given.timeout, "memory_mb": 256}
    grader = Grader({"t": Task("t", (), "", "code", meta={"tests": tests, "limits": limits})}, "reward")
    batches = {"clean": (), "hostile": HOSTILE, "stubborn": STUBBORN}
    seconds: dict[str, list[float]] = {name: [] for name in batches}
    try:
        graded_s(grader, [RIGHT] * COMPLETIONS)  # starts the workers
        for _ in range(given.repeats):
            for name, bad in batches.items():
                seconds[name].append(graded_s(grader, [*[RIGHT] * (COMPLETIONS - len(bad)), *bad]))
    finally:
        grader.close()
    for name, times in seconds.items():
        print(f"{name:>9}: median {statistics.median(times):.2f} s of {[round(one, 2) for one in times]}")
    if given.json:
        record = {"command": ["python", "-m", "benchmarks.sandbox_batch", *arguments], "seconds": seconds}
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

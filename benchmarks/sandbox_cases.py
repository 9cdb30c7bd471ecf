"""Hostile, unusual and honest programs with the verdicts that they should get.

`python -m benchmarks.sandbox_cases FILE [--json OUT]` runs the cases of a JSONL file here, one after the other, and
checks the verdict and what must hold on the host afterwards. `grade` is the adapter for a runner that puts every case
into a process of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.host_conditions import Host
from verifiers.sandbox import Limits, Outcome, Report, parse_tests, run_tests

_VERDICTS = {Outcome.OUTPUT_LIMIT: "fail", Outcome.SANDBOX_ERROR: "error"}
"""What the format of the cases has another word for."""


def grade(case: Mapping[str, Any]) -> dict[str, Any]:
    """Verdict, verdict of every test, and the last part of the output, for a case with `program`, `test`, `limits`."""
    tests = parse_tests(case["test"])
    report = run_tests(case["program"], tests, Limits(**case["limits"]))
    verdict = _verdict(report.outcome)
    single = case["test"]["type"] == "assert"
    return {
        "verdict": verdict,
        "per_test": [verdict] if single else [_verdict(outcome) for outcome in _outcomes(report)],
        "stdout": report.stdout,
        "stderr": report.stderr,
        "detail": report.detail,
    }


def _outcomes(report: Report) -> list[Outcome]:
    """Tests after two timeouts in a row are not run: the format has no word for it but that of the two."""
    return [report.outcome if test.outcome is Outcome.NOT_RUN else test.outcome for test in report.tests]


def _verdict(outcome: Outcome) -> str:
    return _VERDICTS.get(outcome, outcome.value)


def main(arguments: list[str]) -> int:
    """0 if every verdict is accepted and every condition held."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sandbox_cases", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="JSONL of cases")
    parser.add_argument("--json", type=Path, help="write the verdicts here")
    given = parser.parse_args(arguments)
    cases = [json.loads(line) for line in given.file.read_text(encoding="utf-8").splitlines()]
    rows = [_run(case) for case in cases]
    if given.json:
        given.json.write_text(json.dumps({"cases": rows}, indent=2) + "\n", encoding="utf-8")
    good = sum(row["held"] and row["accepted"] for row in rows)
    print(f"{good} of {len(rows)} cases have the right verdict and held every condition")
    return 0 if good == len(rows) else 1


def _run(case: Mapping[str, Any]) -> dict[str, Any]:
    host = Host(case, grade)
    started = time.perf_counter()
    result = grade(case)
    seconds = time.perf_counter() - started
    broken = host.broken(result, seconds)
    row = {"id": case["id"], "verdict": result["verdict"], "held": not broken, "seconds": round(seconds, 3)}
    row["accepted"] = result["verdict"] in case["accept"]
    mark = "ok" if row["accepted"] and not broken else "BAD"
    print(f"{mark:3} {case['id']:14} {case['kind']:20} {result['verdict']:9} {', '.join(broken)}", flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Grade a file of math cases: `python -m benchmarks.math_cases FILE [--json OUT] [--policy reward]`.

FILE has lines of {"id", "kind", "gold", "completion", "expected", "note"}: whether the completion answers the gold
answer. A note that begins with [policy] marks a case that depends on the grading policy. Cases are graded one after
the other in a process that is killed when one takes too long. Printed are accuracy by kind, false positives and
negatives, hangs, and the slowest cases; payloads among the cases try to create a file, which must not be there then.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from reasoning.files import StoredDataError, read_json_lines
from verifiers import close, grade
from verifiers.base import Status
from verifiers.policy import DEFAULT, PRESETS
from verifiers.pool import JobFailed, JobTimeout, WorkerPool

CANARY = Path("/tmp/mathvcanary")
"""What the payloads among the cases try to create."""
HANG_S = 20.0
SLOW_S = 1.0
SLOWEST = 5
FIELDS = {"id": str, "kind": str, "gold": str, "completion": str, "expected": bool, "note": str}
WARM_UP = ("\\boxed{\\sqrt{3+2\\sqrt{2}}}", "1+\\sqrt{2}")


class CasesError(ValueError):
    """The cases cannot be graded; the message is ready to show."""


@dataclass(frozen=True, slots=True)
class Graded:
    """`correct`: whether the verdict pays. `seconds` are wall-clock, around the whole call."""

    id: str
    correct: bool
    status: str
    rule: str
    seconds: float


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file", type=Path, metavar="FILE")
    options.add_argument("--json", type=Path, metavar="OUT")
    options.add_argument("--policy", default=DEFAULT, choices=sorted(PRESETS))
    given = options.parse_args(arguments)
    try:
        cases = read_cases(given.file)
        if CANARY.exists():
            raise CasesError(f"{CANARY} is there already; remove it, for the payloads are told by it")
    except (CasesError, StoredDataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    graded = grade_cases(cases, given.policy)
    summary = {
        "command": ["python", "-m", "benchmarks.math_cases", *arguments],
        "policy": given.policy,
        "policy_hash": PRESETS[given.policy].hash,
        **summarise(cases, graded),
        "executed": CANARY.exists(),
    }
    show(cases, graded, summary)
    if given.json:
        record = {"summary": summary, "cases": [asdict(row) for row in graded]}
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if summary["executed"] else 0


def read_cases(path: Path) -> list[dict[str, Any]]:
    """The cases of a file; raises `CasesError`, `StoredDataError` or `OSError` for one that holds something else."""
    path.open("rb").close()
    cases = list(read_json_lines(path))
    if not cases:
        raise CasesError(f"{path} has no cases; each is a line of {', '.join(FIELDS)}")
    for number, case in enumerate(cases, start=1):
        for field, kind in FIELDS.items():
            if not isinstance(case.get(field), kind):
                raise CasesError(f"{path}, line {number}: '{field}' has to be {kind.__name__}, not {case.get(field)!r}")
    return cases


def load() -> Callable[[str, str, str], tuple[str, str, float]]:
    """What the process that grades runs."""
    return _grade


def _grade(completion: str, gold: str, policy: str) -> tuple[str, str, float]:
    started = time.perf_counter()
    verdict = grade("math", completion, gold, {"policy": policy})
    return verdict.status.value, verdict.rule, time.perf_counter() - started


def grade_cases(cases: Sequence[dict[str, Any]], policy: str) -> list[Graded]:
    """A row for every case, in order. A case that hangs or crashes has that as its status."""
    pool = WorkerPool("benchmarks.math_cases:load", size=1, deadline_s=HANG_S, memory_bytes=8 * 2**30)
    rows, cold = [], True
    try:
        for case in cases:
            if cold:  # numeric evidence and computer algebra are warm before the first clock starts
                pool.call(*WARM_UP, policy)
                pool.call(*WARM_UP, "math_verify_compat")
            try:
                (status, rule, seconds), _ = pool.call(case["completion"], case["gold"], policy)
                cold = False
            except JobTimeout:
                status, rule, seconds, cold = "hang", "", HANG_S, True
            except JobFailed as error:
                status, rule, seconds, cold = "crash", str(error), 0.0, True
            rows.append(Graded(case["id"], status == Status.CORRECT, status, rule, round(seconds, 6)))
    finally:
        pool.close()
        close()
    return rows


def summarise(cases: Sequence[dict[str, Any]], graded: Sequence[Graded]) -> dict[str, Any]:
    """Counts and ids of what is wrong, over all cases and without those of the policy."""
    pairs = list(zip(cases, graded, strict=True))
    plain = [(case, row) for case, row in pairs if not _of_policy(case)]
    return {
        "right": sum(_right(*pair) for pair in pairs),
        "all": len(pairs),
        "right_without_policy": sum(_right(*pair) for pair in plain),
        "all_without_policy": len(plain),
        "false_positives": [row.id for case, row in pairs if row.correct and not case["expected"]],
        "false_negatives": [row.id for case, row in pairs if case["expected"] and not row.correct],
        "hangs": [row.id for row in graded if row.status == "hang"],
        "crashes": [row.id for row in graded if row.status == "crash"],
        "slow": [row.id for row in graded if row.seconds > SLOW_S],
    }


def _right(case: dict[str, Any], row: Graded) -> bool:
    """A case that hangs or crashes is failed, whatever was expected."""
    return row.status not in ("hang", "crash") and row.correct == case["expected"]


def _of_policy(case: dict[str, Any]) -> bool:
    return case["note"].startswith("[policy]")


def show(cases: Sequence[dict[str, Any]], graded: Sequence[Graded], summary: dict[str, Any]) -> None:
    """The table by kind, then what is wrong and what is slow."""
    console = Console(width=140, markup=False, highlight=False)
    table = Table("kind", "right", "without [policy]", "false +", "false -", box=None, pad_edge=False)
    pairs = list(zip(cases, graded, strict=True))
    for kind in sorted({case["kind"] for case in cases}):
        of_kind = [pair for pair in pairs if pair[0]["kind"] == kind]
        table.add_row(kind, *_cells(of_kind))
    table.add_row("all", *_cells(pairs))
    console.print(table)
    right, total = summary["right"], summary["all"]
    plain, total_plain = summary["right_without_policy"], summary["all_without_policy"]
    console.print(f"policy {summary['policy']} ({summary['policy_hash']})")
    console.print(f"accuracy: {share(right, total)}; without [policy]: {share(plain, total_plain)}")
    for name in ("false_positives", "false_negatives", "hangs", "crashes"):
        console.print(f"{name.replace('_', ' ')}: {len(summary[name])} {' '.join(summary[name])}".rstrip())
    console.print(f"over {SLOW_S:g} s: {len(summary['slow'])}; slowest:")
    for row in sorted(graded, key=lambda row: -row.seconds)[:SLOWEST]:
        console.print(f"  {row.seconds * 1000:8.1f} ms  {row.id}  {row.status}  {row.rule}")
    console.print(f"a payload was executed: {'YES' if summary['executed'] else 'no'}")


def _cells(pairs: Sequence[tuple[dict[str, Any], Graded]]) -> tuple[str, ...]:
    found = summarise(*zip(*pairs, strict=True))
    return (
        f"{found['right']}/{found['all']}",
        f"{found['right_without_policy']}/{found['all_without_policy']}",
        str(len(found["false_positives"])),
        str(len(found["false_negatives"])),
    )


def share(part: int, whole: int) -> str:
    """A share with its counts."""
    return f"{part}/{whole} = {part / whole:.1%}" if whole else "none"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Rebuild results, plots and report from stored verdicts: `python -m reasoning.report RUN`; several are compared."""

from __future__ import annotations

import sys

if not __package__:
    print("run this as a module: python -m reasoning.report RUN", file=sys.stderr)
    sys.exit(2)

from collections.abc import Sequence
from pathlib import Path

from eval.policies import POLICIES, parse_policy
from reasoning.budget.stopping import usage
from reasoning.cli import ExitCode, Parser, exit_with
from reasoning.compare import check_distinct, compare, print_comparison
from reasoning.evaluation import print_summary
from reasoning.run_folder import open_run
from reasoning.summary import summarise


def main(arguments: Sequence[str]) -> int:
    parser = Parser("reasoning.report", "Rebuild the report of a run; several runs are compared with the first.")
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="run folder")
    names = ", ".join(usage(name, known) for name, known in POLICIES.items())
    parser.add_argument(
        "--policy",
        metavar="NAME:ARGS",
        action="append",
        default=[],
        help=f"replay a policy on what is stored; may come again: {names}",
    )
    given = parser.parse(arguments)
    policies = list(map(parse_policy, given.policy))
    folders = [open_run(path) for path in given.runs]
    check_distinct(folders)
    summaries = [summarise(folder, policies) for folder in folders]
    for summary in summaries:
        print_summary(summary)
    if len(summaries) > 1:
        print_comparison(compare(summaries))
    return ExitCode.DOUBTFUL if any(summary.results.violations for summary in summaries) else ExitCode.DONE


if __name__ == "__main__":
    exit_with(main)

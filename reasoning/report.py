"""Rebuild results, plots and report from stored verdicts: `python -m reasoning.report RUN`; several are compared."""

from __future__ import annotations

import sys

if not __package__:
    print("run this as a module: python -m reasoning.report RUN", file=sys.stderr)
    sys.exit(2)

from collections.abc import Sequence
from pathlib import Path

from eval.axes import AXES, TOKENS, find_axis
from eval.policies import POLICIES, parse_policy
from reasoning.budget.stopping import usage
from reasoning.cli import ExitCode, Parser, exit_with
from reasoning.compare import check_comparable, compare, print_comparison
from reasoning.costing import ChosenAxis, check_drawable
from reasoning.evaluation import print_summary
from reasoning.run_folder import open_run
from reasoning.summary import check_replayable, summarise


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
    parser.add_argument(
        "--axis",
        metavar="COST",
        default="tokens",
        help=f"what accuracy is drawn against: {', '.join(AXES)}",
    )
    parser.add_argument("--price-per-hour", type=float, metavar="PRICE", help="of all devices, for --axis dollars")
    given = parser.parse(arguments)
    axis = find_axis(given.axis)
    chosen = ChosenAxis(axis, given.price_per_hour)
    policies = list(map(parse_policy, given.policy))
    folders = [open_run(path) for path in given.runs]
    check_comparable(folders)
    if policies:
        for folder in folders:
            check_replayable(folder)
    if axis is not TOKENS:
        for folder in folders:
            check_drawable(folder, chosen)
    summaries = [summarise(folder, policies, None if axis is TOKENS else chosen) for folder in folders]
    for summary in summaries:
        print_summary(summary)
    if len(summaries) > 1:
        print_comparison(compare(summaries))
    return ExitCode.DOUBTFUL if any(summary.results.violations for summary in summaries) else ExitCode.DONE


if __name__ == "__main__":
    exit_with(main)

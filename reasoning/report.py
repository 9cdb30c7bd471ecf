"""Rebuild results and plots from stored verdicts: `python -m reasoning.report RUN`; several runs are compared."""

from __future__ import annotations

import sys

if not __package__:
    print("run this as a module: python -m reasoning.report RUN", file=sys.stderr)
    sys.exit(2)

from collections.abc import Sequence
from pathlib import Path

from reasoning import console
from reasoning.cli import ExitCode, Parser, exit_with
from reasoning.evaluation import print_summary
from reasoning.run_folder import open_run
from reasoning.summary import plot, summarise


def main(arguments: Sequence[str]) -> int:
    parser = Parser("reasoning.report", "Rebuild results and plots from stored verdicts; several runs share a figure.")
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="run folder")
    folders = [open_run(path) for path in parser.parse(arguments).runs]
    summaries = [summarise(folder) for folder in folders]
    for summary in summaries:
        print_summary(summary)
    drawn = [(summary.folder.path, summary.results) for summary in summaries if summary.results.can_be_drawn]
    if len(drawn) > 1:
        if len({results.run["data_sha256"] for _, results in drawn}) > 1:
            console.say("warning: these runs are on different tasks; the figure compares them all the same")
        console.say(f"comparison:   {plot(drawn, folders[0].plots / 'comparison')[0]}")
    return ExitCode.DOUBTFUL if any(summary.results.violations for summary in summaries) else ExitCode.DONE


if __name__ == "__main__":
    exit_with(main)

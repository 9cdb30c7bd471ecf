"""Grade the stored answers of a run again, without a model: `python -m reasoning.score RUN`."""

from __future__ import annotations

import sys

if not __package__:
    print("run this as a module: python -m reasoning.score RUN", file=sys.stderr)
    sys.exit(2)

from collections.abc import Iterator, Sequence
from pathlib import Path

from reasoning import console
from reasoning.cli import ExitCode, Parser, exit_with
from reasoning.evaluation import print_summary
from reasoning.files import write_json_lines
from reasoning.grading import Grader
from reasoning.records import verdict_line
from reasoning.run_folder import RunFolder, open_run
from reasoning.summary import summarise
from reasoning.types import SampleKey
from verifiers.base import Verdict


def main(arguments: Sequence[str]) -> int:
    parser = Parser("reasoning.score", "Grade the stored answers of a run again and rewrite its results.")
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    folder = open_run(parser.parse(arguments).run)
    with folder.lock():
        before, after = folder.read_verdicts(), dict(regrade(folder))
        write_json_lines(folder.verdicts, (verdict_line(key, after[key]) for key in sorted(after)))
        summary = summarise(folder)
    changed = sum(key in before and before[key].status != verdict.status for key, verdict in after.items())
    print_summary(summary)
    console.say(f"{changed:,} of {len(after):,} verdicts changed")
    return ExitCode.DOUBTFUL if summary.results.violations else ExitCode.DONE


def regrade(folder: RunFolder) -> Iterator[tuple[SampleKey, Verdict]]:
    """A verdict for every stored generation that the engine did not fail on."""
    grader = Grader(folder.read_tasks())
    for keys, answer in folder.read_answers():
        grader.submit(keys, answer)
    for keys, verdict in grader.finish():
        for key in keys:
            yield key, verdict


if __name__ == "__main__":
    exit_with(main)

"""Grade the stored answers of a run again, without a model: `python -m reasoning.score RUN`.

With `--tasks`, grade the completions of another tool: `python -m reasoning.score FILE.jsonl --tasks math500`.

`--audit` grades nothing again: it shows where Math-Verify decides otherwise than the stored verdicts.
"""

from __future__ import annotations

import sys

if not __package__:
    print("run this as a module: python -m reasoning.score RUN", file=sys.stderr)
    sys.exit(2)

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from reasoning import console
from reasoning.audit import audit, audit_line, print_audit
from reasoning.cli import ExitCode, Parser, exit_with
from reasoning.config import ConfigError
from reasoning.evaluation import print_summary
from reasoning.files import write_json_lines
from reasoning.grading import Grader, describe_policy
from reasoning.interchange import import_file
from reasoning.records import verdict_line
from reasoning.run_folder import RunFolder, default_path, make_folder, make_new_folder, open_run
from reasoning.summary import summarise
from reasoning.types import SampleKey
from verifiers.base import Verdict
from verifiers.code import require_sandbox
from verifiers.policy import DEFAULT, PRESETS


def main(arguments: Sequence[str]) -> int:
    parser = Parser("reasoning.score", "Grade the stored answers of a run again and rewrite its results.")
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder, or with --tasks a file of completions")
    parser.add_argument("--tasks", metavar="T", help="a set or a file: which tasks the completions of a file answer")
    parser.add_argument("--out", metavar="DIR", type=Path, help="run folder for them (default: a new one below runs/)")
    names = ", ".join(PRESETS)
    how = f"how mathematics is graded: {names} (default: as in the run)"
    parser.add_argument("--grading", metavar="NAME", choices=PRESETS, help=how)
    parser.add_argument("--audit", action="store_true", help="only show where Math-Verify decides otherwise")
    given = parser.parse(arguments)
    if given.audit and given.grading:
        raise ConfigError("--audit compares the verdicts that are stored; grade with --grading first, then audit")
    if given.tasks is None and given.run.is_file():
        raise ConfigError(f"{given.run} is a file; say which tasks its completions answer: --tasks NAME or FILE")
    if given.tasks is not None and given.run.is_dir():
        raise ConfigError(
            f"{given.run} is a folder; --tasks is for a file of completions: leave it out, a run has its own"
        )
    if given.tasks is None and given.out is not None:
        raise ConfigError("--out is for the completions of a file, with --tasks; a run is graded where it is")
    folder = open_run(given.run) if given.tasks is None else _import(given.run, given.tasks, given.out, given.grading)
    with folder.lock():
        return _audit(folder) if given.audit else _score(folder, given.grading or _policy_of(folder))


def _import(file: Path, tasks: str, out: Path | None, policy: str | None) -> RunFolder:
    def make() -> RunFolder:
        if out is not None:
            return make_folder(out)
        return make_new_folder(default_path(tasks, file.stem, datetime.now().astimezone()))

    return import_file(file, tasks, policy or DEFAULT, make)


def _policy_of(folder: RunFolder) -> str:
    """The policy that the run was started with."""
    return folder.read_config().get("grading", {}).get("policy", DEFAULT)


def _score(folder: RunFolder, policy: str) -> int:
    before, after = folder.read_verdicts(), dict(regrade(folder, policy))
    write_json_lines(folder.verdicts, (verdict_line(key, after[key]) for key in sorted(after)))
    folder.update_manifest(**describe_policy(policy))
    summary = summarise(folder)
    changed = sum(key in before and before[key].status != verdict.status for key, verdict in after.items())
    print_summary(summary)
    if before:
        console.say(f"{changed:,} of {len(after):,} verdicts changed")
    return ExitCode.DOUBTFUL if summary.results.violations else ExitCode.DONE


def _audit(folder: RunFolder) -> int:
    rows = audit(folder)
    write_json_lines(folder.audit, (audit_line(row) for row in rows if not row.agrees))
    print_audit(rows)
    console.say(f"disagreements: {folder.audit}")
    return ExitCode.DONE


def regrade(folder: RunFolder, policy: str) -> Iterator[tuple[SampleKey, Verdict]]:
    """A verdict for every stored generation that the engine did not fail on; the same answers are graded once."""
    tasks = folder.read_tasks()
    if any(task.verifier == "code" for task in tasks.values()):
        require_sandbox()
    grader = Grader(tasks, policy)
    same: dict[tuple[str, str], list[SampleKey]] = {}
    for keys, answer in folder.read_answers():
        same.setdefault((keys[0].task_id, answer), []).extend(keys)
    for (_, answer), keys in same.items():
        grader.submit(tuple(keys), answer)
    for keys, verdict in grader.finish():
        for key in keys:
            yield key, verdict


if __name__ == "__main__":
    exit_with(main)

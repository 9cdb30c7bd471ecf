"""One evaluation from settings to plot, in named steps.

make_plan   everything that can be refused before the engine starts
prepare     the run folder, new or resumed
sample      engine, budgets, verdicts; every finished generation is on disk at once
summarise   budgets recounted, results, plot
report      what would invalidate the numbers, the table, where everything lies
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from eval.savings import POLICY_HEADINGS, policy_row
from reasoning import console
from reasoning.admission import describe, describe_running
from reasoning.attempts import FULL, begin_attempt, end_attempt, now, resume_line
from reasoning.budgets import format_budget
from reasoning.cli import ExitCode
from reasoning.config import ConfigError
from reasoning.drawn import describe_allocation
from reasoning.engine.base import CacheTooSmall, Engine, EngineError, EngineSettings
from reasoning.engine.replica import EngineArguments
from reasoning.engine.replicas import open_engine
from reasoning.eval_config import EvalConfig
from reasoning.files import StoredDataError
from reasoning.grading import describe_policy
from reasoning.pages import describe_sampling
from reasoning.preflight import Plan, make_plan
from reasoning.profiling import device_facts
from reasoning.provenance import sha256
from reasoning.run_folder import RunFolder, default_path, make_folder, make_new_folder
from reasoning.run_start import prepare_run
from reasoning.sampling import cache_of, sample
from reasoning.summary import Summary, summarise

MODULE = "reasoning.eval"

log = logging.getLogger("reasoning")

EngineFactory = Callable[[Plan, Path], Engine]
"""Starts an engine for a plan; its log goes to the path."""


@dataclass(frozen=True, slots=True)
class Command:
    """How the evaluation was asked for, apart from its settings. `arguments` as they were typed."""

    arguments: tuple[str, ...]
    resume: bool = False
    clean: bool = False
    dry_run: bool = False
    quiet: bool = False


def start_vllm(plan: Plan, log_path: Path) -> Engine:
    return open_engine(
        EngineArguments(
            plan.model.source,
            EngineSettings(**plan.config.engine.model_dump()),
            plan.max_model_len,
            seed=plan.config.seed,
            log=log_path,
            logprobs=plan.config.logprobs,
            profile=plan.config.profile,
        )
    )


def evaluate(config: EvalConfig, command: Command, start_engine: EngineFactory = start_vllm) -> int:
    """Run an evaluation and return the exit code.

    Raises:
        One of `reasoning.cli.USAGE_ERRORS` before anything is started.
    """
    if (command.resume or command.clean) and config.out is None:
        raise ConfigError("--resume and --clean need --out, the folder of the run")
    plan = make_plan(config)
    if command.dry_run:
        _describe(plan)
        return ExitCode.DONE
    folder = _folder(plan.config)
    with folder.lock():
        prepare(plan, folder, resume=command.resume, clean=command.clean)
        with _log_to(folder.log):
            return _run(plan, folder, command, start_engine)


def _run(plan: Plan, folder: RunFolder, command: Command, start_engine: EngineFactory) -> int:
    """Sample, summarise and report; whatever goes wrong becomes an exit code and the line to go on with."""
    started = time.monotonic()
    going_on = resume_line(MODULE, command.arguments, folder.path)
    try:
        _introduce(plan, folder, command)
        if not sample(plan, folder, lambda: _start(plan, folder, command, start_engine), quiet=command.quiet):
            return _interrupted(folder, started, going_on)
        summary = summarise(folder)
        end_attempt(folder, "complete", started)
    except KeyboardInterrupt:
        return _interrupted(folder, started, going_on)
    except StoredDataError:
        raise
    except CacheTooSmall as error:
        end_attempt(folder, "failed", started)
        console.note(f"error: {error}")
        return ExitCode.USAGE
    except Exception as error:  # noqa: BLE001 - the last boundary: say what is on disk and how to go on
        if isinstance(error, OSError) and error.errno in FULL:
            return _disk_full(folder, error, going_on)
        return _failed(folder, error, started, going_on)
    return _report(summary, plan)


def _folder(config: EvalConfig) -> RunFolder:
    if config.out:
        return make_folder(Path(config.out))
    return make_new_folder(default_path(config.tasks, config.model, datetime.now().astimezone()))


def prepare(plan: Plan, folder: RunFolder, *, resume: bool, clean: bool) -> None:
    """Make a locked folder ready for the samples of a plan."""
    manifest = {
        "status": "running",
        "started": now(),
        "ended": None,
        "seconds": 0.0,
        "planned": plan.planned,
        "n_tasks": len(plan.tasks),
        "data_sha256": plan.data_sha256,
        "model_sha256": plan.model.sha256,
        "model_config": dict(plan.model.config),
        "template_sha256": plan.template_sha256,
        **describe_policy(plan.config.grading.policy),
        "think": asdict(plan.markers) | {"starts_open": plan.starts_open},
        "max_model_len": plan.max_model_len,
        "calibration": None if plan.calibration is None else asdict(plan.calibration),
        "attempts": [],
        **_allocated(plan),
    }
    settings = plan.config.model_dump(mode="json", exclude={"out"})
    prepare_run(folder, settings, manifest, plan.tasks, resume=resume, clean=clean)


def _allocated(plan: Plan) -> dict[str, Any]:
    """What a policy chose from another run: a run that is continued has to come to the same."""
    allocation = describe_allocation(plan.drawing)
    if allocation is None:
        return {}
    return {"allocation": allocation, "allocation_hash": sha256(json.dumps(allocation, sort_keys=True))}


def _start(plan: Plan, folder: RunFolder, command: Command, start_engine: EngineFactory) -> Engine:
    """Start the engine, and note in the manifest what this attempt at the run is made with."""
    engine = start_engine(plan, folder.log)
    more = {"profile": device_facts(plan.model.config, engine)} if plan.config.profile else {}
    begin_attempt(folder, MODULE, command.arguments, engine, sandbox=plan.sandbox, **more)
    log.info("engine: %s", engine.describe())
    if not command.quiet:
        running = describe_running(plan.config.engine.max_num_seqs, is_set=plan.concurrency_is_set)
        console.note(f"{describe(cache_of(engine), plan.largest_thinking, plan.max_model_len)}; {running}")
    return engine


def _describe(plan: Plan) -> None:
    """What a dry run shows: the settings with every default, the first prompt, and what the run may cost."""
    console.say(yaml.safe_dump(plan.config.model_dump(mode="json"), sort_keys=False, allow_unicode=True).rstrip())
    first = plan.tasks[0]
    prompt = plan.rendered[first.id]
    console.say(f"\nfirst prompt ({first.id}, {len(prompt.prompt_ids)} tokens):")
    console.say(str(plan.tokenizer.decode(list(prompt.prompt_ids))))
    console.say(f"\n{_size(plan)}")
    console.say(f"at most {plan.most_decoded_tokens:,} tokens to decode, sequences of up to {plan.max_model_len:,}")
    if plan.kv_line is not None:
        console.say(plan.kv_line)
    for remark in plan.notes:
        console.say(f"note: {remark}")
    console.say("nothing was started")


def _introduce(plan: Plan, folder: RunFolder, command: Command) -> None:
    log.info("command: %s", " ".join(command.arguments))
    if not command.quiet:
        sampling = ", ".join(describe_sampling(asdict(plan.sampling)))
        console.note(f"{_size(plan)}; {sampling}, closing {plan.closing.name}, seed {plan.config.seed}")
        console.note(f"run folder: {folder.path}")
        for remark in plan.notes:
            console.note(f"note: {remark}")


def _size(plan: Plan) -> str:
    budgets = ", ".join(map(format_budget, plan.budgets))
    if plan.drawing is not None:
        return (
            f"{plan.config.model} on {plan.config.tasks}: {len(plan.tasks):,} tasks, samples drawn by "
            f"{plan.config.policy}, at most {plan.planned:,}; budgets {budgets}"
        )
    return (
        f"{plan.config.model} on {plan.config.tasks}: {len(plan.tasks):,} tasks x budgets {budgets} "
        f"x {plan.config.samples:,} each = {plan.planned:,} samples"
    )


def _report(summary: Summary, plan: Plan) -> int:
    print_summary(summary)
    results = summary.results
    path = str(summary.folder.path)
    console.say(f"grade again:  {console.command_line('reasoning.score', path)}")
    console.say(f"compare:      {console.command_line('reasoning.report', path, 'OTHER_RUN')}")
    if results.violations or results.failed_share > plan.config.max_errors:
        violations = len(results.violations)
        console.note(f"error: {results.failed:,} of {results.finished:,} samples failed, {violations:,} over budget")
        return ExitCode.DOUBTFUL
    return ExitCode.DONE


def print_summary(summary: Summary) -> None:
    """Warnings first, then the table and the files."""
    for warning in summary.results.warnings:
        console.say(f"warning: {warning}")
    console.print_table(summary.results.points)
    if summary.voting is not None:
        console.say(f"policy {summary.voting.policy}: one vote a task; tokens spent are those of all its samples")
    if summary.results.policies:
        console.print_rows(POLICY_HEADINGS, map(policy_row, summary.results.policies), wrap=True)
    console.say(f"run folder:   {summary.folder.path}")
    console.say(f"report:       {summary.folder.report}")
    if summary.plots:
        console.say(f"plot:         {summary.plots[0]}")


def _interrupted(folder: RunFolder, started: float, going_on: str) -> int:
    end_attempt(folder, "interrupted", started)
    console.note(f"interrupted; everything finished is on disk. Continue with:\n  {going_on}")
    return ExitCode.INTERRUPTED


def _disk_full(folder: RunFolder, error: OSError, going_on: str) -> int:
    """The manifest keeps saying `running`: there is no room to say anything else."""
    console.note(
        f"error: cannot write to {folder.path}: {os.strerror(error.errno or 0)}. What was written is intact. "
        f"Make room, then continue with:\n  {going_on}"
    )
    return ExitCode.FAILED


def _failed(folder: RunFolder, error: Exception, started: float, going_on: str) -> int:
    log.error("the run failed", exc_info=error)
    end_attempt(folder, "failed", started)
    if not isinstance(error, EngineError):
        traceback.print_exception(error, file=sys.stderr)
    finished, planned = len(folder.finished_keys()), folder.read_manifest()["planned"]
    console.note(
        f"error: {error}\n{finished:,} of {planned:,} samples are on disk; log: {folder.log}\n"
        f"continue with:\n  {going_on}"
    )
    return ExitCode.FAILED


@contextmanager
def _log_to(path: Path) -> Generator[None]:
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()

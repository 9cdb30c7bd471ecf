"""One training run from settings to plots: joins the evaluation's plan and measurements with the trainer in `rl`.

What goes wrong becomes an exit code and the line to go on with.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from reasoning import console
from reasoning.attempts import FULL, begin_attempt, end_attempt, now, resume_line
from reasoning.cli import ExitCode
from reasoning.config import ConfigError
from reasoning.engine.base import Engine, EngineError, EngineSettings
from reasoning.held_out import HeldOut, print_outcome
from reasoning.provenance import sha256
from reasoning.run_folder import RunFolder, default_path, make_folder, make_new_folder
from reasoning.sampling import Interrupt
from reasoning.train_config import TrainConfig
from reasoning.train_folder import prepare_training
from reasoning.train_plan import TrainPlan, plan_training

MODULE = "reasoning.train"

log = logging.getLogger("reasoning")


@dataclass(frozen=True, slots=True)
class TrainCommand:
    """How the run was asked for, apart from its settings."""

    arguments: tuple[str, ...]
    resume: bool = False
    clean: bool = False
    dry_run: bool = False


EngineFactory = Callable[[TrainPlan, Path], Engine]
"""Starts an engine for a plan; its log goes to the path."""


def start_vllm(plan: TrainPlan, log_path: Path) -> Engine:
    from reasoning.engine.vllm import VllmEngine

    chosen = plan.config.engine.model_dump()
    chosen["dtype"] = chosen["dtype"] or str(plan.dtype).removeprefix("torch.")
    settings = EngineSettings(**chosen)
    return VllmEngine(
        plan.rollouts.model.source, settings, plan.max_model_len, seed=plan.config.seed, log=log_path, logprobs=True
    )


def train(config: TrainConfig, command: TrainCommand, start_engine: EngineFactory = start_vllm) -> int:
    """Run a training and return the exit code.

    Raises:
        One of `reasoning.cli.USAGE_ERRORS` before anything is started.
    """
    if (command.resume or command.clean) and config.out is None:
        raise ConfigError("--resume and --clean need --out, the folder of the run")
    plan = plan_training(config)
    if command.dry_run:
        _describe(plan)
        return ExitCode.DONE
    folder = _folder(config)
    with folder.lock():
        settings = plan.config.model_dump(mode="json", exclude={"out"})
        prepare_training(folder, settings, _manifest(plan), resume=command.resume, clean=command.clean)
        return _run(plan, folder, command, start_engine)


def _run(plan: TrainPlan, folder: RunFolder, command: TrainCommand, start_engine: EngineFactory) -> int:
    """Train, and say how it ended."""
    from rl.checkpoints import CheckpointError
    from rl.generations import TrainingStopped
    from rl.rollouts import Interrupted

    started = time.monotonic()
    going_on = resume_line(MODULE, command.arguments, folder.path)
    console.note(f"run folder: {folder.path}")
    try:
        steps, held_out = _train(plan, folder, command, start_engine)
        end_attempt(folder, "complete", started)
    except (KeyboardInterrupt, Interrupted):
        end_attempt(folder, "interrupted", started)
        console.note(f"interrupted; continue with:\n  {going_on}")
        return ExitCode.INTERRUPTED
    except ConfigError:
        end_attempt(folder, "failed", started)
        raise
    except Exception as error:  # noqa: BLE001 - the last boundary: say what is on disk and how to go on
        full = isinstance(error, OSError) and error.errno in FULL
        if not full and not isinstance(error, CheckpointError):
            end_attempt(folder, "failed", started)
        if not full and not isinstance(error, EngineError | TrainingStopped | CheckpointError):
            traceback.print_exception(error, file=sys.stderr)
        what = f"cannot write to {folder.path}: {os.strerror(error.errno or 0)}" if full else str(error)
        console.note(f"error: {what}\ncontinue with:\n  {going_on}")
        return ExitCode.FAILED
    print_outcome(held_out, plan.config, steps, folder.read_manifest()["seconds"])
    return ExitCode.DONE


def _train(
    plan: TrainPlan, folder: RunFolder, command: TrainCommand, start_engine: EngineFactory
) -> tuple[int, HeldOut]:
    """Train to the end; how many steps there were in all, and what was measured."""
    from rl.checkpoints import Checkpoints, step_of
    from rl.start import start_trainer

    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        engine = start_engine(plan, folder.log)
        stack.callback(engine.close)
        begin_attempt(folder, MODULE, command.arguments, engine)
        held_out = HeldOut(plan.held_out, folder, engine)
        latest = Checkpoints(folder.path / "checkpoints", None).latest()
        held_out.forget_after(step_of(latest) if latest else 0)
        trainer = start_trainer(
            source=plan.rollouts.model.source,
            dtype=plan.dtype,
            device=plan.device,
            config=plan.config,
            args=plan.args,
            settings=plan.settings,
            rewards=plan.rewards,
            engine=engine,
            out=folder.path,
            held_out=held_out.measure,
            interrupted=lambda: interrupt.requested,
            say=console.say,
        )
        trainer.train()
        return trainer.state.global_step, held_out


def _folder(config: TrainConfig) -> RunFolder:
    if config.out:
        return make_folder(Path(config.out))
    return make_new_folder(default_path(f"{config.tasks}-grpo", config.model, datetime.now().astimezone()))


def _manifest(plan: TrainPlan) -> dict[str, Any]:
    return {
        "status": "running",
        "started": now(),
        "ended": None,
        "seconds": 0.0,
        "n_tasks": len(plan.rollouts.tasks),
        "data_sha256": plan.rollouts.data_sha256,
        "held_out_sha256": plan.held_out.data_sha256,
        "model_sha256": plan.rollouts.model.sha256,
        "template_sha256": sha256(str(plan.rollouts.tokenizer.chat_template)),
        "sampling": asdict(plan.settings.sampling),
        "attempts": [],
    }


def _describe(plan: TrainPlan) -> None:
    """What a dry run shows: settings with defaults, the first prompt, the size of the run."""
    console.say(yaml.safe_dump(plan.config.model_dump(mode="json"), sort_keys=False, allow_unicode=True).rstrip())
    task = plan.rollouts.tasks[0]
    prompt = plan.settings.rendered[task.id]
    console.say(f"\nfirst prompt ({task.id}, {len(prompt.prompt_ids)} tokens):")
    console.say(str(plan.settings.tokenizer.decode(list(prompt.prompt_ids))))
    args = plan.args
    console.say(
        f"\n{len(plan.rollouts.tasks):,} training tasks, {len(plan.held_out.tasks):,} held out; generations of "
        f"{args.generation_batch_size:,} completions in groups of {args.num_generations}, completions of at most "
        f"{plan.settings.max_completion_length:,} tokens, rows of {plan.row_tokens:,}"
    )
    console.say("nothing was started")

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
from typing import TYPE_CHECKING, Any

import yaml

from reasoning import console
from reasoning.attempts import FULL, begin_attempt, end_attempt, now, resume_line
from reasoning.cli import ExitCode
from reasoning.config import ConfigError
from reasoning.engine.base import Engine, EngineError, EngineSettings
from reasoning.engine.replica import EngineArguments
from reasoning.engine.replicas import open_engine
from reasoning.held_out import HeldOut, print_outcome
from reasoning.provenance import sha256
from reasoning.run_folder import RunFolder, default_path, make_folder, make_new_folder
from reasoning.sampling import Interrupt
from reasoning.train_config import TrainConfig
from reasoning.train_folder import prepare_training
from reasoning.train_plan import TrainPlan, plan_training

if TYPE_CHECKING:
    from rl.distributed import Processes

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
    """vLLM in this process, or the server that the settings name."""
    from rl.distributed import process_count
    from rl.served import connect

    source, context = plan.rollouts.model.source, plan.max_model_len
    if plan.args.vllm_mode == "server":
        return connect(
            plan.args, source, context, concurrency=plan.config.engine.max_num_seqs, device=plan.device, log=log_path
        )
    chosen = plan.config.engine.model_dump()
    chosen["dtype"] = chosen["dtype"] or str(plan.dtype).removeprefix("torch.")
    if process_count() > 1:  # an engine for each process, on its own device
        chosen["extra"] = {"distributed_executor_backend": "external_launcher", **chosen["extra"]}
    settings = EngineSettings(**chosen)
    return open_engine(EngineArguments(source, settings, context, seed=plan.config.seed, log=log_path, logprobs=True))


def train(config: TrainConfig, command: TrainCommand, start_engine: EngineFactory = start_vllm) -> int:
    """Run a training and return the exit code.

    Raises:
        One of `reasoning.cli.USAGE_ERRORS` before anything is started.
    """
    if (command.resume or command.clean) and config.out is None:
        raise ConfigError("--resume and --clean need --out, the folder of the run")
    from rl.distributed import join_processes

    processes = join_processes()
    plan = plan_training(config)
    if processes.sharded and (plan.lora is not None or config.update.compile):
        raise ConfigError("FSDP goes neither with adapters (grpo.use_peft) nor with update.compile; leave one out")
    if command.dry_run:
        processes.first(lambda: _describe(plan))
        return ExitCode.DONE
    with ExitStack() as stack:
        stack.callback(processes.leave)
        path = processes.first(lambda: _prepare(plan, command, processes, stack))
        return _run(plan, RunFolder(path), command, start_engine, processes)


def _prepare(plan: TrainPlan, command: TrainCommand, processes: Processes, stack: ExitStack) -> Path:
    """The folder, ready and locked until the stack is left."""
    folder = _folder(plan.config)
    stack.enter_context(folder.lock())
    settings = plan.config.model_dump(mode="json", exclude={"out"})
    prepare_training(folder, settings, _manifest(plan, processes), resume=command.resume, clean=command.clean)
    return folder.path


def _run(
    plan: TrainPlan, folder: RunFolder, command: TrainCommand, start_engine: EngineFactory, processes: Processes
) -> int:
    """Train, and say how it ended."""
    from rl.checkpoints import CheckpointError
    from rl.distributed import ProcessLost
    from rl.generations import TrainingStopped
    from rl.rollouts import Interrupted

    def end(status: str) -> None:
        if processes.is_first:
            end_attempt(folder, status, started)

    def note(text: str) -> None:
        if processes.is_first:
            console.note(text)

    started = time.monotonic()
    going_on = launched(resume_line(MODULE, command.arguments, folder.path), processes)
    note(f"run folder: {folder.path}")
    try:
        steps, held_out = _train(plan, folder, command, start_engine, processes)
        end("complete")
    except (KeyboardInterrupt, Interrupted):
        end("interrupted")
        note(f"interrupted; continue with:\n  {going_on}")
        return ExitCode.INTERRUPTED
    except ConfigError:
        end("failed")
        raise
    except Exception as error:  # noqa: BLE001 - the last boundary: say what is on disk and how to go on
        full = isinstance(error, OSError) and error.errno in FULL
        expected = isinstance(error, EngineError | TrainingStopped | CheckpointError | ProcessLost)
        if not full and not isinstance(error, CheckpointError):
            end("failed")
        if not full and not expected:
            traceback.print_exception(error, file=sys.stderr)
        what = f"cannot write to {folder.path}: {os.strerror(error.errno or 0)}" if full else str(error)
        note(f"error: {what}\ncontinue with:\n  {going_on}")
        if not processes.is_first and not isinstance(error, ProcessLost):
            console.note(f"process {processes.index}: {what}")
        return ExitCode.FAILED
    if processes.is_first:
        print_outcome(held_out, plan.config, steps, folder.read_manifest()["seconds"])
    return ExitCode.DONE


def launched(line: str, processes: Processes) -> str:
    """A command line as it is typed for several processes."""
    if processes.count == 1:
        return line
    kind = "--use_fsdp --fsdp_version 2" if processes.sharded else "--multi_gpu"
    return f"accelerate launch {kind} --num_processes {processes.count} {line.partition(' ')[2]}"


def _train(
    plan: TrainPlan, folder: RunFolder, command: TrainCommand, start_engine: EngineFactory, processes: Processes
) -> tuple[int, HeldOut]:
    """Train to the end; how many steps there were in all, and what was measured."""
    from rl.checkpoints import Checkpoints, step_of
    from rl.start import start_trainer

    with ExitStack() as stack:
        interrupt = stack.enter_context(Interrupt())
        engine = start_engine(plan, folder.log if processes.is_first else folder.path / f"run-{processes.index}.log")
        stack.callback(engine.close)
        held_out = HeldOut(plan.held_out, folder, engine)

        def begin() -> None:
            begin_attempt(folder, MODULE, command.arguments, engine)
            latest = Checkpoints(folder.path / "checkpoints", None).latest()
            held_out.forget_after(step_of(latest) if latest else 0)

        processes.first(begin)
        trainer = start_trainer(
            source=plan.rollouts.model.source,
            dtype=plan.dtype,
            device=plan.device,
            config=plan.config,
            args=plan.args,
            lora=plan.lora,
            settings=plan.settings,
            rewards=plan.rewards,
            engine=engine,
            out=folder.path,
            held_out=held_out.measure,
            interrupted=lambda: interrupt.requested,
            say=console.say if processes.is_first else _silence,
            processes=processes,
        )
        trainer.train()
        return trainer.state.global_step, held_out


def _silence(_text: str) -> None:
    """What the first process says need not be said again."""


def _folder(config: TrainConfig) -> RunFolder:
    if config.out:
        return make_folder(Path(config.out))
    return make_new_folder(default_path(f"{config.tasks}-grpo", config.model, datetime.now().astimezone()))


def _manifest(plan: TrainPlan, processes: Processes) -> dict[str, Any]:
    return {
        "status": "running",
        "started": now(),
        "ended": None,
        "seconds": 0.0,
        "processes": processes.count,
        "sharded": processes.sharded,
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
        f"{plan.settings.max_completion_length:,} tokens, rows of {plan.config.update.row_tokens:,}"
    )
    console.say("nothing was started")

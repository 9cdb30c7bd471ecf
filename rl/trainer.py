"""GRPO as a subclass of TRL's GRPOTrainer.

TRL makes the reference model, the optimizer's settings, the schedule and the callbacks that report to wandb, trackio or
tensorboard. Rollouts, rewards, the update, checkpoints and the order of things are this project's: see the modules that
each step calls.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, ProgressCallback, TrainerState
from transformers.trainer_utils import TrainOutput
from trl import GRPOConfig, GRPOTrainer

from reasoning.budget.sampling import derive_seed
from reasoning.engine.base import EngineError
from rl.checkpoints import Checkpoints, random_state, restore_random_state
from rl.faults import is_out_of_memory, out_of_memory, save_bad_batch
from rl.generations import Generation, Generator, TrainingStopped
from rl.hooks import Hooks, UpdateSettings
from rl.lora import adapter_off, drop_reference, network, whole_weights
from rl.losses import objective_from
from rl.masters import Masters
from rl.metrics import MetricsLog, StepTimes, flops_per_token, peak_flops, throughput
from rl.preflight import preflight
from rl.resume import restore, save_checkpoint, write_model
from rl.rollout_log import write_rollouts
from rl.rollouts import Interrupted, Spent
from rl.scorer import Scorer
from rl.sharding import shard
from rl.step_report import StepReport
from rl.update import NonFiniteLoss, PackedUpdate
from rl.windows import documents, window

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class GrpoTrainer(GRPOTrainer):
    """Trains a model on its own graded rollouts, and continues exactly where a checkpoint left off."""

    model: Any
    ref_model: Any
    optimizer: Any
    lr_scheduler: Any
    processing_class: Any
    masters: Masters

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        tokenizer: PreTrainedTokenizerBase,
        args: GRPOConfig,
        generator: Generator,
        update: UpdateSettings,
        out: Path,
        hooks: Hooks,
    ) -> None:
        """`model` is loaded with attention `packed` and computes in its own dtype. `out` is the run folder.

        Raises:
            ConfigError: the objective is not built here.
        """
        self._loss = objective_from(args)
        self.processes = generator.processes
        tasks = generator.maker.settings.tasks.values()
        super().__init__(
            model=model,
            reward_funcs=[_named(name) for name in generator.rewards],
            args=args,
            train_dataset=Dataset.from_list([{"prompt": [dict(message) for message in task.prompt]} for task in tasks]),
            processing_class=tokenizer,
        )
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        drop_reference(self.model)
        self.network: Any = network(self.model)
        self.checkpoints = Checkpoints(out / "checkpoints", args.save_total_limit)
        self.generator = generator
        self.generation: Generation | None = None
        self._update_settings = update
        self._out = out
        self._hooks = hooks
        self._synced_step: int | None = None
        peak = peak_flops(self.args.device, update.dtype)
        self._peak_flops = peak and peak * self.processes.count
        self._flops_per_token = flops_per_token(self.network)

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole run, from max_steps or else num_train_epochs."""
        if self.args.max_steps > 0:
            return self.args.max_steps
        tasks = len(self.generator.maker.settings.tasks)
        return max(1, int(self.args.num_train_epochs * tasks / self.generator.settings.prompts)) * self._cycle

    @property
    def _cycle(self) -> int:
        """Optimizer steps that one generation serves."""
        return self.generator.settings.windows * self.num_iterations

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """The optimizer that `optim` names, on float32 masters.

        Replaces the method of transformers, whose optimizer would hold the model's own bfloat16 weights, in which an
        update of a thousandth of their size is rounded away.
        """
        named = [(name, weight) for name, weight in self.model.named_parameters() if weight.requires_grad]
        self.masters = Masters([weight for _, weight in named])
        decayed = set(self.get_decay_parameter_names(self.model))
        kind, options = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        groups = self.masters.groups([name in decayed for name, _ in named], self.args.weight_decay)
        self.optimizer = kind(groups, **options)
        return self.optimizer

    def _inner_training_loop(self, *_: Any, **__: Any) -> TrainOutput:
        """Generate, update, log, save, until the last step.

        Replaces the loop of transformers: it walks through a data loader, from which neither the tasks of a curriculum
        nor the middle of a generation could be found again after an interruption.
        """
        last_step = self._start()
        log = MetricsLog(self._out / "metrics.jsonl", last_step) if self.processes.is_first else None
        self._told = StepReport(log, self.total_steps, self._cycle, self._hooks.say)
        try:
            self.control = self.callback_handler.on_train_begin(self.args, self.state, self.control)
            if self.state.global_step == 0:
                self._sync()
                preflight(self.generator, self._update, self._hooks, self.total_steps, self._cycle)
            while self.state.global_step < self.total_steps and not self.control.should_training_stop:
                if self.state.global_step % (self._hooks.held_out_every or self.total_steps) == 0:
                    self._evaluate_held_out()
                self._guarded_step()
            self._end()
        finally:
            self._told.close()
        return TrainOutput(self.state.global_step, float("nan"), {})

    def _start(self) -> int | None:
        """Optimizer, schedule and state; those of the latest checkpoint if there is one, whose step is returned."""
        settings = self._update_settings
        scorer = Scorer(self.network, self.temperature, settings.longest)
        if self.processes.sharded:
            shard(scorer, settings.dtype)
        self.create_optimizer()
        self.create_scheduler(num_training_steps=self.total_steps)
        self.state = TrainerState()
        self.state.max_steps = self.total_steps
        self.state.compute_steps(self.args, self.total_steps)
        self.state.is_world_process_zero = self.state.is_local_process_zero = self.processes.is_first
        for name in ("model", "optimizer", "lr_scheduler"):
            setattr(self.callback_handler, name, getattr(self, name))
        self._update = PackedUpdate(
            scorer,
            self._loss,
            self.masters,
            row_tokens=settings.row_tokens,
            threads=settings.threads,
            compiled=settings.compiled,
            say=self._hooks.say,
            processes=self.processes,
        )
        self.model.train()
        latest = self.processes.first(self.checkpoints.latest)
        if latest is None:
            return None
        restore(self, latest)
        self._hooks.say(f"continuing after step {self.state.global_step}, from {latest}")
        return self.state.global_step

    def _guarded_step(self) -> None:
        """One step; whatever stops a generation leaves a checkpoint of the step before."""
        before = self.generator.sampler.state(), random_state()
        step = self.state.global_step + 1
        try:
            self._optimizer_step()
        except NonFiniteLoss as error:
            assert self.generation is not None
            generation = self.generation
            kept = self.processes.first(lambda: save_bad_batch(self._out, step, generation))
            raise TrainingStopped(f"{error} in step {step}; {kept}") from error
        except (Interrupted, EngineError, TrainingStopped):
            # All of them come of a generation, before the weights moved.
            self.generator.sampler.restore(before[0])
            restore_random_state(before[1])
            self._checkpoint()
            raise
        except (MemoryError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise TrainingStopped(out_of_memory(step, self._update_settings.row_tokens, error)) from error
            raise
        if self.processes.any(self.generator.maker.interrupted()):
            self._checkpoint()
            raise Interrupted

    def _optimizer_step(self) -> None:
        started = time.perf_counter()
        times, spent, metrics = StepTimes(), Spent(), {}
        number, within = divmod(self.state.global_step, self._cycle)
        self.control = self.callback_handler.on_step_begin(self.args, self.state, self.control)
        if self.generation is None or self.generation.number != number:
            self.generation = self._new_generation(number, spent, times)
            metrics |= self.generation.metrics
        packing = time.perf_counter()
        rows = self._update.pack(window(self.generation, self.generator.settings, self._loss, within))
        times.add("pack", time.perf_counter() - packing)
        tokens, rate = sum(row.tokens for row in rows), self.lr_scheduler.get_last_lr()[0]
        update_s = 0.0  # without what scored a whole generation
        if rows:
            updating = time.perf_counter()
            self._seed_dropout()
            metrics |= self._update.step(rows, self.optimizer, self.args.max_grad_norm)
            update_s = time.perf_counter() - updating
            times.add("update", update_s)
        else:
            self.optimizer.step()  # moves nothing without gradients; the schedule wants to have seen it
        self.lr_scheduler.step()
        self.state.global_step += 1
        self.state.epoch = self.generator.sampler.epoch
        metrics |= {"learning_rate": rate, "epoch": self.state.epoch, "skipped": float(not rows)}
        metrics |= times.finish(time.perf_counter() - started)
        metrics |= throughput(
            tokens,
            update_s,
            spent.generated_tokens,
            spent.generate_s,
            self._flops_per_token,
            self._peak_flops,
        )
        self._report(metrics)

    def _seed_dropout(self) -> None:
        """What a step drops follows from its number and the process, so that it can be made again."""
        seed = derive_seed(self.args.seed, "dropout", self.state.global_step, str(self.processes.index))
        torch.manual_seed(seed)

    def _new_generation(self, number: int, spent: Spent, times: StepTimes) -> Generation:
        times.add("sync", self._sync())
        generation = self.generator.make(number, spent)
        times.add("generate", spent.generate_s)
        times.add("score", spent.score_s)
        scoring = time.perf_counter()
        if self._cycle > 1:
            generation.old_logps = self._update.logps(documents(generation))
        if self._loss.beta > 0:
            with adapter_off(self.model):
                generation.ref_logps = self._update.logps(documents(generation), self.ref_model or self.network)
        times.add("update", time.perf_counter() - scoring)
        self.processes.first(lambda: self._keep(generation))
        return generation

    def _keep(self, made: Generation) -> None:
        write_rollouts(self._out / "rollouts", made.number, made.rollouts, made.rewards, made.advantages)

    def _sync(self) -> float:
        """The engine gets the trainer's weights, if it has others. Returns the seconds it took."""
        started = time.perf_counter()
        if self._synced_step != self.state.global_step:
            self.processes.each(self._load_weights)
            self._synced_step = self.state.global_step
        return time.perf_counter() - started

    def _load_weights(self) -> None:
        weights = whole_weights(self.model)
        try:
            self.generator.maker.engine.load_weights(weights)
        finally:
            deque(weights, maxlen=0)  # shards are put together by all processes, whatever one's engine makes of them

    def _report(self, metrics: dict[str, float]) -> None:
        """Log, and save where it is time to."""
        step = self.state.global_step
        last = step == self.total_steps
        self._told.tell(step, metrics)
        self.control = self.callback_handler.on_step_end(self.args, self.state, self.control)
        if self.control.should_log or last:
            self.log(dict(metrics))
        if self.control.should_save and not last:
            self._checkpoint()

    def _evaluate_held_out(self) -> None:
        """Measure the held-out tasks, unless the log has it. The first process does; the others wait.

        What stops it leaves a checkpoint.
        """
        step = self.state.global_step
        if self.processes.first(lambda: self._told.has_measured(step)):
            return
        try:
            self._sync()
            metrics = self.processes.first(lambda: self._hooks.held_out(step))
            if metrics is None:
                raise Interrupted
        except (Interrupted, EngineError):
            self._checkpoint()
            raise
        self._told.append(step, metrics)
        self.log(dict(metrics))

    def _end(self) -> None:
        """The last checkpoint, the model on its own, and the held-out evaluation."""
        self._checkpoint()
        write_model(self, self._out)
        self._evaluate_held_out()
        self.control = self.callback_handler.on_train_end(self.args, self.state, self.control)

    def _checkpoint(self) -> None:
        """A checkpoint of the last whole step, unless there is one."""
        if save_checkpoint(self):
            self.control = self.callback_handler.on_save(self.args, self.state, self.control)


def _named(name: str) -> Any:
    """A name for TRL's lists; rewards are computed with the rollouts and never asked for again."""

    def reward(**_: Any) -> list[float]:
        raise RuntimeError(f"reward {name} belongs to the rollouts")

    reward.__name__ = name
    return reward

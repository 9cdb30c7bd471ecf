"""Held-out accuracy during training, by the evaluation's own code, and what the run as a whole changed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eval.statistics import Estimate, difference_interval
from reasoning import console
from reasoning.budgets import format_budget
from reasoning.console import duration
from reasoning.engine.base import Engine, Output, Request
from reasoning.evaluation import prepare
from reasoning.files import read_json_lines
from reasoning.preflight import Plan
from reasoning.run_folder import RunFolder, make_folder
from reasoning.sampling import sample
from reasoning.summary import Summary, plot, summarise
from reasoning.train_config import TrainConfig
from reasoning.types import CurvePoint
from verifiers.base import Status
from verifiers.sandbox import Outcome


class _Kept:
    """An engine that outlives the evaluation that uses it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.max_model_len = engine.max_model_len

    def add(self, request: Request) -> None:
        self._engine.add(request)

    def step(self) -> list[Output]:
        return self._engine.step()

    def abort(self, request_id: str) -> None:
        self._engine.abort(request_id)

    @property
    def unfinished(self) -> int:
        return self._engine.unfinished

    @property
    def free_blocks(self) -> int:
        return self._engine.free_blocks

    def state(self) -> Any:
        return self._engine.state()

    def take_steps(self) -> Any:
        return self._engine.take_steps()

    def load_weights(self, weights: Any) -> None:
        self._engine.load_weights(weights)

    def describe(self) -> dict[str, Any]:
        return self._engine.describe()

    def close(self) -> None:
        pass


@dataclass(slots=True)
class HeldOut:
    """Measures what the engine holds on the held-out tasks; each measurement is a run folder below `eval/`."""

    plan: Plan
    folder: RunFolder
    engine: Engine
    _known: dict[int, Summary] = field(default_factory=dict)

    def measure(self, step: int) -> Mapping[str, float] | None:
        """Accuracy and tokens at every budget, as metrics. None: interrupted; what finished is on disk.

        An evaluation that was begun before is continued, one that is complete only read.
        """
        folder = make_folder(self._path(step))
        with folder.lock():
            prepare(self.plan, folder, resume=True, clean=False)
            folder.update_manifest(trained_steps=step)

            def start() -> Engine:
                attempt = {"engine": self.engine.describe()}
                attempts = [*folder.read_manifest()["attempts"], attempt]
                folder.update_manifest(status="running", attempts=attempts)
                return _Kept(self.engine)

            if not sample(self.plan, folder, start, quiet=True):
                return None
            folder.update_manifest(status="complete")
            self._known[step] = summary = summarise(folder)
        for warning in summary.results.warnings:
            console.say(f"warning: held out: {warning}")
        console.say(f"held out at step {step}: " + ", ".join(map(_describe, summary.results.points)))
        return {key: value for point in summary.results.points for key, value in _metrics(point).items()}

    def forget_after(self, step: int) -> None:
        """Delete what was measured after `step`, where the run goes on from: those weights are made anew."""
        for path in (self.folder.path / "eval").glob("step-*"):
            if int(path.name.removeprefix("step-")) > step:
                shutil.rmtree(path)

    def summary(self, step: int) -> Summary:
        """The measurement after `step` steps, of this process or of one before it."""
        return self._known[step] if step in self._known else summarise(RunFolder(self._path(step)))

    def _path(self, step: int) -> Path:
        return self.folder.path / "eval" / f"step-{step:06d}"


def print_outcome(held_out: HeldOut, config: TrainConfig, last_step: int, seconds: float) -> None:
    """Before and after at every budget, the figures, and where everything lies."""
    folder, before, after = held_out.folder, held_out.summary(0), held_out.summary(last_step)
    changes = [paired_change(before.folder, after.folder, point.budget) for point in before.results.points]
    console.say(f"\n{last_step} steps in {duration(seconds)}; held-out accuracy before and after training:")
    for point, end, gain in zip(before.results.points, after.results.points, changes, strict=True):
        ratio = f", {end.accuracy / point.accuracy:.2f}x" if point.accuracy else ""
        trained = "   <- trained at this budget" if point.budget == config.budget else ""
        console.say(
            f"  budget {format_budget(point.budget):>5}: {point.accuracy:6.1%} -> {end.accuracy:6.1%}{ratio}, "
            f"difference {100 * gain.value:+.1f} points [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}] on "
            f"{gain.n_tasks} tasks; tokens {point.tokens_mean:.0f} -> {end.tokens_mean:.0f}{trained}"
        )
    plots = _draw(folder, config, before, after, changes)
    console.say(f"model:    {folder.path / 'model'}")
    console.say(f"plots:    {', '.join(path.name for path in plots if path.suffix == '.png')} in {folder.plots}")
    line = console.command_line("reasoning.report", str(before.folder.path), str(after.folder.path))
    console.say(f"compare:  {line}")


def _draw(
    folder: RunFolder, config: TrainConfig, before: Summary, after: Summary, changes: Sequence[Estimate]
) -> list[Path]:
    """The figures of a run, from metrics.jsonl, the rollouts and the held-out evaluations."""
    from eval.training_plots import Change, behaviour_figure, change_figure, length_figure, reward_figure
    from rl.behaviours import behaviour_shares
    from rl.rollout_log import read_texts

    cap = format_budget(config.budget)
    note = f"{Path(config.model).name} trained on {config.tasks}, thinking capped at {cap} tokens, seed {config.seed}."
    of_rewards = " A curriculum chooses the tasks of the rollouts: their reward is not that of all." * config.curriculum
    records = list(read_json_lines(folder.path / "metrics.jsonl"))
    shares = {number: behaviour_shares(texts) for number, texts in read_texts(folder.path / "rollouts")}
    drawn = [
        Change(format_budget(point.budget), point.accuracy, end.accuracy, gain)
        for point, end, gain in zip(before.results.points, after.results.points, changes, strict=True)
    ]
    plots = folder.plots
    figures = [
        *reward_figure(records, plots / "reward", note=note + of_rewards),
        *length_figure(records, plots / "length", note=note),
        *change_figure(drawn, plots / "before_after", note=note),
        *behaviour_figure(shares, plots / "behaviours", note=note),
    ]
    if len(drawn) > 1:
        both = [(one.folder.path, one.results) for one in (before, after)]
        figures += plot(both, plots / "accuracy", ("before training", "after training"))
    return figures


def paired_change(before: RunFolder, after: RunFolder, budget: int) -> Estimate:
    """What the rate of right samples of a task gained at one budget, every task compared with itself."""
    first, second = _rates(before, budget), _rates(after, budget)
    return difference_interval(np.array([second[task] - first[task] for task in sorted(first.keys() & second.keys())]))


def _rates(folder: RunFolder, budget: int) -> dict[str, float]:
    """Share of right samples, by task, over samples that exist: a program that the sandbox failed on is none."""
    found: dict[str, list[bool]] = {}
    for key, verdict in folder.read_verdicts().items():
        if key.budget == budget and verdict.rule != Outcome.SANDBOX_ERROR:
            found.setdefault(key.task_id, []).append(verdict.status is Status.CORRECT)
    return {task_id: sum(right) / len(right) for task_id, right in found.items()}


def _metrics(point: CurvePoint) -> dict[str, float]:
    label = format_budget(point.budget)
    return {
        f"held_out/accuracy@{label}": point.accuracy,
        f"held_out/low@{label}": point.low,
        f"held_out/high@{label}": point.high,
        f"held_out/tokens@{label}": point.tokens_mean,
    }


def _describe(point: CurvePoint) -> str:
    return (
        f"{point.accuracy:.1%} [{point.low:.1%}, {point.high:.1%}] at budget {format_budget(point.budget)} "
        f"({point.n_tasks} tasks, {point.tokens_mean:.0f} tokens)"
    )

"""The trial before the first step: the same in all processes, and how long it says that a run will take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest

import rl.preflight
from reasoning.engine.base import Request
from reasoning.engine.scripted import ScriptedEngine
from reasoning.train_plan import TrainPlan
from rl.curriculum import TaskSampler
from rl.distributed import ALONE, Processes
from rl.generations import Generator, generation_settings
from rl.losses import Objective
from rl.preflight import try_out
from rl.rewards import load_reward
from rl.rollouts import RolloutMaker
from rl.rows import RolloutDocument
from rl.update import PackedUpdate
from tests.end_to_end import training
from tests.rl.linked import together


@dataclass(slots=True)
class Update:
    """Scores nothing; remembers what it was given."""

    objective: Objective = field(default_factory=Objective)
    batches: list[list[list[int]]] = field(default_factory=list)

    def logps(self, documents: Sequence[RolloutDocument]) -> None:
        self.batches.append([one.ids.tolist() for one in documents])


def trial(
    plan: TrainPlan, update: Update, *, processes: Processes = ALONE, lead: int = 0, windows: int = 1, cycle: int = 1
) -> list[str]:
    """What a trial of three tasks says; its engine's completions begin with `lead` more tokens than a script."""
    script = training.Script(plan)

    def continuation(request: Request) -> tuple[int, ...]:
        return (*[30] * lead, *script(request))

    engine = ScriptedEngine(continuation, plan.max_model_len)
    settings = replace(generation_settings(plan.args, plan.config), windows=windows)
    sampler = TaskSampler(list(plan.settings.tasks), 0, settings.group, curriculum=False)
    rewards = {"accuracy": load_reward("accuracy", {})}
    generator = Generator(RolloutMaker(engine, plan.settings), sampler, rewards, settings, processes=processes)
    tasks = list(plan.settings.tasks.values())[:3]
    return try_out(generator, tasks, 2, cast(PackedUpdate, update), steps=cycle, cycle=cycle).facts


def test_processes_whose_engines_disagree_score_the_same_rollouts(plan: TrainPlan) -> None:
    """They share out the rows of a batch, and each takes for granted what the others pack."""
    updates = [Update(), Update()]
    facts = together(lambda one: trial(plan, updates[one.index], processes=one, lead=one.index))
    assert updates[0].batches == updates[1].batches and len(updates[0].batches[0]) == 6
    assert facts[0][0] == facts[1][0]


@pytest.mark.parametrize(
    ("windows", "cycle", "beta", "passes"),
    [(1, 1, 0.0, 3), (1, 1, 0.1, 4), (2, 2, 0.0, 4), (2, 4, 0.0, 7), (1, 3, 0.1, 11)],
)
def test_a_generation_takes_all_the_passes_that_it_serves(
    plan: TrainPlan, windows: int, cycle: int, beta: float, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three for each use of it, one for the old policy where there are several steps, one for the reference."""
    clock = iter((0.0, 100.0))
    monkeypatch.setattr(rl.preflight, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    facts = trial(plan, Update(Objective(beta=beta)), windows=windows, cycle=cycle)
    said = re.match(r"([\d.]+) to [\d.]+ s a generation of 16 completions", facts[1])
    assert said and float(said[1]) == pytest.approx(100 * passes * 16 / 6, abs=60)  # with what the trial really took

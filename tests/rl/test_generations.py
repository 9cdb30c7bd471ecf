"""One generation: refills, windows, what is left out of the rows and what stays in the denominators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reasoning.engine.scripted import ScriptedEngine
from reasoning.train_plan import TrainPlan
from rl.curriculum import TaskSampler
from rl.generations import Generation, GenerationSettings, Generator, generation_settings
from rl.losses import Objective
from rl.rewards import load_reward
from rl.rollouts import RolloutMaker, Spent
from rl.windows import documents, window
from tests.end_to_end import training
from verifiers import VERIFIERS
from verifiers.base import Status, Verdict


def generator(plan: TrainPlan, rewards: str = "accuracy", **changes: object) -> Generator:
    engine = ScriptedEngine(training.Script(plan), plan.max_model_len)
    settings = replace(generation_settings(plan.args, plan.config), **changes)
    sampler = TaskSampler(list(plan.settings.tasks), 0, settings.group, curriculum=False)
    return Generator(RolloutMaker(engine, plan.settings), sampler, {rewards: load_reward(rewards, {})}, settings)


def with_dead_groups(plan: TrainPlan) -> Generation:
    """The first generation in which some, not all, groups are dead."""
    for number in range(50):
        made = generator(plan).make(number, Spent())
        if 0 < made.metrics["dead_groups"] < 1:
            return made
    raise AssertionError("no such generation")


def settings_of(plan: TrainPlan, **changes: object) -> GenerationSettings:
    return replace(generation_settings(plan.args, plan.config), **changes)


def test_advantages_compare_a_group_with_itself(plan: TrainPlan) -> None:
    made = generator(plan).make(0, Spent())
    assert len(made.rollouts) == 16
    for start in range(0, 16, 4):
        group = np.array(made.advantages[start : start + 4])
        assert len({one.task_id for one in made.rollouts[start : start + 4]}) == 1
        assert group.sum() == pytest.approx(0, abs=1e-9)
    assert made.metrics["accuracy"] == np.mean(made.rewards)


def test_limits_are_not_lengthened_and_it_is_counted_whom_that_cost_its_time(
    plan: TrainPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def starve(answer: str, reference: str, meta: Mapping[str, Any]) -> Verdict:
        return Verdict(Status.WRONG, None, reference, "code", starved=not meta["fair"] and len(answer) % 2 == 0)

    for task in plan.settings.tasks.values():
        monkeypatch.setitem(VERIFIERS, task.verifier, starve)
    made = generator(plan).make(0, Spent())
    starved = [one.verdict.starved for one in made.rollouts]
    assert 0 < made.metrics["verdicts/starved"] == np.mean(starved) < 1


def test_a_group_is_recorded_in_the_memory_of_pass_rates(plan: TrainPlan) -> None:
    one = generator(plan)
    made = one.make(0, Spent())
    for start in range(0, 16, 4):
        assert one.sampler.rates.seen[made.rollouts[start].task_id] == (sum(made.rewards[start : start + 4]), 4)


def test_refills_replace_dead_groups_and_are_bounded(plan: TrainPlan) -> None:
    number = with_dead_groups(plan).number
    once, refilled = (generator(plan, refill_rounds=rounds).make(number, Spent()) for rounds in (0, 2))
    dead = [not np.any(made.advantages[start : start + 4]) for made in (once, refilled) for start in range(0, 16, 4)]
    assert sum(dead[4:]) < sum(dead[:4])
    assert len(refilled.rollouts) == 16 and 1 <= refilled.metrics["refill_rounds"] <= 2
    hopeless = generator(plan, "tests.end_to_end.own_rewards:always_half", refill_rounds=2).make(0, Spent())
    assert len(hopeless.rollouts) == 16 and hopeless.metrics["refill_rounds"] == 2
    assert hopeless.metrics["dead_groups"] == 1


def test_windows_share_out_a_generation_and_weights_count_what_is_left_out(plan: TrainPlan) -> None:
    made = with_dead_groups(plan)
    settings, objective = settings_of(plan, windows=2), Objective()
    found = [window(made, settings, objective, step) for step in range(4)]
    assert [[one.ids.tolist() for one in part] for part in found[:2]] == [
        [one.ids.tolist() for one in part] for part in found[2:]
    ]
    live = sum(advantage != 0 for advantage in made.advantages)
    assert sum(len(part) for part in found[:2]) == live < 16
    order = np.random.default_rng((settings.seed, made.number)).permutation(16)
    for part, members in zip(found[:2], np.array_split(order, 2), strict=True):
        tokens = sum(int(made.rollouts[index].sampled.sum()) for index in members)
        assert all(one.weight == pytest.approx(1 / tokens) for one in part)


def test_truncated_completions_are_masked_when_asked_for(plan: TrainPlan) -> None:
    made = generator(plan).make(0, Spent())
    truncated = [index for index, one in enumerate(made.rollouts) if one.truncated]
    made.advantages = [1.0] * 16
    everything, masked = (
        window(made, settings_of(plan, mask_truncated=mask), Objective(), 0) for mask in (False, True)
    )
    assert len(everything) == 16 and len(masked) == 16 - len(truncated)


def test_a_kl_keeps_completions_without_advantage(plan: TrainPlan) -> None:
    made = generator(plan, "tests.end_to_end.own_rewards:always_half").make(0, Spent())
    assert window(made, settings_of(plan), Objective(), 0) == []
    assert len(window(made, settings_of(plan), Objective(beta=0.1), 0)) == 16


def test_a_generation_survives_its_state(plan: TrainPlan) -> None:
    made = generator(plan).make(3, Spent())
    made.old_logps = [np.full(len(one.ids), -1.5, np.float32) for one in documents(made)]
    again = Generation.of(made.state())
    assert again.number == 3 and again.rewards == made.rewards and again.advantages == made.advantages
    assert again.old_logps is not None and again.ref_logps is None
    for one, other in zip(made.old_logps, again.old_logps, strict=True):
        np.testing.assert_array_equal(one, other)

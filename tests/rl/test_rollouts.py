"""Rollouts through the budget controller: order, seeds, what carries loss, and the engine's log-probabilities."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from reasoning.engine.scripted import ScriptedEngine
from reasoning.train_plan import TrainPlan
from rl.rollouts import Interrupted, Rollout, RolloutMaker, Spent
from tests.end_to_end import training


def make(plan: TrainPlan, generation: int, count: int = 3) -> tuple[list[Rollout], ScriptedEngine]:
    engine = ScriptedEngine(training.Script(plan), plan.max_model_len, max_running=5)
    maker = RolloutMaker(engine, plan.settings)
    return maker.make(list(plan.settings.tasks)[:count], 4, generation, Spent()), engine


def test_groups_stand_side_by_side_in_the_order_asked_for(plan: TrainPlan) -> None:
    rollouts, engine = make(plan, 0)
    expected = [(task_id, number) for task_id in list(plan.settings.tasks)[:3] for number in range(4)]
    assert [(one.task_id, one.generation.key.sample) for one in rollouts] == expected
    traces = [request.id for request in engine.requests if request.id.endswith("trace")]
    assert traces == [f"{task_id}/{number}/trace" for task_id, number in expected]


def test_seeds_follow_from_the_generation_and_differ_inside_a_group(plan: TrainPlan) -> None:
    seeds = [[request.seed for request in make(plan, number)[1].requests] for number in (0, 0, 1)]
    assert sorted(seeds[0]) == sorted(seeds[1])
    assert len(set(seeds[0])) == len(seeds[0])
    assert not set(seeds[0]) & set(seeds[2])


def test_what_the_harness_put_there_carries_no_loss(plan: TrainPlan) -> None:
    rollouts, _ = make(plan, 0)
    forced = next(one for one in rollouts if one.generation.forced)
    [(start, end)] = forced.generation.injected
    assert (~forced.sampled).nonzero()[0].tolist() == list(range(start, end))
    assert forced.generation.thinking_tokens == plan.settings.budget
    free = next(one for one in rollouts if not one.generation.forced)
    assert free.sampled.all()
    longest = max(len(one.generation.completion_ids) for one in rollouts)
    assert longest <= plan.settings.max_completion_length


def test_the_engine_tells_what_it_sampled(plan: TrainPlan) -> None:
    """Every sampled token has the log-probability that its own request gave it there, every injected one has none."""
    script, logp = training.Script(plan), lambda asked, place: -float(asked.seed % 97) - place
    engine = ScriptedEngine(script, plan.max_model_len, max_running=5, logprob=logp)
    rollouts = RolloutMaker(engine, plan.settings).make(list(plan.settings.tasks)[:3], 4, 0, Spent())
    seeds = {request.id: request.seed for request in engine.requests}
    assert 0 < sum(one.generation.forced for one in rollouts) < len(rollouts)
    for one in rollouts:
        made, logps = one.generation, one.engine_logps
        start, end = made.injected[0] if made.forced else (len(logps), len(logps))
        assert logps.dtype == np.float32 and np.isnan(logps[start:end]).all()
        trace_seed = seeds[f"{one.task_id}/{made.key.sample}/trace"]
        for seed, part in ((trace_seed, logps[:start]), (made.seed, logps[end:])):
            assert part.tolist() == [-(seed % 97) - place for place in range(len(part))]


def test_a_rollout_survives_json(plan: TrainPlan) -> None:
    for one in make(plan, 0)[0]:
        again = Rollout.of(json.loads(json.dumps(one.line())))
        assert again.generation == one.generation and again.verdict == one.verdict
        np.testing.assert_array_equal(again.engine_logps, one.engine_logps)


def test_an_interrupt_leaves_nothing_running(plan: TrainPlan, tmp_path: Path) -> None:
    engine = ScriptedEngine(training.Script(plan), plan.max_model_len)
    asked = iter([False] * 3 + [True])
    maker = RolloutMaker(engine, plan.settings, lambda: next(asked))
    with pytest.raises(Interrupted):
        maker.make(list(plan.settings.tasks)[:2], 4, 0, Spent())
    assert engine.unfinished == 0
    engine.load_weights([])  # which an engine with running requests refuses

"""The files of all generations are one table."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from reasoning.engine.scripted import ScriptedEngine
from reasoning.train_plan import TrainPlan
from rl.rollout_log import read_texts, write_rollouts
from rl.rollouts import Rollout, RolloutMaker, Spent
from tests.end_to_end import training


@pytest.fixture
def made(plan: TrainPlan) -> list[Rollout]:
    engine = ScriptedEngine(training.Script(plan), plan.max_model_len)
    return RolloutMaker(engine, plan.settings).make(list(plan.settings.tasks)[:1], 2, 0, Spent())


def test_a_generation_that_earned_nothing_is_read_with_the_others(made: list[Rollout], tmp_path: Path) -> None:
    """No reward and no answer in all of it: columns of nulls, which tell no type."""
    lost = [Rollout(one.generation, replace(one.verdict, extracted=None)) for one in made]
    right = [Rollout(one.generation, replace(one.verdict, extracted="1 + 2")) for one in made]
    write_rollouts(tmp_path, 0, lost, [math.nan] * 2, [0.0] * 2)
    write_rollouts(tmp_path, 1, right, [1.0, 0.0], [0.5, -0.5])
    table = pd.read_parquet(tmp_path)
    assert table["generation"].tolist() == [0, 0, 1, 1]
    assert table["extracted"].tolist()[2:] == ["1 + 2"] * 2 and table["extracted"][:2].isna().all()
    assert table["reward"].tolist()[2:] == [1.0, 0.0] and table["reward"][:2].isna().all()
    assert [tuple(ids) for ids in table["completion_ids"]] == [one.generation.completion_ids for one in made] * 2
    assert list(read_texts(tmp_path)) == [(number, [one.generation.text for one in made]) for number in (0, 1)]


def test_what_was_half_written_is_passed_over(
    made: list[Rollout], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_table: object, path: Path, **_: object) -> None:
        path.write_bytes(b"PAR1 and no more")
        raise KeyboardInterrupt

    write_rollouts(tmp_path, 0, made, [1.0, 0.0], [0.5, -0.5])
    monkeypatch.setattr(pq, "write_table", killed)
    with pytest.raises(KeyboardInterrupt):
        write_rollouts(tmp_path, 1, made, [1.0, 0.0], [0.5, -0.5])
    assert len(os.listdir(tmp_path)) == 2
    assert pd.read_parquet(tmp_path)["generation"].tolist() == [0, 0]
    assert [number for number, _ in read_texts(tmp_path)] == [0]

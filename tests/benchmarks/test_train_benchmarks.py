"""The benchmarks of training: both sides get the same rollouts and compute the same, and nothing measured is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import replicas, train_end_to_end, train_throughput
from benchmarks.train_batches import CPU, END, GPU, Batch, as_rollouts, make_batch
from benchmarks.train_cells import run_cells
from rl.advantages import group_advantages


def test_batches_are_the_same_for_every_side_and_as_described() -> None:
    batch = make_batch(GPU, 832, 3, 0.25)
    assert batch == make_batch(GPU, 832, 3, 0.25) and batch != make_batch(GPU, 832, 2, 0.25)
    lengths = [len(completion) for completion in batch.completions]
    assert len(lengths) == 512 and max(lengths) <= GPU.longest and np.mean(lengths) == pytest.approx(GPU.mean, rel=0.1)
    assert all(completion[-1] == END and END not in completion[:-1] for completion in batch.completions)
    found = group_advantages(np.array(batch.rewards), [str(index // 16) for index in range(512)], 16, "group")
    assert found.dead.mean() == 0.25
    assert all(batch.prompts[index] == batch.prompts[index // 16 * 16] for index in range(512))


def test_real_and_padded_tokens_by_hand() -> None:
    batch = Batch([[8, 9], [8, 9], [8, 9, 10], [8, 9, 10]], [[1], [11, 1], [11, 12, 13, 1], [1]], [0.0, 1.0, 1.0, 0.0])
    assert batch.tokens == 10 + 8 and batch.padded == 4 * (3 + 4)
    rollouts = as_rollouts(batch, 2)
    assert [one.task_id for one in rollouts] == ["task-0", "task-0", "task-1", "task-1"]
    assert all(one.sampled.all() and not one.truncated for one in rollouts)


def test_the_best_flags_are_the_fastest_and_dead_groups_stand_apart() -> None:
    cells = [
        {"model": "m", "side": "ours", "dead": 0.0, "tokens_per_s": 600.0},
        {"model": "m", "side": "ours", "dead": 0.3, "tokens_per_s": 900.0},
        {"model": "m", "side": "trl defaults", "tokens_per_s": 100.0},
        {"model": "m", "side": "trl best flags", "micro_batch": 8, "tokens_per_s": 200.0},
        {"model": "m", "side": "trl best flags", "micro_batch": 16, "tokens_per_s": 300.0},
        {"model": "m", "side": "trl best flags", "micro_batch": 32, "error": "out of memory"},
    ]
    [row] = train_throughput.summarise(cells)
    assert row["tokens_per_s"]["ours, 30% dead groups"] == 900.0
    assert row["ours / trl defaults"] == 6.0 and row["ours / trl best flags"] == 2.0


def test_end_to_end_ratios_by_hand() -> None:
    cells = [
        {"side": "ours", "completions_per_s": 40.0, "tokens_per_s": 900.0},
        {"side": "trl defaults", "completions_per_s": 10.0, "tokens_per_s": 300.0},
        {"side": "trl best flags", "error": "longer than 1 s"},
    ]
    assert train_end_to_end.summarise(cells) == {
        "ours / trl defaults, completions_per_s": 4.0,
        "ours / trl defaults, tokens_per_s": 3.0,
    }


def test_a_side_that_hangs_or_fails_leaves_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    report = 'print(\'CELL {"side": "ours", "seconds": 1.5}\')\n'
    (tmp_path / "hangs.py").write_text(report + "import time\ntime.sleep(60)\n")
    (tmp_path / "fails.py").write_text(report + "raise SystemExit(3)\n")
    for module, why in (("hangs", "longer than 1 s"), ("fails", "exit code 3")):
        found = run_cells(module, [module], 1.0, str)
        assert found == [{"side": "ours", "seconds": 1.5}, {"side": module, "error": why}]


def test_both_sides_compute_the_same_step(tmp_path: Path) -> None:
    from benchmarks.train_batches import model_folder
    from benchmarks.train_sides import _packed, _trl

    source = model_folder("pocket", tmp_path)
    packed = _packed(source, 1024, compiled=False, dead=0.0)
    padded = _trl(source, tmp_path, 8, {})
    assert padded["padded_per_real"] > 1.5 and CPU.steps + 1 == len(padded["each_s"]) == len(packed["each_s"])
    assert padded["first_loss"] == pytest.approx(packed["first_loss"], rel=1e-4)
    assert padded["first_grad_norm"] == pytest.approx(packed["first_grad_norm"], rel=1e-4)


def test_replicas_are_measured_against_one_engine() -> None:
    def cell(count: int, rate: float, ids: str) -> dict[str, object]:
        return {"replicas": count, "tokens_per_s": rate, "each": [{"ids": ids}, {"ids": ids}]}

    cells = [cell(1, 200.0, "a"), cell(2, 300.0, "a"), cell(4, 100.0, "b"), {"error": "it took more than 240 s"}]
    found = [(row["replicas"], row["times_one"], row["same_ids"]) for row in replicas.summarise(cells)]
    assert found == [(1, 1.0, True), (2, 1.5, True), (4, 0.5, False)]
    assert replicas.summarise(cells[1:2])[0]["times_one"] is None

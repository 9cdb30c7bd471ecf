"""What ends a step early: the batch behind a loss that is no number, and memory that is used up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from reasoning.files import read_json
from rl.faults import is_out_of_memory, save_bad_batch
from rl.generations import Generation


def test_numbers_that_json_does_not_have_are_null_and_words_stay(tmp_path: Path) -> None:
    scores = [np.array([-np.inf, np.nan, 0.5], np.float32)]
    bad = Generation(3, [], [np.nan, 1.0], [np.inf, 0.0], {}, old_logps=scores)
    told = save_bad_batch(tmp_path, 7, bad)
    stored = read_json(tmp_path / "bad-batch-step-000007.json")
    assert stored["rewards"] == [None, 1.0] and stored["advantages"] == [None, 0.0]
    assert stored["old_logps"] == [[None, None, 0.5]] and stored["ref_logps"] is None
    assert "bad-batch-step-000007.json" in told


def test_a_full_disk_does_not_hide_why_the_run_stops(tmp_path: Path) -> None:
    told = save_bad_batch(tmp_path / "gone", 7, Generation(3, [], [], [], {}))
    assert "the batch could not be written (" in told and "Lower grpo.learning_rate" in told


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
    ],
)
def test_memory_that_is_used_up_is_known_by_whoever_asked_for_it(error: Exception, is_memory: bool) -> None:
    assert is_out_of_memory(error) is is_memory

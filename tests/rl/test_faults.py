"""The batch behind a loss that is no number is kept whatever it holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reasoning.files import read_json
from rl.faults import save_bad_batch
from rl.generations import Generation


def test_numbers_that_json_does_not_have_are_null_and_words_stay(tmp_path: Path) -> None:
    scores = [np.array([-np.inf, np.nan, 0.5], np.float32)]
    bad = Generation(3, [], [np.nan, 1.0], [np.inf, 0.0], {}, old_logps=scores)
    told = save_bad_batch(tmp_path, 7, bad)
    stored = read_json(tmp_path / "bad-batch-step-000007.json")
    assert stored["rewards"] == [None, 1.0] and stored["advantages"] == [None, 0.0]
    assert stored["old_logps"] == [[None, None, 0.5]] and stored["ref_logps"] is None
    assert "bad-batch-step-000007.json" in told

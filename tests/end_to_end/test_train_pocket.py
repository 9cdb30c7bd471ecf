"""The command itself, on the bundled model and its real engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reasoning.files import read_json_lines

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_steps_of_the_default_run(tmp_path: Path) -> None:
    """After the first step the engine has new weights: it and the trainer still agree on every token."""
    options = ["--grpo.max_steps", "2", "--grpo.per_device_train_batch_size", "32", "--held_out.limit", "8"]
    command = [sys.executable, "-m", "reasoning.train", "configs/grpo.yaml", "--out", str(tmp_path / "run"), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "held-out accuracy before and after training" in done.stdout
    steps = [line for line in read_json_lines(tmp_path / "run" / "metrics.jsonl") if "loss" in line]
    assert len(steps) == 2
    for line in steps:
        assert line["sampling/unscored_tokens"] == 0
        assert line["sampling/sampling_logp_difference/mean"] < 1e-5
        assert line["sampling/ratio_p1"] > 0.999 and line["sampling/ratio_p99"] < 1.001

"""The command itself, on the bundled model and its real engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reasoning.files import read_json_lines

ROOT = Path(__file__).parents[2]
TOGETHER = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port", "0"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("launcher", "batch", "options"),
    [
        ([], 32, []),
        ([], 32, ["--grpo.use_peft", "true", "--grpo.lora_target_modules", "all-linear", "--grpo.lora_dropout", "0"]),
        (TOGETHER, 16, []),
    ],
    ids=["alone", "adapter", "two processes"],
)
def test_two_steps_of_the_default_run(launcher: list[str], batch: int, options: list[str], tmp_path: Path) -> None:
    """After the first step the engine has new weights: it and the trainer still agree on every token."""
    few = ["--grpo.max_steps", "2", "--grpo.per_device_train_batch_size", str(batch), "--held_out.limit", "8"]
    # A warm-up would leave the first step without effect.
    few += ["--grpo.warmup_steps", "0", "--engine.kv_cache_gb", "0.5", "--out", str(tmp_path / "run")]
    command = [sys.executable, *launcher, "-m", "reasoning.train", "configs/grpo.yaml", *few, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "held-out accuracy before and after training" in done.stdout
    steps = [line for line in read_json_lines(tmp_path / "run" / "metrics.jsonl") if "loss" in line]
    assert len(steps) == 2
    for line in steps:
        assert line["sampling/unscored_tokens"] == 0
        assert line["sampling/sampling_logp_difference/mean"] < 1e-5
        assert line["sampling/ratio_p1"] > 0.999 and line["sampling/ratio_p99"] < 1.001

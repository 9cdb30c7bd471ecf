"""The pipeline behind the bundled model, a few steps of it on the CPU."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from rl.coldstart import AdamW, ColdStartConfig, Optimizer, Rows, rate_at

ROOT = Path(__file__).parents[2]
OPTIMIZER = Optimizer(learning_rate=0.01, warmup_steps=4, final_share=0.1, weight_decay=0.0, clip=1.0)


def small(out: Path, **changes: object) -> dict[str, object]:
    """The committed recipe with small sizes."""
    settings = yaml.safe_load((ROOT / "configs/coldstart.yaml").read_text())
    settings |= {"out": str(out), "row_tokens": 512, "row_documents": 64, "workers": 0, "log_every": 5}
    settings["model"] |= {"hidden": 32, "layers": 1, "heads": 2, "kv_heads": 1, "head_width": 16, "mlp": 64}
    settings["optimizer"] |= {"warmup_steps": 5, "learning_rate": 0.01}
    settings["phases"] = [{"steps": 20, "longest": 128}, {"steps": 5, "longest": 256, "open_target": 0.5}]
    return settings | changes


def run(config: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rl.coldstart", str(config)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)


def test_a_few_steps_make_an_ordinary_checkpoint(tmp_path: Path) -> None:
    config = tmp_path / "small.yaml"
    config.write_text(yaml.safe_dump(small(tmp_path / "model")))
    done = run(config)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "model/metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 25 and lines[-1]["tokens"] == 25 * 512
    assert lines[-1]["loss"] < lines[0]["loss"] - 1
    training = json.loads((tmp_path / "model/training.json").read_text())
    assert training["tokens"] == 25 * 512 and training["device"]

    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert model.dtype == torch.bfloat16 and model.config.reasoning_harness["prompt"] == "compact"
    assert tokenizer.eos_token_id == model.generation_config.eos_token_id == model.config.eos_token_id


def test_rows_depend_on_seed_and_step_alone(tmp_path: Path) -> None:
    config = ColdStartConfig.model_validate(small(tmp_path))
    first, again = Rows(config)[3], Rows(config)[3]
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["ids"], Rows(config)[4]["ids"])
    other = ColdStartConfig.model_validate(small(tmp_path, seed=1))
    assert not torch.equal(first["ids"], Rows(other)[3]["ids"])


def test_phases_follow_each_other(tmp_path: Path) -> None:
    config = ColdStartConfig.model_validate(small(tmp_path))
    assert config.steps == 25
    assert [config.phase_at(step).longest for step in (0, 19, 20, 24)] == [128, 128, 256, 256]
    lengths = np.diff(Rows(config)[22]["cu_seqlens"].numpy())
    assert lengths.max() <= 256


def test_the_rate_by_hand() -> None:
    rates = [rate_at(step, 14, OPTIMIZER) for step in (0, 3, 4, 9, 14)]
    assert rates == pytest.approx([0.25, 1.0, 1.0, 0.55, 0.1])


def test_masters_keep_what_half_precision_would_lose() -> None:
    layer = torch.nn.Linear(1, 1, bias=False).to(torch.bfloat16)
    torch.nn.init.constant_(layer.weight, 1.0)
    settings = OPTIMIZER.model_copy(update={"learning_rate": 1e-3, "warmup_steps": 1, "final_share": 1.0})
    optimizer = AdamW(layer, settings, total_steps=10)
    for _ in range(4):  # each update of 0.001 is below the spacing of bfloat16 under 1.0, 0.0039
        layer.weight.grad = torch.ones_like(layer.weight)
        optimizer.step()
    assert optimizer.masters.tensors[0].item() == pytest.approx(0.996, abs=1e-5)
    assert layer.weight.item() == pytest.approx(0.99609375, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row_token": 512}, "row_token"),
        ({"row_tokens": "many"}, "row_tokens"),
    ],
)
def test_bad_settings_are_named(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    config = tmp_path / "bad.yaml"
    config.write_text(yaml.safe_dump(small(tmp_path) | changes))
    done = run(config)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr

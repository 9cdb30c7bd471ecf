"""Training an adapter: it learns, the engine has what the trainer has, and it goes on from a checkpoint to the bit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import reasoning.summary
from reasoning.engine.base import Engine
from reasoning.files import read_json_lines
from reasoning.model_files import read_model
from reasoning.train_plan import TrainPlan
from rl.metrics import MetricsLog
from rl.vocabulary import NUMBER_0
from tests.end_to_end import training

TARGETS = ("self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj")
GRPO = {"use_peft": True, "lora_r": 8, "lora_target_modules": ["q_proj", "v_proj", "up_proj"], "beta": 0.01}
GRPO |= {"learning_rate": 2e-2, "per_device_train_batch_size": 32, "num_generations": 8, "save_steps": 4}
REWARD = {"tests.end_to_end.own_rewards:first_token": {}}


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of each held-out evaluation take longer than all the rest of a run, and have their own tests."""
    monkeypatch.setattr(reasoning.summary, "show_run", lambda *_: [])


def start(plan: TrainPlan, _log: Path) -> Engine:
    return training.SamplingEngine(plan)


def config(tmp_path: Path, **grpo: Any) -> Path:
    model = training.save_model(tmp_path / "start")
    weights = load_file(model / "model.safetensors")
    # The head stays as it is: what is rewarded has to be a direction of its own in it.
    weights["model.embed_tokens.weight"][NUMBER_0 : NUMBER_0 + 200, 0] += 0.8
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    return training.config(
        model, tmp_path, rewards=REWARD, budget=6, max_answer_tokens=2, held_out={"limit": 2}, grpo=GRPO | grpo
    )


def steps(run: Path) -> list[dict[str, Any]]:
    return [line for line in read_json_lines(run / "metrics.jsonl") if "loss" in line]


def test_an_adapter_learns_and_everything_else_stays(tmp_path: Path) -> None:
    run = tmp_path / "run"
    file = config(tmp_path, max_steps=10, lora_dropout=0.0, lr_scheduler_type="constant", lora_alpha=64)
    assert training.main(file, out=run, start=start) == 0
    lines = steps(run)
    assert lines[-1]["reward"] > 0.6 > 0.3 > lines[0]["reward"]
    assert lines[0]["kl"] == pytest.approx(0, abs=1e-6) and lines[-1]["kl"] > 1e-3  # the reference is the base
    assert max(line["sampling/sampling_logp_difference/mean"] for line in lines) < 1e-4
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("start", "run/model"))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert before.keys() == after.keys()
    assert changed == {f"model.layers.{n}.{name}.weight" for n in (0, 1) for name in TARGETS}
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "start", dtype=torch.float32)
    adapted = PeftModel.from_pretrained(base, str(run / "adapter")).merge_and_unload()
    for name, weight in adapted.named_parameters():
        torch.testing.assert_close(weight.detach(), after[name], rtol=1e-5, atol=1e-7)
    assert read_model(str(run / "model")).harness["prompt"] == "compact"


def test_a_killed_run_with_dropout_ends_in_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = config(tmp_path, max_steps=6, lora_dropout=0.2, num_iterations=2, save_steps=2)
    assert training.main(file, out=tmp_path / "whole", start=start) == 0
    assert (tmp_path / "whole/checkpoints/step-000006/adapter_model.safetensors").exists()
    append = MetricsLog.append

    class Killed(BaseException):
        pass

    def kill(log: MetricsLog, at: int, metrics: Mapping[str, Any]) -> None:
        append(log, at, metrics)
        if at == 3:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(MetricsLog, "append", kill)
        with pytest.raises(Killed):
            training.main(file, out=tmp_path / "run", start=start)
    assert training.main(file, out=tmp_path / "run", start=start, resume=True) == 0
    training.assert_same(tmp_path / "run", tmp_path / "whole")
    assert max(line["sampling/sampling_logp_difference/mean"] for line in steps(tmp_path / "run")) < 1e-4

"""Adapters: what is trained, what the engine gets, and the keys that ask for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import Qwen3ForCausalLM

from reasoning.config import ConfigError
from rl.arguments import typed_settings
from rl.coldstart import ModelShape, build_model
from rl.lora import KEYS, adapt, adapter_off, drop_reference, load_trained, lora_config, network, whole_weights
from rl.losses import Objective
from rl.masters import Masters
from rl.rows import RolloutDocument
from rl.scorer import Scorer, dropouts
from rl.update import PackedUpdate

SHAPE = ModelShape(hidden=32, layers=2, heads=4, kv_heads=2, head_width=8, mlp=64, context=512, rope_theta=1e4)
KINDS = [{}, {"use_rslora": True, "lora_alpha": 64}, {"use_dora": True}]


def plain() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return build_model(SHAPE).eval()


def config(**settings: Any) -> LoraConfig:
    given = {"use_peft": True, "lora_r": 4, "lora_target_modules": ["q_proj", "down_proj"], "lora_dropout": 0.0}
    found = lora_config(typed_settings(given | settings))
    assert found is not None
    return found


def trained(**settings: Any) -> Any:
    """An adapted model whose adapter is no longer zero."""
    model = adapt(plain(), config(**settings))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.add_(0.05 * torch.randn_like(weight))
    return model.eval()


def logits(model: Any) -> torch.Tensor:
    ids = torch.arange(20, 40)
    packed = {"cu_seqlens": torch.tensor([0, 20], dtype=torch.int32), "longest": 20, "use_cache": False}
    with torch.no_grad():
        mask = {"full_attention": None}
        return model(input_ids=ids[None], position_ids=torch.arange(20)[None], attention_mask=mask, **packed).logits


@pytest.mark.parametrize("kind", KINDS, ids=["lora", "rslora", "dora"])
def test_whole_weights_are_those_of_a_plain_model_that_computes_the_same(kind: dict[str, Any]) -> None:
    model = trained(**kind)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    weights = {name: weight.clone() for name, weight in whole_weights(model)}
    assert weights.keys() == dict(plain().named_parameters()).keys()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    merged = plain()
    merged.load_state_dict(weights, strict=False)
    torch.testing.assert_close(logits(merged), logits(network(model)), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(logits(merged), logits(plain()), rtol=1e-2, atol=1e-3)


def test_the_reference_is_the_base() -> None:
    model = trained()
    with adapter_off(model):
        torch.testing.assert_close(logits(network(model)), logits(plain()), rtol=0, atol=0)
    assert not torch.equal(logits(network(model)), logits(plain()))
    model.add_adapter("ref", model.peft_config["default"])  # as TRL does
    drop_reference(model)
    trained_names = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert len(trained_names) == 2 * 2 * 2 and all(".default." in name for name in trained_names)
    assert not any(".ref." in name for name, _ in model.named_parameters())


def test_an_adapter_comes_back_from_its_files(tmp_path: Any) -> None:
    model = trained(use_dora=True)
    model.save_pretrained(tmp_path)
    assert not (tmp_path / "model.safetensors").exists()
    other = adapt(plain(), config(use_dora=True))
    load_trained(other, tmp_path)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)


def test_what_is_dropped_follows_from_the_seed_and_nothing_is_while_scoring() -> None:
    model = trained(lora_dropout=0.3).train()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    scorer = Scorer(network(model), 1.0, 64)
    update = PackedUpdate(scorer, Objective(), Masters(weights), row_tokens=64, threads=1, compiled=False)
    learned = np.arange(30) >= 3
    documents = [RolloutDocument(np.arange(20, 50), learned, 1.0, 0.1)]
    rows = update.pack(documents)

    def gradient(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.cat([one.flatten() for one in update._accumulate(rows).gradients])

    assert torch.equal(gradient(1), gradient(1)) and not torch.equal(gradient(1), gradient(2))
    assert len(gradient(1)) == sum(weight.numel() for weight in weights)
    first, second = update.logps(documents)[0], update.logps(documents)[0]
    np.testing.assert_array_equal(first, second)
    assert all(module.training for module in model.modules() if isinstance(module, torch.nn.Dropout))


def test_the_keys_are_those_of_trl() -> None:
    found = lora_config(typed_settings({"use_peft": True}))
    assert found is not None
    assert (found.r, found.lora_alpha, found.lora_dropout, found.target_modules) == (16, 32, 0.05, None)
    assert set(KEYS) >= {"use_peft", "lora_r"} and lora_config({}) is None and lora_config({"use_peft": False}) is None
    assert dropouts(adapt(plain(), found)) and not dropouts(plain())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"use_peft": False, "lora_r": 8}, r"grpo\.lora_r has no effect without grpo\.use_peft"),
        ({"lora_r": 0}, "lora_r is 0"),
        ({"lora_dropout": 1.0}, r"lora_dropout 1\.0"),
        ({"lora_r": "many"}, r"grpo\.lora_r: 'many' is not a whole number"),
        ({"lora_target_modules": ["nothing"]}, r"grpo\.lora_target_modules: .*nothing"),
        ({"lora_target_modules": ["q_proj", "embed_tokens"]}, "names the embedding of the model"),
    ],
)
def test_adapters_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        adapt(plain(), config(**settings))


def test_without_peft_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.lora.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="peft is not installed; pip install peft"):
        config()

"""Shapes of published models: their parameter counts, what they cache, and configs that cannot be read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from reasoning.config import ConfigError
from reasoning.layers import MixerKind
from reasoning.model_files import POCKET
from reasoning.model_shape import kv_bytes, kv_bytes_per_token, kv_layers, load_shape, weight_bytes


def config(
    model_type: str, hidden: int, layers: int, heads: int, kv: int, mlp: int, vocabulary: int, **more: Any
) -> dict:
    return {
        "model_type": model_type,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": mlp,
        "vocab_size": vocabulary,
        "max_position_embeddings": 40960,
        "torch_dtype": "bfloat16",
        **more,
    }


QWEN3_8B = config("qwen3", 4096, 36, 32, 8, 12288, 151936, head_dim=128)
LLAMA_8B = config("llama", 4096, 32, 32, 8, 14336, 128256)
MISTRAL_7B = config("mistral", 4096, 32, 32, 8, 14336, 32000, sliding_window=4096)
GPT_OSS = config(
    *("gpt_oss", 2880, 24, 64, 8, 2880, 201088),
    head_dim=64,
    num_local_experts=32,
    num_experts_per_tok=4,
    sliding_window=128,
    layer_types=["sliding_attention", "full_attention"] * 12,
    quantization_config={"quant_method": "mxfp4"},
)
DEEPSEEK_V3 = config(
    *("deepseek_v3", 7168, 61, 128, 128, 18432, 129280),
    kv_lora_rank=512,
    q_lora_rank=1536,
    qk_rope_head_dim=64,
    qk_nope_head_dim=128,
    v_head_dim=128,
    n_routed_experts=256,
    n_shared_experts=1,
    num_experts_per_tok=8,
    moe_intermediate_size=2048,
    first_k_dense_replace=3,
)
QWEN3_30B = config(
    *("qwen3_moe", 2048, 48, 32, 4, 6144, 151936),
    head_dim=128,
    num_experts=128,
    num_experts_per_tok=8,
    moe_intermediate_size=768,
)
QWEN3_NEXT = config(
    *("qwen3_next", 2048, 48, 16, 2, 5120, 151936),
    head_dim=256,
    num_experts=512,
    num_experts_per_tok=10,
    moe_intermediate_size=512,
    shared_expert_intermediate_size=512,
    linear_num_value_heads=32,
    linear_num_key_heads=16,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_conv_kernel_dim=4,
)
GEMMA3_4B = {
    "model_type": "gemma3",
    "torch_dtype": "bfloat16",
    "text_config": {  # as published: the rest is what the configuration class fills in
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
}

PUBLISHED = [
    (QWEN3_8B, 8.19e9, 8.19e9),
    (LLAMA_8B, 8.03e9, 8.03e9),
    (config("qwen2", 1536, 28, 12, 2, 8960, 151936, tie_word_embeddings=True), 1.54e9, 1.54e9),
    (config("llama", 576, 30, 9, 3, 1536, 49152, tie_word_embeddings=True), 134.5e6, 134.5e6),
    (MISTRAL_7B, 7.24e9, 7.24e9),
    (GEMMA3_4B, 3.88e9, 3.88e9),
    (DEEPSEEK_V3, 671e9, 37.55e9),
    (QWEN3_30B, 30.5e9, 3.35e9),
    (QWEN3_NEXT, 79.7e9, 3.87e9),
    (GPT_OSS, 20.9e9, 4.19e9),
]


@pytest.mark.parametrize(("published", "total", "active"), PUBLISHED, ids=lambda value: str(value)[16:26])
def test_parameters_are_the_published_ones(published, total, active):
    shape = load_shape(published)
    assert (shape.parameters, shape.active_parameters) == (
        pytest.approx(total, rel=5e-3),
        pytest.approx(active, rel=5e-3),
    )


def test_counts_to_the_last_weight():
    """Sums of the tensor sizes in the published checkpoints' indices, or counted by hand."""
    assert load_shape(QWEN3_8B).parameters == 8_190_735_360
    assert load_shape(LLAMA_8B).parameters == 8_030_261_248
    assert load_shape(MISTRAL_7B).parameters == 7_241_732_096
    assert load_shape(DEEPSEEK_V3).parameters == 671_026_419_200
    # gpt-oss's card says 3.6 B active, and leaves out the embedding, of which a token reads a row
    gpt = load_shape(GPT_OSS)
    assert gpt.active_parameters - gpt.embedding_parameters == pytest.approx(3.61e9, rel=2e-3)


def test_the_bundled_model_is_exact():
    with (POCKET / "model.safetensors").open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    stored = sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
    shape = load_shape("pocket")
    assert shape.parameters == shape.active_parameters == stored
    assert shape == load_shape(POCKET) == load_shape(POCKET / "config.json")
    assert weight_bytes(shape, shape.dtype_bytes) == 2 * stored
    assert kv_bytes_per_token(shape, 2) == 2 * 5 * 2 * 64 * 2  # keys and values x layers x KV heads x size x bytes


def test_grouped_queries_cache_kv_heads_alone():
    """144 KiB and 128 KiB a token; by query heads it would be four times as much."""
    assert kv_bytes_per_token(load_shape(QWEN3_8B), 2) == 144 * 1024
    assert kv_bytes_per_token(load_shape(LLAMA_8B), 2) == 128 * 1024
    assert kv_bytes_per_token(load_shape(LLAMA_8B), 1) == 64 * 1024


def test_a_latent_is_cached_once_for_all_heads():
    (group,) = kv_layers(load_shape(DEEPSEEK_V3), 2)
    assert (group.kind, group.layers, group.bytes_per_token) == (MixerKind.LATENT, 61, 61 * (512 + 64) * 2)


def test_windows_stop_growing():
    shape = load_shape(GPT_OSS)
    full, sliding = kv_layers(shape, 2)
    assert (full.layers, sliding.layers, sliding.window) == (12, 12, 128)
    assert kv_bytes(shape, 128, 2) == 128 * (full.bytes_per_token + sliding.bytes_per_token)
    assert kv_bytes(shape, 50_000, 2) == 50_000 * full.bytes_per_token + 128 * sliding.bytes_per_token
    assert shape.quantization == "mxfp4"


def test_gemma_3_has_five_sliding_layers_before_each_full_one():
    shape = load_shape(GEMMA3_4B)
    kinds = [layer.mixer.kind for layer in shape.layers]
    assert kinds[:6] == [MixerKind.SLIDING] * 5 + [MixerKind.FULL]
    assert (kinds.count(MixerKind.FULL), shape.layers[0].mixer.window, shape.tied_embeddings) == (5, 1024, True)


def test_states_have_a_fixed_size():
    shape = load_shape(QWEN3_NEXT)
    full, state = kv_layers(shape, 2)
    assert (full.layers, state.layers, state.bytes_per_token) == (12, 36, 0)
    numbers = 32 * 128 * 128 + (2 * 16 * 128 + 32 * 128) * 3
    assert kv_bytes(shape, 1, 2) - full.bytes_per_token == 36 * numbers * 2


def test_qwen_windows_count_only_where_they_are_used():
    windows = {"sliding_window": 4096, "max_window_layers": 3}
    off = load_shape(config("qwen2", 64, 4, 4, 2, 128, 100, use_sliding_window=False, **windows))
    on = load_shape(config("qwen2", 64, 4, 4, 2, 128, 100, use_sliding_window=True, **windows))
    assert [layer.mixer.window for layer in off.layers] == [0, 0, 0, 0]
    assert [layer.mixer.window for layer in on.layers] == [0, 0, 0, 4096]
    assert load_shape({**MISTRAL_7B, "sliding_window": None}).layers[0].mixer.kind is MixerKind.FULL


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "lama"}, r"model_type 'lama', whose shape is not known; did you mean llama\?"),
        ({"model_type": None}, "has no model_type: the shape of the model cannot be known; known are deepseek_v2"),
        ({"hidden_size": None}, "has no hidden_size, which the shape of a llama model needs"),
        ({"num_hidden_layers": "32"}, r"num_hidden_layers = '32', where a whole number above 0"),
        ({"torch_dtype": "int3"}, "the dtype 'int3'; known are"),
    ],
)
def test_what_cannot_be_read_is_named(changes, said):
    with pytest.raises(ConfigError, match=said):
        load_shape(LLAMA_8B | changes)


def test_other_files_are_refused(tmp_path: Path):
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(ConfigError, match="does not hold a JSON object"):
        load_shape(tmp_path / "config.json")
    with pytest.raises(ConfigError, match="no model folder at"):
        load_shape("no such model")


@pytest.mark.slow
@pytest.mark.parametrize("published", [c for c, _, _ in PUBLISHED], ids=lambda value: value["model_type"])
def test_transformers_makes_as_many_weights(published):
    """Of the same family with fewer layers and experts, on the meta device."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    fewer = {**published.get("text_config", published), "num_hidden_layers": 6}
    fewer |= {name: 16 for name in ("num_experts", "n_routed_experts") if name in fewer}
    fewer.pop("layer_types", None)
    given = {name: value for name, value in fewer.items() if name not in ("model_type", "quantization_config")}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(fewer["model_type"], **given))
    corrections = sum(buffer.numel() for name, buffer in model.named_buffers() if "correction_bias" in name)
    shape = load_shape(fewer)
    assert shape.parameters == sum(weight.numel() for weight in model.parameters()) + corrections
    assert load_shape(model.config.to_dict()).layers == shape.layers

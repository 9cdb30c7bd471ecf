"""Documents packed into a row compute exactly what each computes alone."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
)

from reasoning.config import ConfigError
from rl.attention import of_row
from rl.coldstart import ModelShape, build_model
from rl.start import check_model

SHAPE = ModelShape(hidden=32, layers=2, heads=4, kv_heads=2, head_width=8, mlp=64, context=512, rope_theta=1e4)


def logits(model: torch.nn.Module, ids: Tensor, lengths: list[int]) -> Tensor:
    """Logits [tokens, vocabulary] of documents of the given lengths laid end to end."""
    cu_seqlens = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    positions = torch.cat([torch.arange(length) for length in lengths])
    with torch.no_grad():
        return model(**of_row(ids, positions, cu_seqlens, max(lengths))).logits[0]


def test_packed_equals_one_by_one() -> None:
    torch.manual_seed(0)
    model = build_model(SHAPE).eval()
    lengths = [7, 1, 12, 5]
    ids = torch.randint(0, 800, (sum(lengths),))
    together = logits(model, ids, lengths)
    alone = torch.cat([logits(model, part, [len(part)]) for part in ids.split(lengths)])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_another_document_changes_nothing() -> None:
    torch.manual_seed(0)
    model = build_model(SHAPE).eval()
    ids = torch.randint(0, 800, (20,))
    other = ids.clone()
    other[:12] = torch.randint(0, 800, (12,))
    first, second = logits(model, ids, [12, 8]), logits(model, other, [12, 8])
    assert not torch.equal(first[:12], second[:12])
    torch.testing.assert_close(first[12:], second[12:], rtol=0, atol=0)


SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
SIZES |= {"vocab_size": 64, "intermediate_size": 64, "head_dim": 8}


def other(kind: type[PreTrainedConfig], **changes: Any) -> Any:
    """A model of another family with random weights, attention packed."""
    config = kind(**SIZES | {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1} | changes)
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, attn_implementation="packed").eval()


@pytest.mark.parametrize(
    ("kind", "changes"),
    [(LlamaConfig, {}), (Qwen2Config, {}), (MistralConfig, {"sliding_window": 64}), (MistralConfig, {})],
)
def test_other_families_compute_packed_what_they_compute_alone(
    kind: type[PreTrainedConfig], changes: dict[str, Any]
) -> None:
    model = other(kind, **changes)
    check_model(model, 20)
    ids = torch.randint(2, 64, (20,))
    together = logits(model, ids, [12, 8])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        alone = torch.cat([model(input_ids=part[None]).logits[0] for part in ids.split([12, 8])])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (MistralConfig, {"sliding_window": 19}, "the last 19 tokens alone, and a completion may have 20"),
        (Qwen2Config, {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}, "last 8 tokens alone"),
        (GraniteConfig, {"logits_scaling": 3.0}, "logits of GraniteForCausalLM are not the product"),
        (Gemma2Config, {"attn_logit_softcapping": 50.0, "sliding_window": 64}, "not built here .softcap."),
    ],
)
def test_models_that_would_be_trained_wrongly_are_refused(
    kind: type[PreTrainedConfig], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_model(other(kind, **changes), 20)

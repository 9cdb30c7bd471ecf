"""The memory plan: near what was measured, and clear where it does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reasoning.config import ConfigError
from reasoning.model_files import POCKET
from rl.memory import GIB, Shape, default_row_tokens, plan_memory, update_bytes

QWEN_1_5B = Shape(1_540_000_000, layers=28, hidden=1536, mlp=8960, vocabulary=151_936, number_bytes=2)


@pytest.mark.parametrize(("checkpointing", "measured"), [(False, 56), (True, 11)])
def test_near_what_one_h200_showed(checkpointing: bool, measured: float) -> None:
    """The measurement had weights and gradients in bfloat16 and no optimizer: 16 bytes a parameter less."""
    estimate = update_bytes(QWEN_1_5B, 16384, 1, checkpointing=checkpointing, reference=False)
    without_states = (estimate - 16 * QWEN_1_5B.parameters) / GIB
    assert without_states == pytest.approx(measured, rel=0.25)


def test_activations_are_kept_where_there_is_room() -> None:
    assert not plan_memory(QWEN_1_5B, 16384, 1, 141 * GIB, asked=None, reference=False).checkpointing
    assert plan_memory(QWEN_1_5B, 16384, 1, 60 * GIB, asked=None, reference=False).checkpointing
    assert plan_memory(QWEN_1_5B, 16384, 1, 141 * GIB, asked=True, reference=False).checkpointing


def test_what_cannot_fit_is_refused_with_numbers() -> None:
    with pytest.raises(
        ConfigError, match=r"row_tokens: [\d,]+ or less \(now 65,536\).*leave grpo.gradient_checkpointing"
    ):
        plan_memory(QWEN_1_5B, 65536, 1, 100 * GIB, asked=False, reference=False)
    with pytest.raises(ConfigError, match=r"alone take 2\d\.\d GiB: choose a smaller model"):
        plan_memory(QWEN_1_5B, 1024, 1, 8 * GIB, asked=None, reference=False)


def test_a_refused_plan_names_rows_that_would_fit() -> None:
    with pytest.raises(ConfigError) as raised:
        plan_memory(QWEN_1_5B, 200_000, 1, 60 * GIB, asked=None, reference=False)
    named = int(str(raised.value).split("update.row_tokens: ")[1].split(" or less")[0].replace(",", ""))
    assert plan_memory(QWEN_1_5B, named, 1, 60 * GIB, asked=None, reference=False).needed <= 60 * GIB


def test_small_models_get_long_rows(tmp_path: Path) -> None:
    """The bundled model keeps 5 x (15 x 256 + 4 x 1,024) x 2 = 79,360 bytes a token; 65,536 of them are 4.84 GiB."""
    pocket = str(POCKET)
    assert [default_row_tokens(pocket, size * GIB) for size in (141, 39, 38, 8)] == [65536, 65536, 32768, 16384]
    assert default_row_tokens(pocket, None) == 1024
    sizes = {"num_hidden_layers": 28, "hidden_size": 1536, "intermediate_size": 8960, "vocab_size": 151936}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2", **sizes}))
    assert default_row_tokens(str(tmp_path), 141 * GIB) == 16384

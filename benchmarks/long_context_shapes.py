"""Published shapes of models, to be filled with random weights; positions go as far as the sweep needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reasoning.model_files import POCKET

POSITIONS = 131072

SHAPES: Mapping[str, Mapping[str, Any]] = {
    "pocket": json.loads((POCKET / "config.json").read_text(encoding="utf-8")),
    "pocket-sliding": {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_size": 256,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "intermediate_size": 1024,
        "vocab_size": 832,
        "sliding_window": 512,
        "tie_word_embeddings": True,
    },
    "135m": {  # SmolLM2-135M
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "intermediate_size": 1536,
        "vocab_size": 49152,
        "tie_word_embeddings": True,
    },
    "1.5b": {  # Qwen2.5-1.5B
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 1536,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "intermediate_size": 8960,
        "vocab_size": 151936,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
    },
    "8b": {  # Llama-3.1-8B
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
    },
    "sliding": {  # Gemma-3-1B: five layers of six see 512 tokens
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_size": 1152,
        "num_hidden_layers": 26,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "intermediate_size": 6912,
        "vocab_size": 262144,
        "sliding_window": 512,
        "tie_word_embeddings": True,
    },
}


def write_model(shape: Mapping[str, Any], folder: Path) -> None:
    """A model folder without weights: config.json as transformers writes it, every default filled in."""
    from transformers import AutoConfig

    fields = {"max_position_embeddings": POSITIONS, "dtype": "bfloat16", "bos_token_id": None, "eos_token_id": 1}
    fields |= {name: value for name, value in shape.items() if name != "model_type"}
    AutoConfig.for_model(shape["model_type"], **fields).save_pretrained(folder)

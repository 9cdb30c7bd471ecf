"""The shape of a model from its config.json alone: weights, cache and context, before anything is loaded.

Nothing heavy is imported. Parameter counts are those of the checkpoint, to the last weight, for every family in
`reasoning.model_families`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from reasoning.config import ConfigError
from reasoning.layers import Layer, Mixer, MixerKind
from reasoning.model_families import Fields, read_layers
from reasoning.model_files import read_model

DTYPE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A causal language model in numbers.

    `quantization` names the method when the weights are stored quantised, `quantized_bits` is what one then takes, if
    the config says so.
    """

    model_type: str
    hidden_size: int
    vocab_size: int
    max_positions: int  # tokens
    tied_embeddings: bool
    dtype: str
    quantization: str | None
    quantized_bits: int | None
    layers: tuple[Layer, ...]
    final_norm_parameters: int

    @property
    def dtype_bytes(self) -> int:
        return DTYPE_BYTES[self.dtype]

    @property
    def embedding_parameters(self) -> int:
        """The table that ids are looked up in: a token reads one row of it."""
        return self.vocab_size * self.hidden_size

    @property
    def head_parameters(self) -> int:
        """The matrix that makes logits, whether it is a table of its own or the embedding again."""
        return self.vocab_size * self.hidden_size

    @property
    def parameters(self) -> int:
        """Every stored weight; a tied table counts once."""
        tables = self.embedding_parameters + (0 if self.tied_embeddings else self.head_parameters)
        return tables + self.final_norm_parameters + sum(layer.parameters for layer in self.layers)

    @property
    def active_parameters(self) -> int:
        """`parameters` without the experts that a token is not routed to."""
        idle = sum(layer.parameters - layer.active_parameters for layer in self.layers)
        return self.parameters - idle

    @property
    def layer_parameters(self) -> int:
        """`parameters` without embedding and head."""
        return sum(layer.parameters for layer in self.layers) + self.final_norm_parameters

    @property
    def active_layer_parameters(self) -> int:
        return sum(layer.active_parameters for layer in self.layers) + self.final_norm_parameters

    @property
    def mixed_experts(self) -> bool:
        return any(layer.mlp.experts for layer in self.layers)


@dataclass(frozen=True, slots=True)
class KvLayers:
    """Layers that cache alike, and what they take together."""

    kind: MixerKind
    layers: int
    window: int  # tokens; 0 unless sliding
    bytes_per_token: int  # of all these layers; 0 of a state
    state_bytes: int  # a sequence, of all these layers; 0 unless a state


def load_shape(model: str | Path | Mapping[str, Any]) -> ModelShape:
    """The shape of a model: a config.json as a mapping or a file, or anything that `--model` takes.

    Raises:
        ConfigError: no such model, a family that nothing is known of, or a config without a field that it needs.
    """
    config = model if isinstance(model, Mapping) else _read(model)
    fields = Fields(config)
    layers, final_norm = read_layers(fields)
    return ModelShape(
        model_type=fields.model_type,
        hidden_size=fields.count("hidden_size"),
        vocab_size=fields.count("vocab_size"),
        max_positions=fields.count("max_position_embeddings"),
        tied_embeddings=bool(fields.get("tie_word_embeddings", False)),
        dtype=_dtype(fields),
        quantization=_quantization(config),
        quantized_bits=_quantized_bits(config),
        layers=layers,
        final_norm_parameters=final_norm,
    )


def weight_bytes(shape: ModelShape, bytes_per_weight: float) -> float:
    """Bytes of all weights, each stored in `bytes_per_weight` (2 for bfloat16, 0.5 for four bits)."""
    return shape.parameters * bytes_per_weight


def kv_layers(shape: ModelShape, kv_dtype_bytes: float) -> tuple[KvLayers, ...]:
    """The groups of layers that cache alike, each number stored in `kv_dtype_bytes`.

    A token takes KV heads x (key size + value size) numbers in a full or sliding layer, the compressed vector and
    the rotated key in a latent one (DeepSeek-V2, arXiv:2405.04434, section 2.1), and nothing in a state layer.
    """

    def alike(mixer: Mixer) -> tuple[str, int, int, int]:
        return mixer.kind, mixer.window, mixer.values_per_token, mixer.state_values

    groups = []
    for (kind, window, values, state), same in groupby(sorted((x.mixer for x in shape.layers), key=alike), key=alike):
        count = len(list(same))
        groups.append(
            KvLayers(
                kind=MixerKind(kind),
                layers=count,
                window=window,
                bytes_per_token=round(count * values * kv_dtype_bytes),
                state_bytes=round(count * state * kv_dtype_bytes),
            )
        )
    return tuple(groups)


def kv_bytes_per_token(shape: ModelShape, kv_dtype_bytes: float) -> int:
    """Bytes that one more token adds while no window is full, over all layers."""
    return sum(group.bytes_per_token for group in kv_layers(shape, kv_dtype_bytes))


def kv_bytes(shape: ModelShape, tokens: int, kv_dtype_bytes: float) -> int:
    """Bytes that a sequence of `tokens` needs: windows stop growing, states do not grow. Without block rounding."""
    return sum(
        group.state_bytes + group.bytes_per_token * (min(tokens, group.window) if group.window else tokens)
        for group in kv_layers(shape, kv_dtype_bytes)
    )


def _read(model: str | Path) -> Mapping[str, Any]:
    path = Path(model).expanduser()
    if not path.is_file():
        return read_model(str(model)).config
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise ConfigError(f"{path} does not hold a JSON object: not the config.json of a model")
    return config


def _dtype(fields: Fields) -> str:
    name = str(fields.get("dtype", fields.get("torch_dtype", "float32"))).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise ConfigError(f"config.json gives the dtype '{name}'; known are {', '.join(DTYPE_BYTES)}")
    return name


def _quantization(config: Mapping[str, Any]) -> str | None:
    settings = config.get("quantization_config")
    if settings is None:
        return None
    if not isinstance(settings, Mapping):
        raise ConfigError(f"config.json has quantization_config = {settings!r}, where an object is needed")
    return str(settings.get("quant_method", "unknown"))


def _quantized_bits(config: Mapping[str, Any]) -> int | None:
    """As AWQ and GPTQ have it, or compressed-tensors for its first group of weights, or bitsandbytes."""
    settings = config.get("quantization_config") or {}
    groups = settings.get("config_groups") or {}
    weights = next((group.get("weights") or {} for group in groups.values()), {})
    bits = settings.get("bits", weights.get("num_bits", 8 if settings.get("load_in_8bit") else None))
    return bits if isinstance(bits, int) else None

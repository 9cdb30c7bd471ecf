"""From the config.json of each known family of models to its layers.

A family is a function from the fields to the layers; what its configuration class in transformers fills in when
the file leaves a field out is filled in here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from reasoning.config import ConfigError
from reasoning.layers import Layer, Mixer, MixerKind, Mlp


class Fields:
    """The fields of a config.json that describe the language model, with errors that name what is missing."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config` may nest them under `text_config`, as models that also see do."""
        nested = config.get("text_config")
        self._config = {**config, **nested} if isinstance(nested, Mapping) else dict(config)
        self.model_type = str(self._config.get("model_type") or "")
        if self.model_type not in FAMILIES:
            near = get_close_matches(self.model_type, FAMILIES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(FAMILIES))}"
            if not self.model_type:
                raise ConfigError(f"config.json has no model_type: the shape of the model cannot be known; {hint}")
            raise ConfigError(f"config.json has the model_type '{self.model_type}', whose shape is not known; {hint}")
        self._defaults = DEFAULTS.get(self.model_type, {})

    def get(self, name: str, otherwise: Any = None) -> Any:
        """A field; what the family fills in, or `otherwise`, when it is missing or null."""
        value = self._config.get(name)
        if value is None:
            # A null is a value of its own where a family has a default: no window, no second projection.
            value = None if name in self._config else self._defaults.get(name)
        return otherwise if value is None else value

    def count(self, name: str, otherwise: int | None = None) -> int:
        """A field that is a positive whole number. ConfigError when it is missing and `otherwise` is None."""
        value = self.get(name, otherwise)
        if value is None:
            raise ConfigError(f"config.json has no {name}, which the shape of a {self.model_type} model needs")
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise ConfigError(f"config.json has {name} = {value!r}, where a whole number above 0 is needed")
        return value


def read_layers(fields: Fields) -> tuple[tuple[Layer, ...], int]:
    """The layers of the model, and the weights of the norm after the last one."""
    family = FAMILIES[fields.model_type]
    number = fields.count("num_hidden_layers")
    return tuple(family(fields, index) for index in range(number)), fields.count("hidden_size")


def _attention(
    fields: Fields,
    *,
    window: int = 0,
    qkv_bias: bool = False,
    output_bias: bool = False,
    head_norms: bool = False,
    gated: bool = False,
    sinks: bool = False,
) -> Mixer:
    """Grouped-query attention; `gated` doubles the query projection, `sinks` adds one logit a head."""
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    kv_heads = fields.count("num_key_value_heads", heads)
    size = fields.count("head_dim", hidden // heads)
    queries, keys = heads * size, kv_heads * size
    query_columns = 2 * queries if gated else queries
    parameters = hidden * (query_columns + 2 * keys) + queries * hidden
    parameters += query_columns + 2 * keys if qkv_bias else 0
    parameters += hidden if output_bias else 0
    parameters += 2 * size if head_norms else 0
    parameters += heads if sinks else 0
    kind = MixerKind.SLIDING if window else MixerKind.FULL
    return Mixer(kind, parameters, query_heads=heads, kv_heads=kv_heads, head_dim=size, value_dim=size, window=window)


def _gated_mlp(hidden: int, intermediate: int, bias: bool = False) -> int:
    """Weights of gate, up and down projection."""
    return 3 * hidden * intermediate + (2 * intermediate + hidden if bias else 0)


def _dense(fields: Fields, bias: bool = False) -> Mlp:
    return Mlp(_gated_mlp(fields.count("hidden_size"), fields.count("intermediate_size"), bias))


def _window(fields: Fields, index: int, *, sliding: bool) -> int:
    """The window of layer `index`: as `layer_types` has it, else where `sliding` says so."""
    types = fields.get("layer_types")
    if types is not None:
        if index >= len(types):
            raise ConfigError(f"config.json lists {len(types)} layer_types, fewer than its num_hidden_layers")
        sliding = types[index] == "sliding_attention"
    return fields.count("sliding_window") if sliding else 0


def _llama(fields: Fields, index: int) -> Layer:
    bias = bool(fields.get("attention_bias", False))
    mixer = _attention(fields, qkv_bias=bias, output_bias=bias)
    return Layer(mixer, _dense(fields, bool(fields.get("mlp_bias", False))), 2 * fields.count("hidden_size"))


def _mistral(fields: Fields, index: int) -> Layer:
    window = _window(fields, index, sliding=fields.get("sliding_window") is not None)
    return Layer(_attention(fields, window=window), _dense(fields), 2 * fields.count("hidden_size"))


def _mixtral(fields: Fields, index: int) -> Layer:
    hidden, experts = fields.count("hidden_size"), fields.count("num_local_experts")
    mlp = Mlp(
        shared_parameters=hidden * experts,
        expert_parameters=_gated_mlp(hidden, fields.count("intermediate_size")),
        experts=experts,
        active_experts=fields.count("num_experts_per_tok"),
    )
    window = _window(fields, index, sliding=fields.get("sliding_window") is not None)
    return Layer(_attention(fields, window=window), mlp, 2 * hidden)


def _qwen_window(fields: Fields, index: int) -> int:
    """Layers from `max_window_layers` on have a window, if windows are used at all."""
    used = bool(fields.get("use_sliding_window", False))
    return _window(fields, index, sliding=used and index >= fields.count("max_window_layers")) if used else 0


def _qwen2(fields: Fields, index: int) -> Layer:
    mixer = _attention(fields, window=_qwen_window(fields, index), qkv_bias=True)
    return Layer(mixer, _dense(fields), 2 * fields.count("hidden_size"))


def _qwen3_attention(fields: Fields, index: int) -> Mixer:
    bias = bool(fields.get("attention_bias", False))
    window = _qwen_window(fields, index)
    return _attention(fields, window=window, qkv_bias=bias, output_bias=bias, head_norms=True)


def _qwen3(fields: Fields, index: int) -> Layer:
    return Layer(_qwen3_attention(fields, index), _dense(fields), 2 * fields.count("hidden_size"))


def _qwen_experts(fields: Fields, index: int) -> Mlp:
    """Routed experts, shared ones if any; dense where `mlp_only_layers` or `decoder_sparse_step` say so."""
    hidden, experts = fields.count("hidden_size"), fields.count("num_experts", fields.get("num_local_experts"))
    dense = index in fields.get("mlp_only_layers", ()) or (index + 1) % fields.count("decoder_sparse_step", 1) != 0
    if dense:
        return _dense(fields)
    shared = fields.get("shared_expert_intermediate_size", 0)
    return Mlp(
        shared_parameters=hidden * experts + (_gated_mlp(hidden, shared) + hidden if shared else 0),
        expert_parameters=_gated_mlp(hidden, fields.count("moe_intermediate_size")),
        experts=experts,
        active_experts=fields.count("num_experts_per_tok"),
    )


def _qwen2_moe(fields: Fields, index: int) -> Layer:
    mixer = _attention(fields, window=_qwen_window(fields, index), qkv_bias=bool(fields.get("qkv_bias", True)))
    return Layer(mixer, _qwen_experts(fields, index), 2 * fields.count("hidden_size"))


def _qwen3_moe(fields: Fields, index: int) -> Layer:
    return Layer(_qwen3_attention(fields, index), _qwen_experts(fields, index), 2 * fields.count("hidden_size"))


def _gated_delta_net(fields: Fields) -> Mixer:
    """Linear attention with a state of key size x value size a head, after a short convolution (arXiv:2412.06464)."""
    hidden = fields.count("hidden_size")
    value_heads = fields.count("linear_num_value_heads")
    key_size, value_size = fields.count("linear_key_head_dim"), fields.count("linear_value_head_dim")
    keys, values = fields.count("linear_num_key_heads") * key_size, value_heads * value_size
    convolved, kernel = 2 * keys + values, fields.count("linear_conv_kernel_dim")
    projections = hidden * (2 * keys + 2 * values) + hidden * 2 * value_heads + values * hidden
    state = value_heads * key_size * value_size
    return Mixer(
        MixerKind.STATE,
        projections + convolved * kernel + 2 * value_heads + value_size,
        state_values=state + convolved * (kernel - 1),
        # Decay, read, rank-one write and query: a multiplication and an addition each, for every number of the state.
        state_flops=8 * state,
    )


def _qwen3_next(fields: Fields, index: int) -> Layer:
    types = fields.get("layer_types")
    every = fields.count("full_attention_interval", 4)
    full = types[index] == "full_attention" if types else (index + 1) % every == 0
    mixer = _attention(fields, head_norms=True, gated=True) if full else _gated_delta_net(fields)
    return Layer(mixer, _qwen_experts(fields, index), 2 * fields.count("hidden_size"))


def _gemma2(fields: Fields, index: int) -> Layer:
    window = _window(fields, index, sliding=index % 2 == 0)
    return Layer(_attention(fields, window=window), _dense(fields), 4 * fields.count("hidden_size"))


def _gemma3(fields: Fields, index: int) -> Layer:
    pattern = fields.count("sliding_window_pattern", fields.get("_sliding_window_pattern", 6))
    window = _window(fields, index, sliding=(index + 1) % pattern != 0)
    mixer = _attention(fields, window=window, head_norms=True)
    return Layer(mixer, _dense(fields), 4 * fields.count("hidden_size"))


def _gpt_oss(fields: Fields, index: int) -> Layer:
    hidden, experts = fields.count("hidden_size"), fields.count("num_local_experts")
    mlp = Mlp(
        shared_parameters=hidden * experts + experts,
        expert_parameters=_gated_mlp(hidden, fields.count("intermediate_size"), bias=True),
        experts=experts,
        active_experts=fields.count("num_experts_per_tok"),
    )
    window = _window(fields, index, sliding=index % 2 == 0)
    return Layer(_attention(fields, window=window, qkv_bias=True, output_bias=True, sinks=True), mlp, 2 * hidden)


def _latent_attention(fields: Fields) -> Mixer:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1)."""
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    rank, rope = fields.count("kv_lora_rank"), fields.count("qk_rope_head_dim")
    nope, value = fields.count("qk_nope_head_dim"), fields.count("v_head_dim")
    queries, query_rank = heads * (nope + rope), fields.get("q_lora_rank")
    query_parameters = hidden * queries if query_rank is None else query_rank * (hidden + 1 + queries)
    bias = bool(fields.get("attention_bias", False))
    biases = (rank + rope + hidden + (0 if query_rank is None else query_rank)) if bias else 0
    down, up, output = hidden * (rank + rope), rank * heads * (nope + value), heads * value * hidden
    return Mixer(
        MixerKind.LATENT,
        query_parameters + down + rank + up + output + biases,
        query_heads=heads,
        kv_heads=1,
        head_dim=nope + rope,
        value_dim=value,
        latent_rank=rank,
        rope_dim=rope,
    )


def _deepseek(fields: Fields, index: int) -> Layer:
    """Dense layers first, then experts with a shared one; V3 corrects each expert's score by a bias."""
    hidden = fields.count("hidden_size")
    experts = fields.get("n_routed_experts")
    mlp = _dense(fields)
    if experts is not None and index >= fields.get("first_k_dense_replace", 0):
        size = fields.count("moe_intermediate_size")
        corrected = experts if fields.model_type != "deepseek_v2" else 0
        shared = _gated_mlp(hidden, size * fields.get("n_shared_experts", 0))
        mlp = Mlp(
            shared_parameters=hidden * experts + corrected + shared,
            expert_parameters=_gated_mlp(hidden, size),
            experts=experts,
            active_experts=fields.count("num_experts_per_tok"),
        )
    return Layer(_latent_attention(fields), mlp, 2 * hidden)


FAMILIES: Mapping[str, Callable[[Fields, int], Layer]] = {
    "llama": _llama,
    "smollm3": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_next": _qwen3_next,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt_oss": _gpt_oss,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "kimi_k2": _deepseek,
}
"""By `model_type`, the layer at an index."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "mistral": {"sliding_window": 4096},
    "smollm3": {"tie_word_embeddings": True},
    "gemma2": {"tie_word_embeddings": True, "head_dim": 256, "sliding_window": 4096},
    "gemma3_text": {
        "tie_word_embeddings": True,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    "gpt_oss": {"sliding_window": 128},
}
"""What a family's configuration class fills in for a field that the file leaves out."""

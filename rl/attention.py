"""Attention over packed documents, as an attention function of transformers named `packed`.

On CUDA it is PyTorch's variable-length flash attention; elsewhere each document is attended to by itself. Both take the
cumulative document lengths as keyword arguments of the model call:

    model = AutoModelForCausalLM.from_config(config, attn_implementation="packed")
    model(**of_row(ids, positions, cu_seqlens, longest))
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from reasoning.config import ConfigError

NO_MASKS = {"full_attention": None, "sliding_attention": None}
"""The `attention_mask` of a packed row, for layers of either kind: its documents say what sees what."""


def of_row(ids: Tensor, positions: Tensor, cu_seqlens: Tensor, longest: int) -> dict[str, Any]:
    """The arguments of a model's call on one row: ids and positions [tokens], the others as `packed_attention` says."""
    return {
        "input_ids": ids[None],
        "position_ids": positions[None],
        "attention_mask": NO_MASKS,
        "cu_seqlens": cu_seqlens,
        "longest": longest,
        "use_cache": False,
    }


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    cu_seqlens: Tensor,
    longest: int,
    scaling: float,
    **others: Any,
) -> tuple[Tensor, None]:
    """Causal attention inside documents only.

    query [1, heads, tokens, width]; key and value [1, kv heads, tokens, width]; cu_seqlens int32 [documents + 1];
    `longest` bounds the length of every document. Returns [1, tokens, heads, width].

    Raises:
        ConfigError: the model attends in a way that is not built here.
    """
    _check_plain(others, longest)
    groups = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(groups, dim=1)
    value = value.repeat_interleave(groups, dim=1)
    if query.is_cuda and query.dtype != torch.float32:  # flash attention knows half precision alone
        if abs(scaling - query.shape[-1] ** -0.5) > 1e-6:
            raise ConfigError(f"the model scales attention by {scaling:g}; only 1 / sqrt(width of a head) is built")
        return _flash(query, key, value, cu_seqlens, longest), None
    return _one_by_one(query, key, value, cu_seqlens, scaling).transpose(1, 2), None


def _check_plain(others: dict[str, Any], longest: int) -> None:
    """Refuse what would change the attention and is not built: a window, a cap on the scores, sinks."""
    window = others.get("sliding_window")
    if window is not None and window < longest:
        raise ConfigError(
            f"the model attends to the last {window:,} tokens alone, and a completion may have {longest:,} with its "
            "prompt; lower budget, or choose a model without a sliding window"
        )
    for name in ("softcap", "s_aux"):
        if others.get(name) is not None:
            raise ConfigError(f"the model's attention has a term that is not built here ({name}); choose another model")


def _one_by_one(query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, scaling: float) -> Tensor:
    """Each document by itself: on the CPU the mask of a whole row would cost more than the rest of the model."""
    bounds = cu_seqlens.tolist()
    parts = [
        nn.functional.scaled_dot_product_attention(
            query[:, :, start:end], key[:, :, start:end], value[:, :, start:end], is_causal=True, scale=scaling
        )
        for start, end in pairwise(bounds)
        if start < end
    ]
    return torch.cat(parts, dim=2)


def _flash(query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, longest: int) -> Tensor:
    """Flash attention, which scales by width ** -0.5."""
    from torch.nn.attention.varlen import varlen_attn

    flat = [tensor[0].transpose(0, 1).contiguous() for tensor in (query, key, value)]
    out = varlen_attn(*flat, cu_seqlens, cu_seqlens, longest, longest, window_size=(-1, 0))
    assert isinstance(out, Tensor)
    return out[None]


AttentionInterface.register("packed", packed_attention)

"""Attention over packed documents, as an attention function of transformers named `packed`.

On CUDA it is PyTorch's variable-length flash attention; elsewhere a reference with an explicit mask. Both take the
cumulative document lengths as keyword arguments of the model call:

    model = AutoModelForCausalLM.from_config(config, attn_implementation="packed")
    model(input_ids=ids[None], position_ids=positions[None], attention_mask={"full_attention": None},
          cu_seqlens=cu_seqlens, longest=longest, use_cache=False)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface


def document_mask(cu_seqlens: Tensor, tokens: int) -> Tensor:
    """Boolean mask [tokens, tokens]: True where query i may look at key j, i.e. same document and j <= i."""
    index = torch.arange(tokens, device=cu_seqlens.device)
    document = torch.bucketize(index, cu_seqlens[1:], right=True)
    return (document[:, None] == document[None, :]) & (index[:, None] >= index[None, :])


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
    **_: Any,
) -> tuple[Tensor, None]:
    """Causal attention inside documents only.

    query [1, heads, tokens, width]; key and value [1, kv heads, tokens, width]; cu_seqlens int32 [documents + 1];
    `longest` bounds the length of every document. Returns [1, tokens, heads, width].
    """
    groups = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(groups, dim=1)
    value = value.repeat_interleave(groups, dim=1)
    if query.is_cuda:
        return _flash(query, key, value, cu_seqlens, longest), None
    mask = document_mask(cu_seqlens, query.shape[2])
    out = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)
    return out.transpose(1, 2), None


def _flash(query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, longest: int) -> Tensor:
    """Flash attention scales by width ** -0.5, which is what every model here asks for."""
    from torch.nn.attention.varlen import varlen_attn

    flat = [tensor[0].transpose(0, 1).contiguous() for tensor in (query, key, value)]
    out = varlen_attn(*flat, cu_seqlens, cu_seqlens, longest, longest, window_size=(-1, 0))
    assert isinstance(out, Tensor)
    return out[None]


AttentionInterface.register("packed", packed_attention)

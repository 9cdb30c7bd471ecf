"""Log-probabilities of chosen tokens straight from hidden states, without all the logits at once.

The logits of `tokens` positions over a vocabulary are the largest tensor of a training step. Here they exist for one
chunk of positions at a time: the forward pass keeps one number a position (the log of the softmax's denominator), the
backward pass computes the logits of each chunk again.

The head multiplies in its own dtype, as an engine does when it samples; everything after that is float32. Entropy is
a measurement and carries no gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rl.packing import IGNORE

CHUNK_LOGITS = 2**26
"""Logits that exist at a time: 256 MiB in float32."""


@dataclass(frozen=True, slots=True)
class TokenScores:
    """float32 of shape [tokens], in nats; zero where the label is IGNORE. `entropy` has no gradient."""

    logps: Tensor
    entropy: Tensor


def token_scores(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    temperature: float = 1.0,
    chunk_logits: int = CHUNK_LOGITS,
    compiled: bool = False,
) -> TokenScores:
    """log softmax(hidden @ weight.T / temperature)[label] of every position, and the entropy of that softmax.

    hidden [tokens, width] and weight [vocabulary, width] of one dtype; labels int64 [tokens], IGNORE where no token is
    scored. `chunk_logits` bounds the logits that exist at a time. Gradients flow into `hidden` and `weight`.
    `compiled`: what follows the matrix product of a chunk is one kernel, in place of ten passes over its logits.
    """
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature}; log-probabilities need one above 0")
    chunk = _chunk_positions(len(hidden), max(1, chunk_logits // weight.shape[0]))
    logps, entropy = _ChunkedHead.apply(hidden, weight, labels, temperature, chunk, compiled)
    return TokenScores(logps, entropy)


def _chunk_positions(tokens: int, most: int) -> int:
    """Positions of a chunk, at most `most`: the tokens halved as often as it takes, so that chunks have one shape."""
    chunk = max(1, tokens)
    while chunk > most:
        chunk = -(-chunk // 2)
    return chunk


class _ChunkedHead(torch.autograd.Function):
    """The head's matrix product, softmax and selection, a chunk of positions at a time."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, temperature: float, chunk: int, compiled: bool
    ) -> tuple[Tensor, Tensor]:
        score = _compiled_score if compiled else _score
        parts = [
            score(part, weight, label, temperature)
            for part, label in zip(hidden.split(chunk), labels.split(chunk), strict=True)
        ]
        logps, entropies, normalisers = (torch.cat(part) for part in zip(*parts, strict=True))
        ctx.save_for_backward(hidden, weight, labels, normalisers)
        ctx.temperature, ctx.chunk, ctx.compiled = temperature, chunk, compiled
        ctx.mark_non_differentiable(entropies)
        return logps, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None, None, None, None]:
        hidden, weight, labels, normalisers = ctx.saved_tensors
        slope_of = _compiled_slope if ctx.compiled else _slope
        scale = torch.where(labels != IGNORE, gradients[0], 0.0) / ctx.temperature
        to_hidden = torch.empty_like(hidden)
        # A head that is not trained, beside adapters, needs no gradient.
        to_weight = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        for start in range(0, len(hidden), ctx.chunk):
            rows = slice(start, start + ctx.chunk)
            slope = slope_of(hidden[rows], weight, labels[rows], normalisers[rows], scale[rows], ctx.temperature)
            to_hidden[rows] = slope @ weight
            if to_weight is not None:
                _add_product(to_weight, slope.T, hidden[rows])
        return to_hidden, None if to_weight is None else to_weight.to(weight.dtype), None, None, None, None


def _score(hidden: Tensor, weight: Tensor, label: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probability of the label, entropy and normaliser of every position of a chunk."""
    logits = _logits(hidden, weight, temperature)
    normaliser = logits.logsumexp(dim=1)
    log_softmax = logits.sub_(normaliser[:, None])
    chosen = log_softmax.gather(1, label.clamp(min=0)[:, None])[:, 0]
    entropy = -(log_softmax.exp() * log_softmax).sum(dim=1)
    scored = label != IGNORE
    return torch.where(scored, chosen, 0.0), torch.where(scored, entropy, 0.0), normaliser


def _slope(
    hidden: Tensor, weight: Tensor, label: Tensor, normaliser: Tensor, scale: Tensor, temperature: float
) -> Tensor:
    """`scale` times d logp / d logit, which is [token is the label] - probability, in the dtype of the head."""
    probability = _logits(hidden, weight, temperature).sub_(normaliser[:, None]).exp_()
    is_label = torch.arange(weight.shape[0], device=label.device) == label[:, None]
    return (is_label.float().sub_(probability)).mul_(scale[:, None]).to(weight.dtype)


def _logits(hidden: Tensor, weight: Tensor, temperature: float) -> Tensor:
    return (hidden @ weight.T).float() / temperature


_compiled_score = torch.compile(_score)
_compiled_slope = torch.compile(_slope)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right in float32: rounding every chunk's product to bfloat16 would add up."""
    if total.is_cuda and left.dtype != torch.float32:
        total += torch.mm(left, right, out_dtype=torch.float32)
    else:
        total.addmm_(left.float(), right.float())

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
    hidden: Tensor, weight: Tensor, labels: Tensor, *, temperature: float = 1.0, chunk_logits: int = CHUNK_LOGITS
) -> TokenScores:
    """log softmax(hidden @ weight.T / temperature)[label] of every position, and the entropy of that softmax.

    hidden [tokens, width] and weight [vocabulary, width] of one dtype; labels int64 [tokens], IGNORE where no token is
    scored. `chunk_logits` bounds the logits that exist at a time. Gradients flow into `hidden` and `weight`.
    """
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature}; log-probabilities need one above 0")
    chunk = max(1, chunk_logits // weight.shape[0])
    logps, entropy = _ChunkedHead.apply(hidden, weight, labels, temperature, chunk)
    return TokenScores(logps, entropy)


class _ChunkedHead(torch.autograd.Function):
    """The head's matrix product, softmax and selection, a chunk of positions at a time."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, temperature: float, chunk: int
    ) -> tuple[Tensor, Tensor]:
        logps, entropies, normalisers = [], [], []
        for part, label in zip(hidden.split(chunk), labels.split(chunk), strict=True):
            logits = _logits(part, weight, temperature)
            normaliser = logits.logsumexp(dim=1)
            log_softmax = logits.sub_(normaliser[:, None])
            chosen = log_softmax.gather(1, label.clamp(min=0)[:, None])[:, 0]
            entropy = -(log_softmax.exp() * log_softmax).sum(dim=1)
            scored = label != IGNORE
            logps.append(torch.where(scored, chosen, 0.0))
            entropies.append(torch.where(scored, entropy, 0.0))
            normalisers.append(normaliser)
        ctx.save_for_backward(hidden, weight, labels, torch.cat(normalisers))
        ctx.temperature, ctx.chunk = temperature, chunk
        all_entropies = torch.cat(entropies)
        ctx.mark_non_differentiable(all_entropies)
        return torch.cat(logps), all_entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        hidden, weight, labels, normalisers = ctx.saved_tensors
        scale = torch.where(labels != IGNORE, gradients[0], 0.0) / ctx.temperature
        to_hidden = torch.empty_like(hidden)
        to_weight = torch.zeros_like(weight, dtype=torch.float32)
        for start in range(0, len(hidden), ctx.chunk):
            rows = slice(start, start + ctx.chunk)
            # d logp / d logit = [token is the label] - probability
            slope = _logits(hidden[rows], weight, ctx.temperature).sub_(normalisers[rows, None]).exp_().neg_()
            slope.scatter_add_(1, labels[rows].clamp(min=0)[:, None], torch.ones_like(slope[:, :1]))
            slope = slope.mul_(scale[rows, None]).to(weight.dtype)
            to_hidden[rows] = slope @ weight
            _add_product(to_weight, slope.T, hidden[rows])
        return to_hidden, to_weight.to(weight.dtype), None, None, None


def _logits(hidden: Tensor, weight: Tensor, temperature: float) -> Tensor:
    return (hidden @ weight.T).float() / temperature


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right in float32: rounding every chunk's product to bfloat16 would add up."""
    if total.is_cuda and left.dtype != torch.float32:
        total += torch.mm(left, right, out_dtype=torch.float32)
    else:
        total.addmm_(left.float(), right.float())

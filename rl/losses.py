"""The GRPO family of objectives on packed rows.

A row is flat: position t holds the score of the token after t, as `rl.packing` lays out labels, and belongs to the
document `document[t]`; a document is one prompt with one completion. The loss of an optimizer step is one sum,

    sum over its rows and positions of  mask[t] * weight[document[t]] * token_loss[t],

and `sequence_weights` fixes the weights once for the whole step, before anything is packed. So the loss does not depend
on how completions are packed, split over micro-batches or spread over processes. Nothing here waits for the device:
metrics are sums that stay tensors, to be added over rows and processes.

Names and meanings of settings are those of TRL's GRPOConfig.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from reasoning.config import ConfigError

if TYPE_CHECKING:
    from trl import GRPOConfig

LOSS_TYPES = ("grpo", "dr_grpo", "dapo", "bnpo", "cispo")
CORRECTIONS = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")


@dataclass(frozen=True, slots=True)
class Objective:
    """What is maximised. GSPO is `importance_sampling_level` "sequence" with `loss_type` "grpo".

    `epsilon_high` None: the same as `epsilon`. For cispo `epsilon_high` is the cap on the ratio itself. `delta` bounds
    the ratio of a bad completion, which clipping alone leaves unbounded. `beta` weighs the KL to the reference.
    """

    loss_type: str = "dapo"
    importance_sampling_level: str = "token"
    epsilon: float = 0.2
    epsilon_high: float | None = None
    delta: float | None = None
    beta: float = 0.0
    use_bias_correction_kl: bool = True
    max_completion_length: int | None = None  # tokens; the length that dr_grpo divides by
    per_device_train_batch_size: int | None = None  # completions; bnpo takes a token mean over each such batch
    vllm_importance_sampling_correction: bool = True
    vllm_importance_sampling_mode: str = "sequence_mask"
    vllm_importance_sampling_clip_max: float | None = 3.0
    vllm_importance_sampling_clip_min: float | None = None

    def __post_init__(self) -> None:
        _one_of("loss_type", self.loss_type, LOSS_TYPES)
        _one_of("importance_sampling_level", self.importance_sampling_level, ("token", "sequence"))
        _one_of("vllm_importance_sampling_mode", self.vllm_importance_sampling_mode, CORRECTIONS)
        needed = {"dr_grpo": "max_completion_length", "bnpo": "per_device_train_batch_size"}.get(self.loss_type)
        if needed and not getattr(self, needed):
            raise ConfigError(f"loss_type {self.loss_type} divides by {needed}, which is not set")
        bounds = (self.vllm_importance_sampling_clip_min, self.vllm_importance_sampling_clip_max)
        if self.vllm_importance_sampling_mode.endswith("truncate") and bounds == (None, None):
            raise ConfigError(
                f"vllm_importance_sampling_mode {self.vllm_importance_sampling_mode} has no bound; set "
                "vllm_importance_sampling_clip_max, 3.0 for example"
            )
        if self.loss_type == "cispo" and (self.epsilon_high is None or self.epsilon_high < 1):
            raise ConfigError(
                f"loss_type cispo caps the ratio at epsilon_high, which is {self.epsilon_high}; set it to 1 or more, "
                "5.0 for example"
            )

    @property
    def upper(self) -> float:
        """`epsilon_high` as it is used."""
        return self.epsilon if self.epsilon_high is None else self.epsilon_high


def objective_from(args: GRPOConfig) -> Objective:
    """The objective that a GRPOConfig describes.

    Raises:
        ConfigError: a loss type or mode that is not built here; the message names what to write instead. Settings of
            terms that are not built are refused by `rl.arguments`.
    """
    return Objective(**{name: getattr(args, name) for name in Objective.__dataclass_fields__})


def sequence_weights(objective: Objective, lengths: Sequence[int]) -> np.ndarray:
    """What one token of each completion weighs in the loss of an optimizer step, float32 [completions].

    `lengths` counts the tokens that carry loss (mask 1) of every completion of the step, over all micro-batches and
    processes, in the order of generation; 0 for a completion whose loss is masked, which then is in no denominator.
    Completions of dead groups carry a loss that is zero: they belong here, packed or not, so that leaving them out of
    the rows changes nothing. The rows of all processes sum to the loss: where gradients are averaged over processes,
    multiply it by their number.

    With N completions of length above 0:
      dapo, cispo  1 / (tokens of the step)             every token weighs the same
      grpo         1 / (N * own length)                 mean over completions of the mean over tokens
      dr_grpo      1 / (N * max_completion_length)
      bnpo         1 / (B * tokens of the own batch)    mean over the B batches of per_device_train_batch_size
    """
    length = np.asarray(lengths, np.float64)
    n = max(1, np.count_nonzero(length))
    if objective.loss_type == "grpo":
        share = n * length
    elif objective.loss_type == "dr_grpo":
        share = np.full(len(length), float(n * (objective.max_completion_length or 0)))
    elif objective.loss_type == "bnpo":
        batch = np.arange(len(length)) // (objective.per_device_train_batch_size or 1)
        tokens = np.bincount(batch, length)
        share = np.count_nonzero(tokens) * tokens[batch]
    else:
        share = np.full(len(length), length.sum())
    return np.where(length > 0, 1 / np.maximum(share, 1), 0).astype(np.float32)


@dataclass(frozen=True, slots=True)
class PackedTokens:
    """The scores of one row of `tokens` positions with places for `documents` documents, and what they are compared to.

    logps: float32 [tokens], with gradient. mask: bool [tokens], True where the loss counts. document: int64 [tokens],
    below `documents`. advantages, weights: float32 [documents]. The others are float32 [tokens]: old_logps of the
    policy that generated; None when that is the policy being trained, whose own scores then stand for them. ref_logps
    of the reference, needed when `beta` is above 0. engine_logps as the engine sampled them, NaN where it gave none.
    entropy, to be measured. Values where the mask is False have no influence.
    """

    logps: Tensor
    mask: Tensor
    document: Tensor
    advantages: Tensor
    weights: Tensor
    old_logps: Tensor | None = None
    ref_logps: Tensor | None = None
    engine_logps: Tensor | None = None
    entropy: Tensor | None = None


@dataclass(frozen=True, slots=True)
class PackedLoss:
    """loss: this row's part of the step's loss, a scalar. sums: float64 scalars without gradient, to add over rows and
    processes and then give to `summarise`. log_ratios: [tokens], trainer minus engine log-probability as measured, NaN
    where there is none; for `ratio_percentiles`."""

    loss: Tensor
    sums: dict[str, Tensor]
    log_ratios: Tensor


def packed_loss(objective: Objective, row: PackedTokens) -> PackedLoss:
    """The row's part of the loss. With `old_logps` None every policy ratio is exactly 1, and its gradient is not 0.

    Source of the formulas: GRPO arXiv 2402.03300, DAPO 2503.14476, Dr. GRPO 2503.20783, GSPO 2507.18071, CISPO
    2506.13585, two-sided clip 2505.07291.
    """
    old = row.logps.detach() if row.old_logps is None else row.old_logps
    log_ratio = torch.where(row.mask, row.logps - old, 0.0)
    if objective.importance_sampling_level == "sequence":
        counts = _document_sums(row.mask.to(log_ratio.dtype), row).clamp(min=1)
        log_ratio = (_document_sums(log_ratio, row) / counts)[row.document]
    ratio = log_ratio.exp()
    advantage = row.advantages[row.document]
    token_loss, clipped_low, clipped_high = _policy_loss(objective, ratio, advantage, row.logps)
    correction = _engine_correction(objective, old, row)
    if correction.weight is not None:
        token_loss = token_loss * correction.weight
    kl = _kl(objective, ratio, row)
    if kl is not None:
        token_loss = token_loss + objective.beta * kl
    loss = torch.where(row.mask, token_loss * row.weights[row.document], 0.0).sum()
    sums = {
        "loss": loss,
        "tokens": row.mask.sum(),
        "clip_ratio/low_mean": (row.mask & clipped_low).sum(),
        "clip_ratio/high_mean": (row.mask & clipped_high).sum(),
        **correction.sums,
    }
    if kl is not None:
        sums["kl"] = torch.where(row.mask, kl, 0.0).sum()
    if row.entropy is not None:
        sums["entropy"] = torch.where(row.mask, row.entropy, 0.0).sum()
    return PackedLoss(loss, {name: value.detach().double() for name, value in sums.items()}, correction.log_ratios)


def summarise(sums: Mapping[str, float]) -> dict[str, float]:
    """Sums of `packed_loss`, added over everything that counts, as means a token; `loss` and the counts as they are.

    `clip_ratio/...`, `kl`, `entropy` are means over all tokens that carry loss, `sampling/...` over those that the
    engine scored: mean absolute difference of log-probabilities, the k3 estimate of KL(engine, trainer) in nats, the
    mean importance weight as applied, and the share of tokens whose ratio was masked or truncated.
    """
    counts = ("loss", "tokens", "sampling/scored_tokens", "sampling/unscored_tokens")
    means = {}
    for name, value in sums.items():
        if name in counts:
            means[name] = float(value)
            continue
        count = sums["sampling/scored_tokens"] if name.startswith("sampling/") else sums["tokens"]
        means[name] = float(value) / max(1.0, float(count))
    return means


def ratio_percentiles(log_ratios: Tensor) -> Tensor:
    """The 1st, 50th and 99th percentile of the probability ratio trainer / engine (nearest rank), float32 [3].

    `log_ratios` as in `PackedLoss`, of any number of rows, of any shape. NaN when there is none. Stays on the device.
    """
    ordered = log_ratios.flatten().sort().values  # NaN last
    known = (~ordered.isnan()).sum()
    rank = torch.tensor([0.01, 0.5, 0.99], device=ordered.device) * (known - 1).clamp(min=0)
    return ordered[rank.round().long()].exp()


@dataclass(frozen=True, slots=True)
class _Correction:
    weight: Tensor | None  # [tokens]; None: not corrected
    sums: dict[str, Tensor]
    log_ratios: Tensor


def _policy_loss(
    objective: Objective, ratio: Tensor, advantage: Tensor, logps: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss of every token, and where the ratio has run past its lower and its upper bound. All [tokens]."""
    if objective.loss_type == "cispo":
        past = (ratio > objective.upper) & (advantage > 0)
        return -ratio.clamp(max=objective.upper).detach() * advantage * logps, torch.zeros_like(past), past
    low, high = 1 - objective.epsilon, 1 + objective.upper
    clipped = ratio.clamp(low, high)
    if objective.delta is not None:
        ratio = ratio.clamp(max=objective.delta)
    loss = -torch.minimum(ratio * advantage, clipped * advantage)
    return loss, (ratio < low) & (advantage < 0), (ratio > high) & (advantage > 0)


def _kl(objective: Objective, ratio: Tensor, row: PackedTokens) -> Tensor | None:
    """The k3 estimate of KL(policy, reference) a token, never negative; None when `beta` is 0."""
    if objective.beta == 0:
        return None
    if row.ref_logps is None:
        raise ValueError(f"beta is {objective.beta}, but the row has no reference log-probabilities")
    difference = torch.where(row.mask, row.ref_logps - row.logps, 0.0)
    kl = difference.exp() - difference - 1
    return kl * ratio if objective.use_bias_correction_kl else kl


def _engine_correction(objective: Objective, old: Tensor, row: PackedTokens) -> _Correction:
    """Importance weights between the engine that sampled and the trainer that scores, and how far they are apart.

    A token that the engine did not score has ratio 1 and is counted. The ratio of a sequence is the product over its
    tokens, as in TRL, so its noise grows with the length. "truncate" clamps the ratio into its bounds, "mask" drops
    what lies outside.
    """
    if row.engine_logps is None:
        return _Correction(None, {}, torch.full_like(old, torch.nan))
    scored = row.mask & row.engine_logps.isfinite()
    difference = torch.where(scored, old - row.engine_logps, 0.0)
    log_ratio = difference
    if objective.vllm_importance_sampling_mode.startswith("sequence"):
        log_ratio = _document_sums(difference, row)[row.document]
    ratio = log_ratio.exp()
    low, high = objective.vllm_importance_sampling_clip_min, objective.vllm_importance_sampling_clip_max
    outside = torch.zeros_like(scored)
    if low is not None:
        outside = outside | (ratio < low)
    if high is not None:
        outside = outside | (ratio > high)
    if objective.vllm_importance_sampling_mode.endswith("mask"):
        weight = torch.where(outside, 0.0, ratio)
    else:
        weight = ratio.clamp(low, high)
    sums = {
        "sampling/scored_tokens": scored.sum(),
        "sampling/unscored_tokens": (row.mask & ~scored).sum(),
        "sampling/sampling_logp_difference/mean": difference.abs().sum(),
        "sampling/k3": (difference.exp() - difference - 1).sum(),
        "sampling/outside_share": (outside & scored).sum(),
        "sampling/importance_sampling_ratio/mean": torch.where(scored, weight, 0.0).sum(),
    }
    raw = torch.where(scored, difference, torch.nan)
    return _Correction(weight if objective.vllm_importance_sampling_correction else None, sums, raw)


def _document_sums(values: Tensor, row: PackedTokens) -> Tensor:
    """Sums of [tokens] over documents, [documents]."""
    return torch.zeros_like(row.advantages, dtype=values.dtype).index_add(0, row.document, values)


def _one_of(key: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigError(f"{key} is '{value}'; use {', '.join(allowed)}")

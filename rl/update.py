"""The packed update: one forward and one backward pass a row, gradients summed in float32, one step of the optimizer.

The loss of a step is a sum over rows with weights that are fixed beforehand (`rl.losses.sequence_weights`), so how
completions are packed, and into how many rows, changes nothing but rounding. Nothing waits for the device until the
numbers of the whole step are read, once, before the optimizer moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rl.attention import NO_MASKS
from rl.logprobs import TokenScores, token_scores
from rl.losses import Objective, PackedLoss, PackedTokens, packed_loss, ratio_percentiles, summarise
from rl.masters import Masters
from rl.packing import IGNORE
from rl.rows import RolloutDocument, Row, build_row, plan_rows


class NonFiniteLoss(RuntimeError):
    """The loss or the gradient is not a number; the weights were not touched."""


class PackedUpdate:
    """Scores and updates a causal language model on rollouts packed into rows of at most `row_tokens` tokens.

    The model attends with `packed`. On CUDA every row is padded to the same shape, so a compiled pass compiles once; on
    the CPU rows stay as long as they are, and are computed on `threads` threads side by side.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        masters: Masters,
        *,
        row_tokens: int,
        longest: int,
        temperature: float,
        threads: int,
        compiled: bool,
    ) -> None:
        """`longest` bounds the tokens of a document: attention on CUDA starts work for that many in every one."""
        self.objective = objective
        self._row_tokens = row_tokens
        self._longest = longest
        self._model = model
        self._masters = masters
        self._temperature = temperature
        self._device = next(model.parameters()).device
        self._pad_to = row_tokens if self._device.type == "cuda" else None
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="update") if threads > 1 else None
        self._threads = threads
        # The head works chunk by chunk already; compiling it gains nothing.
        self._hidden = torch.compile(_hidden) if compiled else _hidden

    def logps(self, documents: Sequence[RolloutDocument], model: nn.Module | None = None) -> list[np.ndarray]:
        """Log-probabilities of the learned tokens of every document, float32 [length], NaN elsewhere; no gradients."""
        found: list[np.ndarray] = [np.empty(0, np.float32)] * len(documents)
        with torch.no_grad():
            for row in self.pack(documents):
                placed = row.to(self._device)
                scored = self._scores(model or self._model, placed).logps
                values = torch.where(placed.labels == IGNORE, torch.nan, scored).cpu().numpy()
                for index, start in zip(row.documents, row.cu_seqlens.tolist(), strict=False):
                    length = len(documents[index].ids)
                    found[index] = np.append(np.float32(np.nan), values[start : start + length - 1])
        return found

    def pack(self, documents: Sequence[RolloutDocument]) -> list[Row]:
        """The documents in rows; no rows without documents."""
        plan = plan_rows([len(one.ids) for one in documents], self._row_tokens)
        return [build_row(documents, members, self._pad_to, self._longest) for members in plan]

    def step(self, rows: Sequence[Row], optimizer: torch.optim.Optimizer, max_grad_norm: float) -> dict[str, float]:
        """One optimizer step on the documents of one or more rows; what it measured, as `rl.losses.summarise` names it.

        Besides: `grad_norm`, how many `rows`, the real `row_tokens` in them, and `padding`, the share that is not.

        Raises:
            NonFiniteLoss: before the optimizer moved anything.
        """
        parts = [rows[start :: self._threads] for start in range(min(self._threads, len(rows)))]
        results = list(self._pool.map(self._accumulate, parts)) if self._pool else [self._accumulate(rows)]
        for master, *gradients in zip(self._masters.tensors, *(result.gradients for result in results), strict=True):
            master.grad = gradients[0]
            for gradient in gradients[1:]:
                master.grad += gradient
        # A bound of 0 means no clipping, as in TRL.
        norm = nn.utils.clip_grad_norm_(self._masters.tensors, max_grad_norm or math.inf)
        metrics = _read([loss for result in results for loss in result.losses], norm)
        if not math.isfinite(metrics["loss"]) or not math.isfinite(metrics["grad_norm"]):
            optimizer.zero_grad()
            raise NonFiniteLoss(f"the loss is {metrics['loss']} and the gradient norm {metrics['grad_norm']}")
        optimizer.step()
        optimizer.zero_grad()
        self._masters.put_back()
        real = sum(row.tokens for row in rows)
        total = sum(len(row.ids) for row in rows)
        return metrics | {"rows": float(len(rows)), "row_tokens": float(real), "padding": 1 - real / total}

    def _accumulate(self, rows: Sequence[Row]) -> _Part:
        """Losses and float32 gradient sums of some rows, in their order."""
        gradients: list[Tensor] | None = None
        losses = []
        for row in rows:
            result = self._loss(row.to(self._device))
            found = torch.autograd.grad(result.loss, self._masters.weights, allow_unused=True, materialize_grads=True)
            losses.append(PackedLoss(result.loss.detach(), result.sums, result.log_ratios))
            if gradients is None:
                gradients = [gradient.float() for gradient in found]
            else:
                torch._foreach_add_(gradients, [gradient.float() for gradient in found])
        assert gradients is not None
        return _Part(gradients, losses)

    def _scores(self, model: Any, row: Row) -> TokenScores:
        hidden = self._hidden(model.base_model, row.ids, row.positions, row.cu_seqlens, self._longest)
        return token_scores(hidden, model.get_output_embeddings().weight, row.labels, temperature=self._temperature)

    def _loss(self, row: Row) -> PackedLoss:
        scores = self._scores(self._model, row)
        return packed_loss(
            self.objective,
            PackedTokens(
                logps=scores.logps,
                mask=row.labels != IGNORE,
                document=row.document,
                advantages=row.advantages,
                weights=row.weights,
                old_logps=row.old_logps,
                ref_logps=row.ref_logps,
                engine_logps=row.engine_logps,
                entropy=scores.entropy,
            ),
        )


@dataclass(frozen=True, slots=True)
class _Part:
    gradients: list[Tensor]
    losses: list[PackedLoss]


def _hidden(body: Any, ids: Tensor, positions: Tensor, cu_seqlens: Tensor, longest: int) -> Tensor:
    """Last hidden states [tokens, width] of a row; `longest` bounds the documents, one number for all rows of a run."""
    return body(
        input_ids=ids[None],
        position_ids=positions[None],
        attention_mask=NO_MASKS,
        cu_seqlens=cu_seqlens,
        longest=longest,
        use_cache=False,
    ).last_hidden_state[0]


def _read(losses: Sequence[PackedLoss], norm: Tensor) -> dict[str, float]:
    """Everything that a step measured, in one transfer from the device."""
    names = list(losses[0].sums)
    sums = torch.stack([torch.stack([loss.sums[name].double() for name in names]) for loss in losses]).sum(0)
    ratios = ratio_percentiles(torch.cat([loss.log_ratios for loss in losses]))
    values = torch.cat([sums, ratios.double(), norm.double()[None]]).tolist()
    metrics = summarise(dict(zip(names, values, strict=False)))
    for name, value in zip(("p1", "p50", "p99"), values[len(names) :], strict=False):
        if not math.isnan(value):
            metrics[f"sampling/ratio_{name}"] = value
    return metrics | {"grad_norm": values[-1]}

"""The packed update: one forward and one backward pass a row, gradients summed in float32, one step of the optimizer.

The loss of a step is a sum over rows with weights that are fixed beforehand (`rl.losses.sequence_weights`), so how
completions are packed, and into how many rows, changes nothing but rounding. Nothing waits for the device until the
numbers of the whole step are read, once, before the optimizer moves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from rl.distributed import ALONE, Processes
from rl.faults import is_out_of_memory
from rl.logprobs import TokenScores
from rl.losses import Objective, PackedLoss, PackedTokens, packed_loss, ratio_percentiles, summarise
from rl.masters import Masters
from rl.packing import IGNORE
from rl.rows import RolloutDocument, Row, build_row, plan_rows
from rl.scorer import Scorer, dropouts
from rl.sharding import is_sharded, whole


class NonFiniteLoss(RuntimeError):
    """The loss or the gradient is not a number; the weights were not touched."""


class PackedUpdate:
    """Scores and updates a causal language model on rollouts packed into rows of at most `row_tokens` tokens.

    The model attends with `packed`. Compiled, every row is padded to one shape, and one compilation serves all; if not,
    rows stay as long as they are. On the CPU they are computed on `threads` threads side by side.
    """

    def __init__(
        self,
        scorer: Scorer,
        objective: Objective,
        masters: Masters,
        *,
        row_tokens: int,
        threads: int,
        compiled: bool,
        say: Callable[[str], None] = print,
        processes: Processes = ALONE,
    ) -> None:
        """Rows are shared out over the `processes`, which are all given the same documents, and hold the same weights,
        or each a part of them.

        With `compiled` the passes are compiled here, and tried; where that fails, `say` is told and they stay eager.
        """
        self.objective = objective
        self._row_tokens = row_tokens
        self._scorer = scorer
        self._masters = masters
        self._device = next(scorer.parameters()).device
        self._processes = processes
        self._sharded = is_sharded(scorer)
        self._dropouts = dropouts(scorer)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="update") if threads > 1 else None
        self._threads = threads
        self._pad_to: int | None = None
        if compiled:
            self._compile(say)

    def logps(self, documents: Sequence[RolloutDocument], model: nn.Module | None = None) -> list[np.ndarray]:
        """Log-probabilities of the learned tokens of every document, float32 [length], NaN elsewhere; no gradients.

        Those of the model itself come from the pass that trains it, so that both round alike, but nothing is dropped.
        """
        rows = self.pack(documents)
        for module in self._dropouts:
            module.eval()
        parts = self._processes.each(lambda: self._logps(documents, self._own(rows), model))
        for module in self._dropouts:
            module.train()
        found = {index: logps for part in parts for index, logps in part.items()}
        return [found[index] for index in range(len(documents))]

    def _logps(
        self, documents: Sequence[RolloutDocument], rows: Sequence[Row], model: nn.Module | None
    ) -> dict[int, np.ndarray]:
        """Of the documents of some rows, by their index."""
        found = {}
        with torch.set_grad_enabled(self._scorer.compiled and model is None):
            for row in rows:
                placed = row.to(self._device)
                scored = self._scores(placed, model).logps.detach()
                values = torch.where(placed.labels == IGNORE, torch.nan, scored).cpu().numpy()
                for index, start in zip(row.documents, row.cu_seqlens.tolist(), strict=False):
                    length = len(documents[index].ids)
                    found[index] = np.append(np.float32(np.nan), values[start : start + length - 1])
        return found

    def pack(self, documents: Sequence[RolloutDocument]) -> list[Row]:
        """The documents in rows; no rows without documents."""
        plan = plan_rows([len(one.ids) for one in documents], self._row_tokens)
        return [build_row(documents, members, self._pad_to, self._scorer.longest) for members in plan]

    def _own(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that this process computes: as many as the others where all of them put a layer together."""
        own = list(rows[self._processes.index :: self._processes.count])
        if self._sharded:
            own += [self._empty_row()] * (-(-len(rows) // self._processes.count) - len(own))
        return own

    def _empty_row(self) -> Row:
        """A row without loss."""
        nothing = RolloutDocument(np.zeros(2, np.int64), np.zeros(2, bool), 0.0, 0.0)
        return replace(build_row([nothing], [0], self._pad_to, self._scorer.longest), documents=(), tokens=0)

    def step(self, rows: Sequence[Row], optimizer: torch.optim.Optimizer, max_grad_norm: float) -> dict[str, float]:
        """One optimizer step on the documents of one or more rows; what it measured, as `rl.losses.summarise` names it.

        Besides: `grad_norm`, how many `rows`, the real `row_tokens` in them, and `padding`, the share that is not.

        Raises:
            NonFiniteLoss: before the optimizer moved anything.
        """
        own = self._own(rows)
        parts = [own[start :: self._threads] for start in range(max(1, min(self._threads, len(own))))]
        results = list(self._pool.map(self._accumulate, parts)) if self._pool else [self._accumulate(own)]
        for master, *gradients in zip(self._masters.tensors, *(result.gradients for result in results), strict=True):
            master.grad = gradients[0]
            for gradient in gradients[1:]:
                master.grad += gradient
        if not self._sharded:  # those of sharded weights come added up
            self._processes.add_up([master.grad for master in self._masters.tensors if master.grad is not None])
        # A bound of 0 means no clipping, as in TRL.
        norm = whole(nn.utils.clip_grad_norm_(self._masters.tensors, max_grad_norm or math.inf))
        metrics = _read([loss for result in results for loss in result.losses], norm, self._processes)
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
        # All rows travel before the first is computed: a copy from pageable memory waits for what was started before.
        placed = [row.to(self._device) for row in rows]
        gradients = [] if self._sharded else [torch.zeros_like(master) for master in self._masters.tensors]
        losses = []
        for row in placed:
            result = self._loss(row)
            if row.documents:
                losses.append(PackedLoss(result.loss.detach(), result.sums, result.log_ratios))
            if self._sharded:
                result.loss.backward()
                continue
            found = torch.autograd.grad(result.loss, self._masters.weights, allow_unused=True, materialize_grads=True)
            torch._foreach_add_(gradients, found)  # in float32, whatever the weights compute in
        if self._sharded:
            gradients = [master.grad for master in self._masters.tensors if master.grad is not None]
        return _Part(gradients, losses)

    def _compile(self, say: Callable[[str], None]) -> None:
        """Compile forward and backward, on a row of padding: what fails, fails before the first step."""
        say("compiling the update, once for the run")
        started = time.perf_counter()
        self._scorer.compile_passes(True)
        self._pad_to = self._row_tokens
        self._scorer.train()  # compiled code is for one mode
        try:
            self._accumulate([self._empty_row()])
        except Exception as error:  # compilers fail in many ways
            if is_out_of_memory(error):
                raise
            self._scorer.compile_passes(False)
            self._pad_to = None
            say(
                "WARNING: torch.compile failed, and the update goes on without it, slower "
                f"({type(error).__name__}: {(str(error).splitlines() or [''])[0]})"
            )
        else:
            say(f"compiled in {time.perf_counter() - started:.0f} s")

    def _scores(self, row: Row, other: nn.Module | None = None) -> TokenScores:
        """Of the model, or of an `other` one, whose passes are not compiled."""
        scorer = self._scorer
        if other is not None:
            scorer = Scorer(other, scorer.temperature, scorer.longest)
        return TokenScores(*scorer(row.ids, row.positions, row.cu_seqlens, row.labels))

    def _loss(self, row: Row) -> PackedLoss:
        scores = self._scores(row)
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


def _read(losses: Sequence[PackedLoss], norm: Tensor, processes: Processes) -> dict[str, float]:
    """Everything that a step measured, in one transfer from the device."""
    if processes.count > 1:
        losses = [loss for loss in processes.each(lambda: _added(losses)) if loss is not None]
        norm = norm.cpu()
    names = list(losses[0].sums)
    sums = torch.stack([torch.stack([loss.sums[name].double() for name in names]) for loss in losses]).sum(0)
    ratios = ratio_percentiles(torch.cat([loss.log_ratios for loss in losses]))
    values = torch.cat([sums, ratios.double(), norm.double()[None]]).tolist()
    metrics = summarise(dict(zip(names, values, strict=False)))
    for name, value in zip(("p1", "p50", "p99"), values[len(names) :], strict=False):
        if not math.isnan(value):
            metrics[f"sampling/ratio_{name}"] = value
    return metrics | {"grad_norm": values[-1]}


def _added(losses: Sequence[PackedLoss]) -> PackedLoss | None:
    """The losses of one process as one, in main memory; None without any."""
    if not losses:
        return None
    sums = {name: torch.stack([loss.sums[name].double() for loss in losses]).sum(0) for name in losses[0].sums}
    moved = dict(zip(sums, torch.stack(list(sums.values())).cpu(), strict=True))
    return PackedLoss(moved["loss"], moved, torch.cat([loss.log_ratios for loss in losses]).cpu())

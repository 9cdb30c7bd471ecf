"""Rollouts laid end to end in rows of a token budget, with everything that the loss reads of them.

The layout is that of `rl.packing`: positions restart at every document, and what is known of a token stands at the
position before it, whose scores predict it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rl.packing import next_labels

FEWEST_PLACES = 16
"""For documents in a padded row."""


@dataclass(frozen=True, slots=True)
class RolloutDocument:
    """A prompt with its completion. All arrays are of shape [length].

    `learned`: bool, the tokens that carry loss. Log-probabilities are float32 in nats, read where `learned`; None:
    there are none. `weight` is that of `rl.losses.sequence_weights`.
    """

    ids: np.ndarray
    learned: np.ndarray
    advantage: float
    weight: float
    engine_logps: np.ndarray | None = None
    old_logps: np.ndarray | None = None
    ref_logps: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One forward pass. Tensors of shape [tokens] but cu_seqlens int32 [places + 1], advantages and weights [places].

    `documents` are indices into the list that was packed, `tokens` of the row are real, the rest is padding.
    """

    ids: Tensor
    labels: Tensor
    positions: Tensor
    cu_seqlens: Tensor
    document: Tensor
    advantages: Tensor
    weights: Tensor
    engine_logps: Tensor | None
    old_logps: Tensor | None
    ref_logps: Tensor | None
    documents: tuple[int, ...]
    tokens: int

    def to(self, device: torch.device) -> Row:
        """The row on another device, without waiting for the copy."""
        names = ("ids", "labels", "positions", "cu_seqlens", "document", "advantages", "weights")
        given = [name for name in ("engine_logps", "old_logps", "ref_logps") if getattr(self, name) is not None]
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=True) for name in (*names, *given)})


def plan_rows(lengths: Sequence[int], row_tokens: int) -> list[list[int]]:
    """Which documents share a row: first fit, the longest first. Deterministic.

    Raises:
        ValueError: a document is longer than a row.
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        length = lengths[index]
        if length > row_tokens:
            raise ValueError(f"a completion with its prompt has {length:,} tokens, a row only {row_tokens:,}")
        place = next((number for number, free in enumerate(room) if free >= length), None)
        if place is None:
            place = len(rows)
            rows.append([])
            room.append(row_tokens)
        rows[place].append(index)
        room[place] -= length
    return rows


def build_row(
    documents: Sequence[RolloutDocument], members: Sequence[int], pad_to: int | None = None, longest: int | None = None
) -> Row:
    """The documents of `members` as one row, padded to `pad_to` tokens, so that every row has one shape.

    Padding is documents of its own, of at most `longest` tokens (None: one), that carry no loss. The places of a padded
    row are a power of two: few shapes, and no more than half of them empty, since attention starts work for each.
    """
    chosen = [documents[index] for index in members]
    lengths = [len(one.ids) for one in chosen]
    real = sum(lengths)
    total = real if pad_to is None else pad_to
    padding = [min(longest or total, total - start) for start in range(real, total, longest or total)]
    parts = [*lengths, *padding]
    places = len(chosen) if pad_to is None else max(FEWEST_PLACES, 1 << (len(parts) - 1).bit_length())
    bounds = np.full(places + 1, total, np.int32)
    bounds[: len(parts) + 1] = np.cumsum([0, *parts])
    positions = np.concatenate([np.arange(length) for length in parts])
    document = np.repeat(np.arange(len(parts)), parts)
    ids = _filled(total, [one.ids for one in chosen], 0, np.int64)
    learned = _filled(total, [one.learned for one in chosen], False, np.bool_)
    labels = next_labels(ids, learned, bounds[: len(parts)])
    return Row(
        ids=torch.from_numpy(ids),
        labels=torch.from_numpy(labels),
        positions=torch.from_numpy(positions),
        cu_seqlens=torch.from_numpy(bounds),
        document=torch.from_numpy(document),
        advantages=_places([one.advantage for one in chosen], places),
        weights=_places([one.weight for one in chosen], places),
        engine_logps=_shifted(total, [one.engine_logps for one in chosen]),
        old_logps=_shifted(total, [one.old_logps for one in chosen]),
        ref_logps=_shifted(total, [one.ref_logps for one in chosen]),
        documents=tuple(members),
        tokens=real,
    )


def _filled(total: int, parts: Sequence[np.ndarray], filler: float, dtype: type[np.generic]) -> np.ndarray:
    """The parts end to end, then the filler."""
    whole = np.full(total, filler, dtype)
    joined = np.concatenate(parts)
    whole[: len(joined)] = joined
    return whole


def _shifted(total: int, parts: Sequence[np.ndarray | None]) -> Tensor | None:
    """What belongs to each token, at the position before it; None unless every document has it."""
    given = [part for part in parts if part is not None]
    if len(given) < len(parts) or not parts:
        return None
    whole = _filled(total, given, np.nan, np.float32)
    return torch.from_numpy(np.append(whole[1:], np.float32(np.nan)))


def _places(values: Sequence[float], places: int) -> Tensor:
    whole = np.zeros(places, np.float32)
    whole[: len(values)] = values
    return torch.from_numpy(whole)

"""Documents laid end to end in one row, without padding and without seeing each other.

A packed row is a flat sequence of tokens with cumulative document lengths, the layout of variable-length
attention kernels: positions restart at every document, attention is causal inside a document and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

IGNORE = -100
"""Label of a position that carries no loss (the convention of `torch.nn.functional.cross_entropy`)."""


def next_labels(ids: np.ndarray, taught: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The token after each position where it is taught, else IGNORE, int64 [tokens]; documents begin at `starts`."""
    taught = taught.copy()
    taught[starts] = False  # nothing before it to predict it from
    labels = np.full(len(ids), IGNORE, np.int64)
    labels[:-1] = np.where(taught[1:], ids[1:], IGNORE)
    return labels


@dataclass(frozen=True, slots=True)
class Document:
    """Token ids of one document, and which of them the model is taught to predict. Both of shape [length]."""

    ids: np.ndarray
    taught: np.ndarray


@dataclass(frozen=True, slots=True)
class PackedRow:
    """A row of `tokens` tokens.

    ids, labels, positions: int64 of shape [tokens]; `labels[t]` is the token after position t if it is taught and of
    the same document, else IGNORE. cu_seqlens: int32 of shape [documents + 1], padded at its end with `tokens`
    (documents of length zero) so that its shape does not change from row to row.
    """

    ids: np.ndarray
    labels: np.ndarray
    positions: np.ndarray
    cu_seqlens: np.ndarray


def pack(documents: Iterable[Document], tokens: int, max_documents: int) -> PackedRow:
    """Fill one row to the last token; the document that does not fit is cut there, and the rest left alone.

    Raises ValueError when the stream ends early or holds more than `max_documents` for one row.
    """
    ids = np.empty(tokens, np.int64)
    taught = np.empty(tokens, bool)
    positions = np.empty(tokens, np.int64)
    bounds = [0]
    for document in documents:
        start = bounds[-1]
        length = min(len(document.ids), tokens - start)
        ids[start : start + length] = document.ids[:length]
        taught[start : start + length] = document.taught[:length]
        positions[start : start + length] = np.arange(length)
        bounds.append(start + length)
        if bounds[-1] == tokens:
            break
    if bounds[-1] < tokens:
        raise ValueError(f"the documents hold {bounds[-1]} tokens; a row needs {tokens}")
    if len(bounds) - 1 > max_documents:
        raise ValueError(f"{len(bounds) - 1} documents in one row; at most {max_documents} are allowed")
    labels = next_labels(ids, taught, np.array(bounds[:-1]))
    cu_seqlens = np.full(max_documents + 1, tokens, np.int32)
    cu_seqlens[: len(bounds)] = bounds
    return PackedRow(ids, labels, positions, cu_seqlens)

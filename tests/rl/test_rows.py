"""Rollouts in rows: nothing is lost, and what is known of a token stands where its score is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rl.packing import IGNORE
from rl.rows import RolloutDocument, build_row, plan_rows


def document(ids: list[int], prompt: int, advantage: float = 1.0) -> RolloutDocument:
    learned = np.arange(len(ids)) >= prompt
    logps = np.where(learned, -np.array(ids, np.float32), np.nan).astype(np.float32)
    return RolloutDocument(np.array(ids), learned, advantage, 0.5, engine_logps=logps)


@given(st.lists(st.integers(1, 20), max_size=30), st.integers(20, 50))
def test_every_document_is_in_one_row_and_rows_hold_what_they_can(lengths: list[int], row_tokens: int) -> None:
    rows = plan_rows(lengths, row_tokens)
    assert sorted(index for row in rows for index in row) == list(range(len(lengths)))
    assert all(sum(lengths[index] for index in row) <= row_tokens for row in rows)
    # First fit leaves at most one row that is no more than half full.
    assert sum(2 * sum(lengths[index] for index in row) <= row_tokens for row in rows) <= 1


def test_a_document_longer_than_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="30 tokens, a row only 20"):
        plan_rows([5, 30], 20)


def test_layout_by_hand() -> None:
    row = build_row([document([7, 8, 9], 1), document([4, 5], 1, advantage=-2.0)], [0, 1], pad_to=None)
    assert row.ids.tolist() == [7, 8, 9, 4, 5]
    assert row.labels.tolist() == [8, 9, IGNORE, 5, IGNORE]
    assert row.positions.tolist() == [0, 1, 2, 0, 1]
    assert row.cu_seqlens.tolist() == [0, 3, 5]
    assert row.document.tolist() == [0, 0, 0, 1, 1]
    assert row.advantages.tolist() == [1.0, -2.0]
    assert row.engine_logps is not None and row.engine_logps[row.labels != IGNORE].tolist() == [-8.0, -9.0, -5.0]
    assert row.old_logps is None


@pytest.mark.parametrize("ids", [[[3, 4, 5]], [[3], [4, 5], [6, 7, 8, 9]], [[1, 2, 3, 4, 5, 6, 7, 8]]])
def test_padding_gives_every_row_one_shape_and_carries_no_loss(ids: list[list[int]]) -> None:
    documents = [document(one, 1) for one in ids]
    padded = build_row(documents, range(len(ids)), pad_to=8)
    plain = build_row(documents, range(len(ids)), pad_to=None)
    assert padded.ids.shape == padded.labels.shape == padded.positions.shape == padded.document.shape == (8,)
    real = len(plain.ids)
    assert padded.tokens == real
    assert torch.equal(padded.labels[:real], plain.labels) and (padded.labels[real:] == IGNORE).all()
    assert padded.cu_seqlens[-1] == 8 and (padded.cu_seqlens.diff() >= 0).all()
    assert padded.document.max() < len(padded.advantages)


def test_padding_is_documents_no_longer_than_the_longest() -> None:
    row = build_row([document([1, 2, 3], 1), document([4, 5], 1)], [0, 1], pad_to=16, longest=4)
    lengths = row.cu_seqlens.diff().tolist()
    assert [length for length in lengths if length] == [3, 2, 4, 4, 3] and row.tokens == 5
    assert row.positions.tolist() == [*range(3), *range(2), *range(4), *range(4), *range(3)]
    assert row.document.tolist() == [0] * 3 + [1] * 2 + [2] * 4 + [3] * 4 + [4] * 3
    assert not row.weights[2:].any() and (row.labels[5:] == IGNORE).all()


@pytest.mark.parametrize(("documents", "places"), [(1, 16), (15, 16), (16, 32), (40, 64)])
def test_padded_rows_have_few_shapes_and_few_empty_places(documents: int, places: int) -> None:
    row = build_row([document([1, 2], 1)] * documents, range(documents), pad_to=128)
    assert len(row.cu_seqlens) == places + 1 and row.advantages.shape == row.weights.shape == (places,)
    assert row.document.max() < places


def test_the_first_token_of_a_document_is_never_predicted() -> None:
    """Not even one that is marked: what stands before it belongs to another document."""
    row = build_row([document([1, 2], 0), document([3, 4], 0)], [0, 1], pad_to=None)
    assert row.labels.tolist() == [2, IGNORE, 4, IGNORE]

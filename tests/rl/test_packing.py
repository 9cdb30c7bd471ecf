"""Packed rows: nothing lost, nothing leaks from one document into the labels of the next."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.packing import IGNORE, Document, pack


def document(ids: list[int], taught: list[bool] | None = None) -> Document:
    return Document(np.array(ids), np.array(taught or [True] * len(ids)))


def test_two_documents_by_hand() -> None:
    row = pack([document([5, 6, 7]), document([8, 9], [True, False])], tokens=5, max_documents=4)
    assert row.ids.tolist() == [5, 6, 7, 8, 9]
    assert row.positions.tolist() == [0, 1, 2, 0, 1]
    assert row.labels.tolist() == [6, 7, IGNORE, IGNORE, IGNORE]
    assert row.cu_seqlens.tolist() == [0, 3, 5, 5, 5]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.data())
def test_labels_stay_inside_their_document(lengths: list[int], data: st.DataObject) -> None:
    tokens = data.draw(st.integers(1, sum(lengths)))
    documents = [document(list(range(100 * i, 100 * i + n))) for i, n in enumerate(lengths)]
    row = pack(documents, tokens, max_documents=len(lengths))
    assert row.ids.tolist() == np.concatenate([d.ids for d in documents])[:tokens].tolist()
    taught = row.labels != IGNORE
    assert (row.labels[taught] == row.ids[taught] + 1).all()
    bounds = row.cu_seqlens[row.cu_seqlens < tokens]
    assert taught.sum() == tokens - len(bounds)
    assert (row.positions[bounds] == 0).all()


def test_a_stream_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="hold 3 tokens; a row needs 4"):
        pack([document([1, 2, 3])], tokens=4, max_documents=9)


def test_more_documents_than_the_row_has_places_for() -> None:
    with pytest.raises(ValueError, match="3 documents in one row; at most 2"):
        pack([document([1, 2])] * 3, tokens=6, max_documents=2)

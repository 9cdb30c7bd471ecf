"""Sizes by hand: 4,096 bytes a token and blocks of 32 tokens make 128 KiB a block."""

from __future__ import annotations

import pytest

from reasoning.engine.base import EngineError
from reasoning.engine.memory import GIB, cpu_kv_bytes

KIB = 1024


def size(context: int, sequences: int = 256, free: int = 20 * GIB, asked: int | None = None) -> int:
    return cpu_kv_bytes(
        token_bytes=4096,
        block_size=32,
        max_model_len=context,
        max_num_seqs=sequences,
        free_bytes=free,
        asked_bytes=asked,
    )


def test_no_more_than_the_largest_batch_can_use():
    assert size(320, sequences=4) == 4 * 11 * 128 * KIB


def test_the_default_is_two_gib():
    assert size(65_536) == 2 * GIB


def test_the_default_grows_to_hold_one_request():
    assert size(800_000) == (25_000 + 1) * 128 * KIB


def test_half_of_the_free_memory_is_left_alone():
    assert size(65_536, free=GIB) == GIB // 2


def test_what_was_asked_for_is_taken():
    assert size(65_536, free=GIB, asked=3 * GIB) == 3 * GIB


@pytest.mark.parametrize(("free", "asked", "allowed"), [(GIB // 4, None, "0.125"), (20 * GIB, GIB // 4, "0.25")])
def test_less_than_one_request_is_refused_with_the_numbers(free, asked, allowed):
    with pytest.raises(EngineError) as raised:
        size(65_536, free=free, asked=asked)
    assert str(raised.value) == (
        "one request of 65,536 tokens needs 0.25 GiB of KV cache (4,096 bytes a token), "
        f"allowed are {allowed} GiB; set engine.kv_cache_gb to 0.26 or more, or use a shorter context"
    )


def test_the_size_that_is_suggested_is_enough():
    assert size(65_536, asked=int(0.26 * GIB)) == int(0.26 * GIB)

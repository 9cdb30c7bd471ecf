"""How many requests may run at once, by hand."""

from __future__ import annotations

import pytest

from reasoning.admission import Admission, check_capacity, describe
from reasoning.engine.base import CacheTooSmall
from reasoning.kv_cache import CacheGroup, KvCache
from reasoning.layers import MixerKind


def cache(blocks: int) -> KvCache:
    """Of Qwen2.5-7B in bfloat16: 28 layers x 4 KV heads x 128 x 2 x 2 bytes = 57,344 a token."""
    return KvCache((CacheGroup(MixerKind.FULL, 28, 16, 16 * 57_344),), 16 * 57_344, blocks)


def test_the_line_says_what_a_request_takes():
    line = describe(cache(56_000), 50_000, 51_200)
    assert line == "KV: 57,344 B a token, 2.73 GiB a request at 50k, room for 17 at once in 47.9 GiB"


def test_as_many_as_fit_at_their_largest_may_always_start():
    admit = Admission(cache(3 * 100), 1600)
    assert [admit(unfinished, free_blocks=0) for unfinished in range(5)] == [True, True, True, False, False]


def test_more_may_start_while_all_can_still_grow_by_an_eighth():
    admit = Admission(cache(300), 1600)  # 100 blocks each, an eighth is 13
    assert admit(9, free_blocks=130)
    assert not admit(9, free_blocks=129)
    assert not admit(10, free_blocks=130)


def test_a_number_that_is_set_is_kept():
    admit = Admission(cache(300), 1600, is_set=True)
    assert admit(200, free_blocks=0)
    assert admit.room == 3


def test_one_request_has_to_fit():
    check_capacity(cache(100), 1600)
    with pytest.raises(CacheTooSmall) as refused:
        Admission(cache(99), 1600)
    said = str(refused.value)
    assert (
        "one request of 1,600 tokens needs 87.5 MiB of KV cache (57,344 bytes a token), and there are 86.6 MiB" in said
    )
    assert "smaller --budgets" in said

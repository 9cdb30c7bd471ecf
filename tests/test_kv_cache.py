"""Blocks and bytes by hand, against a manager that allocates step by step, and over a whole run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning.kv_cache import CacheGroup, KvCache, cache_of_shape, growth
from reasoning.layers import MixerKind
from reasoning.model_shape import kv_bytes_per_token, load_shape
from tests.test_model_shape import DEEPSEEK_V3, GEMMA3_4B, GPT_OSS, LLAMA_8B, QWEN3_8B, QWEN3_NEXT

FULL = CacheGroup(MixerKind.FULL, layers=4, block_tokens=16, page_bytes=16 * 1000)
SLIDING = replace(FULL, kind=MixerKind.SLIDING, window=100)
STATE = replace(FULL, kind=MixerKind.STATE, state_blocks=1)


def held_step_by_step(group: CacheGroup, steps: list[int]) -> list[int]:
    """Blocks after each step: what is out of sight of the next token is freed, then room is made for the new ones."""
    table: list[bool] = []
    computed, held = 0, []
    for new in steps:
        out_of_sight = max(0, computed - group.window + 1) // group.block_tokens if group.window else 0
        table[:out_of_sight] = [False] * min(out_of_sight, len(table))
        computed += new
        table += [True] * (-(-computed // group.block_tokens) - len(table))
        held.append(sum(table))
    return held


@given(
    block=st.integers(1, 40),
    window=st.integers(0, 200),
    prompt=st.integers(1, 300),
    decoded=st.integers(0, 300),
)
def test_blocks_are_those_of_a_manager_that_goes_step_by_step(block, window, prompt, decoded):
    group = CacheGroup(MixerKind.SLIDING if window else MixerKind.FULL, 1, block, block, window)
    steps = [prompt] + [1] * decoded
    lengths = [prompt + number for number in range(decoded + 1)]
    found = [group.blocks(tokens, new) for tokens, new in zip(lengths, steps, strict=True)]
    assert found == held_step_by_step(group, steps)
    assert max(map(group.blocks, range(1, lengths[-1] + 1))) == group.most_blocks(lengths[-1])


def test_a_sliding_window_stops_growing():
    assert [SLIDING.blocks(tokens) for tokens in (1, 16, 17, 100)] == [1, 1, 2, 7]
    # 99 tokens before the new one and itself: seven blocks at best, eight where they begin inside one
    assert {SLIDING.blocks(tokens) for tokens in range(200, 50_000)} == {7, 8}
    assert SLIDING.most_blocks(50_000) == 8
    assert FULL.blocks(50_000) == 3125


def test_a_state_is_one_block_whatever_the_length():
    assert [STATE.blocks(tokens) for tokens in (0, 1, 50_000)] == [0, 1, 1]


def test_room_waste_and_capacity_by_hand():
    cache = KvCache((FULL,), block_bytes=16_000, blocks=100)
    assert (cache.request_blocks(100), cache.request_bytes(100)) == (7, 112_000)
    assert (cache.room(100), cache.capacity_tokens(100), cache.bytes_per_token) == (14, 1428, 1000)
    assert cache.waste_share(100) == pytest.approx(12 / 112)
    assert cache.waste_share(112) == 0
    hybrid = KvCache((FULL, SLIDING), block_bytes=16_000, blocks=100)
    assert hybrid.request_blocks(1000) == 63 + 8
    assert hybrid.waste_share(1000) == pytest.approx(1 - 1100 / (16 * (63 + 7)))
    assert KvCache.from_json(hybrid.as_json()) == hybrid


def test_the_cache_of_a_shape_alone():
    """Llama-3.1-8B: 128 KiB a token, 2 MiB a block of 16, one of which vLLM keeps."""
    cache = cache_of_shape(load_shape(LLAMA_8B), 10 * 2**30, 2)
    assert (cache.block_bytes, cache.blocks) == (2 * 2**20, 5119)
    assert cache.room(50_000) == 5119 // 3125
    qwen = cache_of_shape(load_shape(QWEN3_8B), 80e9, 2)
    assert qwen.request_bytes(50_000) == 50_000 * kv_bytes_per_token(load_shape(QWEN3_8B), 2)  # whole blocks
    latent = cache_of_shape(load_shape(DEEPSEEK_V3), 80e9, 2)
    assert latent.bytes_per_token == 61 * 576 * 2


def test_unequal_kinds_are_split_into_groups_of_equally_many_layers():
    gemma = cache_of_shape(load_shape(GEMMA3_4B), 80e9, 2)  # 5 full layers, 29 sliding ones
    assert sorted(group.layers for group in gemma.groups) == [4, 5, 5, 5, 5, 5, 5]
    assert gemma.block_bytes == 5 * 16 * 2 * 4 * 256 * 2
    long = gemma.request_bytes(50_000)
    assert long == (3125 + 6 * 65) * gemma.block_bytes  # 65 blocks of 16 hold a window of 1,024
    gpt = cache_of_shape(load_shape(GPT_OSS), 80e9, 2)
    assert [(group.kind.value, group.layers, group.window) for group in gpt.groups] == [
        ("sliding", 12, 128),
        ("full", 12, 0),
    ]


def test_where_there_are_states_a_page_of_attention_holds_one():
    cache = cache_of_shape(load_shape(QWEN3_NEXT), 80e9, 2)
    assert [group.kind.value for group in cache.groups] == ["state"] * 3 + ["full"]
    assert len({group.page_bytes for group in cache.groups[:3]}) == 1
    assert cache.groups[0].page_bytes >= 12 * 2 * (32 * 128 * 128 + 8192 * 3)
    assert cache.request_blocks(50_000) == 3 + -(-50_000 // cache.groups[3].block_tokens)


def state(time_s: float, used: int, predicted: int, shared: int = 0, running: int = 2, **more: int) -> dict:
    values = {"kv_blocks_used": used, "kv_blocks_predicted": predicted, "kv_blocks_shared": shared}
    return {"time_s": time_s, "running": running, "preemptions": 0, "recomputed_tokens": 0, **values, **more}


def test_growth_over_two_attempts_by_hand():
    cache = KvCache((FULL,), block_bytes=10, blocks=50)
    first = [state(1, 4, 6, 2), state(3, 8, 8, preemptions=3, recomputed_tokens=40)]
    second = [
        state(2, 10, 7, preemptions=9, recomputed_tokens=90),
        state(4, 0, 0, running=0, preemptions=10, recomputed_tokens=95),
    ]
    found = growth([(cache, first), (cache, second)], 100)
    assert [sample.time_s for sample in found.samples] == [0, 2, 2, 4]
    assert [sample.predicted_bytes for sample in found.samples] == [40, 80, 70, 0]
    assert [sample.preemptions for sample in found.samples] == [0, 3, 0, 1]
    assert found.byte_seconds == 2 * (40 + 80) / 2 + 2 * (100 + 0) / 2
    assert (found.peak_bytes, found.preemptions, found.recomputed_tokens) == (100, 4, 45)
    assert found.outside == 1  # 10 used and 7 predicted, with two running
    stored = found.as_json(correct=11, samples=4)
    assert (stored["byte_seconds_per_correct"], stored["preemptions_per_sample"]) == (20, 1)
    assert found.as_json(correct=0, samples=4)["byte_seconds_per_correct"] is None
    assert growth([(cache, [])], 100) is None

"""Operations and bytes, against counting by hand and position by position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning.compute import (
    Scores,
    Storage,
    attention_flops,
    cache_bytes,
    decode_flops,
    head_flops,
    prefill_cache_bytes,
    prefill_flops,
    scores_of,
    seen_tokens,
    step_weight_bytes,
    stored_bytes,
    token_flops,
)
from reasoning.model_shape import kv_layers, load_shape
from tests.test_model_shape import DEEPSEEK_V3, GPT_OSS, LLAMA_8B, config

TINY = load_shape(config("llama", 8, 2, 4, 2, 16, 100, head_dim=4))
BF16 = Storage(2, 2, 2)


def test_a_token_costs_two_operations_a_weight():
    # q 8x16, k and v 8x8 each, o 16x8; gate, up and down 8x16 each; norms are no products
    assert token_flops(TINY) == 2 * 2 * (8 * 16 + 2 * 8 * 8 + 16 * 8 + 3 * 8 * 16)
    assert head_flops(TINY) == 2 * 8 * 100


def test_scores_cost_four_operations_a_head_number_and_token_in_sight():
    assert attention_flops(scores_of(TINY), 9, 10, decode=True) == 2 * 4 * 4 * 4 * 10  # layers x 4 x heads x size x 10


def test_a_latent_layer_decodes_on_compressed_vectors_and_prefills_on_expanded_ones():
    (scores,) = scores_of(load_shape(DEEPSEEK_V3))
    assert scores == Scores(0, 61 * 2 * 128 * (192 + 128), 61 * 2 * 128 * (2 * 512 + 64))


def test_windows_are_apart():
    assert sorted(scores.window for scores in scores_of(load_shape(GPT_OSS))) == [0, 128]


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 40))
def test_tokens_in_sight_are_those_of_every_position(start, more, window):
    each = (min(position + 1, window) if window else position + 1 for position in range(start, start + more))
    assert seen_tokens(start, start + more, window) == sum(each)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_parts_add_up(start, first, second):
    shape, middle = load_shape(GPT_OSS), start + first
    whole = decode_flops(shape, start, middle + second)
    assert decode_flops(shape, start, middle) + decode_flops(shape, middle, middle + second) == whole


def test_a_prompt_makes_logits_once():
    assert prefill_flops(TINY, 0, 10) == decode_flops(TINY, 0, 10) - 9 * head_flops(TINY)
    assert prefill_flops(TINY, 10, 10) == 0


def test_a_step_reads_the_head_whole_and_of_the_embedding_a_row():
    llama = load_shape(LLAMA_8B)
    whole = stored_bytes(llama, BF16)
    assert whole == 2 * 8_030_261_248
    table = 2 * 128256 * 4096
    assert step_weight_bytes(llama, 4, BF16) == whole - table + 4 * 2 * 4096
    assert step_weight_bytes(llama, 4, Storage(1, 2, 2)) == (whole - 2 * table) / 2 + table + 4 * 2 * 4096


def test_experts_are_read_as_far_as_tokens_go_to_them():
    mixed = load_shape(GPT_OSS)
    one = step_weight_bytes(mixed, 1, BF16)
    assert one == pytest.approx(2 * (mixed.active_layer_parameters + mixed.head_parameters + mixed.hidden_size))
    many = step_weight_bytes(mixed, 10_000, BF16) - 2 * 10_000 * mixed.hidden_size
    assert many == pytest.approx(2 * (mixed.layer_parameters + mixed.head_parameters))
    two = step_weight_bytes(mixed, 2, BF16)  # 32 (1 - (28/32)^2) = 7.5 of 32 experts
    layer = mixed.layers[0].mlp
    assert two - one == pytest.approx(2 * 24 * 3.5 * layer.expert_parameters + 2 * mixed.hidden_size)


def test_a_decoded_token_reads_what_it_sees_and_writes_itself():
    llama = kv_layers(load_shape(LLAMA_8B), 2)
    assert cache_bytes(llama, 999, 1000) == 131072 * (1000 + 1)
    assert prefill_cache_bytes(llama, 0, 1000) == 131072 * 2000
    assert prefill_cache_bytes(llama, 600, 1000) == 131072 * 1400


def test_a_window_stops_what_is_read():
    groups = kv_layers(load_shape(GPT_OSS), 2)
    each = 12 * 2 * 8 * 64 * 2
    assert cache_bytes(groups, 4999, 5000) == each * (5000 + 1) + each * (128 + 1)

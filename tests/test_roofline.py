"""The time of a step, on a device with round numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reasoning.compute import Storage, decode_flops
from reasoning.hardware import HARDWARE, Hardware, Reached
from reasoning.model_shape import load_shape
from reasoning.roofline import Setup, Wall, decode_step, prefill
from tests.test_model_shape import LLAMA_8B

NO_WAITS = Reached(
    weights_share=0.5,
    cache_share=0.25,
    head_rate=1e15,
    matrix_share=0.5,
    layer_s=0.0,
    step_s=0.0,
    logit_bytes=0,
    host_s=0.0,
    host_request_s=0.0,
    overlaps=True,
    eager_layer_s=0.0,
    source="made up",
)
ROUND = Hardware("round", "Round", 100e9, 1.0, 0.0, 4e12, 1e15, None, NO_WAITS, "made up", link=1e12)
LLAMA = load_shape(LLAMA_8B)
SETUP = Setup(LLAMA, ROUND, Storage(2, 2, 2))
READ = 2 * (LLAMA.layer_parameters + LLAMA.head_parameters)


def waiting(**reached: float) -> Setup:
    return replace(SETUP, hardware=replace(ROUND, reached=replace(NO_WAITS, **reached)))


def test_one_request_reads_weights_and_cache_at_what_is_reached():
    step = decode_step(SETUP, 1, 10_000)
    assert step.weights_s == pytest.approx((READ + 2 * 4096) / 2e12)
    assert step.cache_s == pytest.approx(131072 * 10_001 / 1e12)
    assert step.seconds == pytest.approx(step.weights_s + step.cache_s)
    assert step.flops == decode_flops(LLAMA, 9_999, 10_000)
    assert step.wall is Wall.BANDWIDTH


def test_many_requests_compute():
    step = decode_step(SETUP, 1000, 1)
    assert step.products_s == pytest.approx(1000 * 2 * 7.5e9 / 0.5e15, rel=0.01)
    assert step.wall is Wall.COMPUTE


def test_few_heads_cannot_use_all_of_the_bandwidth():
    slow = decode_step(waiting(head_rate=1e9), 2, 1000)
    assert slow.cache_s == pytest.approx(2 * 131072 * 1001 / (2 * 8 * 1e9))


def test_the_host_hides_behind_the_device_or_adds_to_it():
    device_s = decode_step(SETUP, 1, 1).seconds
    hidden = decode_step(waiting(host_s=device_s / 2), 1, 1)
    assert hidden.seconds == pytest.approx(device_s)
    bound = decode_step(waiting(host_s=0.01, host_request_s=0.001), 10, 1)
    assert bound.seconds == pytest.approx(0.02)
    assert bound.wall is Wall.HOST
    serial = waiting(host_s=0.01, overlaps=False)
    assert decode_step(serial, 1, 1).seconds == pytest.approx(device_s + 0.01)


def test_kernels_cost_time_even_when_they_read_little():
    step = decode_step(waiting(layer_s=1e-3, step_s=2e-3), 1, 1)
    assert step.waits_s == pytest.approx(32 * 1e-3 + 2e-3)
    assert step.wall is Wall.HOST


def test_launches_of_single_kernels_hide_behind_a_long_step():
    eager = replace(waiting(eager_layer_s=1e-3), graphs=False)
    assert decode_step(eager, 1, 1).seconds == pytest.approx(32e-3)
    long = decode_step(eager, 32, 50_000)
    assert long.seconds == pytest.approx(long.device_s)
    assert long.device_s > 0.2


def test_drafts_read_their_own_layer_of_the_cache():
    plain, drafting = decode_step(SETUP, 16, 20_000), decode_step(replace(SETUP, drafts=3), 16, 20_000)
    assert drafting.cache_s == pytest.approx(plain.cache_s * (1 + 3 / 32))


def test_a_long_prompt_computes_and_a_cached_one_does_not():
    whole, rest = prefill(SETUP, 8000), prefill(SETUP, 8000, cached=7900)
    assert whole.wall is Wall.COMPUTE
    assert whole.products_s == pytest.approx(8000 * 2 * (LLAMA.layer_parameters) / 0.5e15, rel=0.01)
    assert rest.products_s < whole.products_s / 50
    assert rest.wall is Wall.BANDWIDTH


def test_the_cache_is_what_the_weights_leave():
    weights = 2 * LLAMA.parameters
    assert SETUP.cache.capacity_bytes == pytest.approx(100e9 - weights, rel=1e-3)
    assert replace(SETUP, devices=2).cache.capacity_bytes == pytest.approx(200e9 - weights, rel=1e-3)


def test_two_devices_share_the_reading():
    one, two = decode_step(SETUP, 16, 20_000), decode_step(replace(SETUP, devices=2), 16, 20_000)
    assert two.weights_s + two.cache_s == pytest.approx((one.weights_s + one.cache_s) / 2)
    assert two.waits_s == pytest.approx(2 * 32 * (10e-6 + 16 * 4096 * 2 / 1e12))


def test_a_cache_of_one_head_is_on_both_devices():
    latent = tuple(replace(layer, mixer=replace(layer.mixer, kv_heads=1)) for layer in LLAMA.layers)
    one = replace(SETUP, shape=replace(LLAMA, layers=latent))
    two = replace(one, devices=2)
    assert decode_step(two, 16, 20_000).cache_s == decode_step(one, 16, 20_000).cache_s
    assert two.cache.capacity_bytes == pytest.approx(100e9 - one.weight_bytes / 2, rel=1e-3)


def test_an_8b_model_at_64_times_50k_is_beyond_an_h200():
    setup = Setup(LLAMA, HARDWARE["h200"], Storage(2, 2, 2))
    assert setup.cache.request_bytes(50_000) * 64 == pytest.approx(50_000 * 131072 * 64, rel=1e-3)
    assert setup.cache.room(50_000) < 64

"""Plans and techniques: what fits, what it takes, and that a technique helps only where its wall binds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reasoning.config import ConfigError
from reasoning.hardware import HARDWARE
from reasoning.model_shape import load_shape
from reasoning.planning import Workload, decode_seconds, make_setup, plan
from reasoning.roofline import Wall, decode_step
from reasoning.techniques import evaluation_seconds, rank
from reasoning.training_roofline import Training, update_seconds
from reasoning.types import NO_LIMIT
from tests.test_model_shape import LLAMA_8B, config

LLAMA = load_shape(LLAMA_8B | {"max_position_embeddings": 131072})
SMALL = load_shape(config("qwen3", 256, 6, 4, 2, 512, 1000, head_dim=64))
H200 = HARDWARE["h200"]
SETUP = make_setup(LLAMA, H200)
WORK = Workload((1000, 10_000, 50_000))


def gains(setup, work) -> dict[str, float]:
    ranking = rank(setup, work)
    return {gain.name: gain.factor for gain in (*ranking.could, *ranking.in_use, *ranking.training)}


def test_a_sample_decodes_its_trace_and_an_answer_at_every_budget():
    assert WORK.decoded(10_000) == 10_000 + 2 * 512
    assert WORK.longest(10_000) == 200 + 10_000 + 512


def test_steps_of_a_trace_add_up():
    """Where nothing changes from one position to the next, time is tokens times a step."""
    work = replace(WORK, tasks=10, budgets=(2,), prompt_tokens=1000)
    step = decode_step(SETUP, 4, 1000).seconds
    rest = decode_step(SETUP, 2, 1000).seconds
    assert decode_seconds(SETUP, work, 2, 4) == pytest.approx(work.decoded(2) * (2 * step + rest), rel=0.05)


def test_larger_budgets_leave_room_for_fewer_and_take_longer():
    small, middle, large = plan(SETUP, WORK)
    assert small.room > middle.room > large.room > 0
    assert large.at_once == large.room < 256 == small.at_once
    assert small.seconds < middle.seconds < large.seconds
    assert large.decoded_tokens == 500 * (50_000 + 3 * 512)
    assert large.tokens_per_s == pytest.approx(large.decoded_tokens / large.decode_s)


def test_cost_is_time_at_the_price():
    (found,) = plan(SETUP, replace(WORK, budgets=(1000,), price_per_hour=3.6))
    assert found.cost == pytest.approx(found.seconds * 0.001)


def test_a_small_model_waits_for_the_host_and_a_large_one_for_memory():
    assert plan(make_setup(SMALL, H200), Workload((1000,)))[0].wall is Wall.HOST
    assert plan(SETUP, WORK)[-1].wall is Wall.BANDWIDTH


def test_little_memory_is_a_wall_of_its_own():
    tight = replace(H200, memory_bytes=26e9)
    found = plan(make_setup(LLAMA, tight), Workload((4000,)))[0]
    assert found.wall is Wall.CAPACITY
    assert found.at_once == found.room < 20


@pytest.mark.parametrize(
    ("work", "hardware", "message"),
    [
        (Workload((1000, 200_000)), H200, "budget 200k is more than .* 131,072 positions .* leave 130,360; .*130360"),
        (Workload((1000,), prompt_tokens=131_000), H200, "a prompt of 131,000 tokens .* use smaller --prompt-tokens"),
        (Workload((NO_LIMIT,)), H200, "budget none has no limit"),
        (Workload((1000,)), HARDWARE["snapdragon-8-elite"], "the weights do not fit: 15 GiB of them, and Qualcomm"),
        (Workload((100_000,)), replace(H200, memory_bytes=26e9), "not one request of 100,712 tokens fits"),
    ],
)
def test_what_cannot_be_is_refused_with_its_numbers(work, hardware, message):
    with pytest.raises(ConfigError, match=message):
        plan(make_setup(LLAMA, hardware), work)


def test_unknown_types_are_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="--kv-dtype int3 is not known; write one of fp32, bf16, fp16, fp8"):
        make_setup(LLAMA, H200, kv_dtype="int3")


def test_the_head_keeps_its_type_when_weights_are_quantised():
    setup = make_setup(LLAMA, H200, weight_dtype="int4", kv_dtype="fp8")
    assert (setup.storage.layer_weight, setup.storage.head_weight, setup.storage.kv) == (0.53, 2.0, 1.0)
    stored = make_setup(load_shape(LLAMA_8B | {"quantization_config": {"quant_method": "awq"}}), H200)
    assert stored.storage.layer_weight == 0.53
    groups = {"group_0": {"weights": {"num_bits": 4}}}
    for asked, expected in (
        ({"quant_method": "gptq", "bits": 8}, 1),
        ({"quant_method": "compressed-tensors", "config_groups": groups}, 0.53),
        ({"quant_method": "fp8"}, 1),
    ):
        setup = make_setup(load_shape(LLAMA_8B | {"quantization_config": asked}), H200)
        assert setup.storage.layer_weight == expected, asked
    with pytest.raises(ConfigError, match="quantization_config = 'awq', where an object is needed"):
        load_shape(LLAMA_8B | {"quantization_config": "awq"})


def test_quantised_weights_help_where_weights_are_read():
    alone = replace(WORK, concurrency=1, tasks=1, budgets=(1000,))
    found = gains(SETUP, alone)
    assert found["4-bit weights"] > 1.8 > found["8-bit weights"] > 1.4
    assert found["FP8 KV cache"] == pytest.approx(1.0, abs=0.05)


def test_what_does_not_bind_brings_nothing():
    found = gains(make_setup(SMALL, H200), Workload((1000,)))
    for name in ("8-bit weights", "4-bit weights", "FP8 KV cache", "tensor parallel on 2", "latent attention"):
        assert found[name] == pytest.approx(1.0, abs=0.02), name


def test_a_smaller_cache_helps_long_thinking():
    found = gains(SETUP, WORK)
    assert found["sliding-window attention"] > found["latent attention"] > found["FP8 KV cache"] > 1.5
    assert found["8-bit weights"] < 1.2
    assert found["CUDA graphs"] == pytest.approx(1, abs=0.02), "the device is busy while kernels are launched"


def test_two_devices_are_not_more_than_twice_as_fast_without_a_larger_batch():
    work = replace(WORK, concurrency=8)
    found = gains(SETUP, work)
    assert found["data parallel on 2"] == pytest.approx(2, abs=0.05)
    assert found["tensor parallel on 2"] < 2


def test_gains_are_ratios_of_the_same_evaluation():
    fp8 = make_setup(LLAMA, H200, kv_dtype="fp8")
    now, then = evaluation_seconds(SETUP, WORK), evaluation_seconds(fp8, WORK)
    assert gains(SETUP, WORK)["FP8 KV cache"] == pytest.approx(now / then)
    assert "FP8 KV cache" not in gains(fp8, WORK)


def test_what_the_engine_does_anyway_is_told_apart():
    ranking = rank(SETUP, WORK)
    assert {gain.name for gain in ranking.in_use} == {"CUDA graphs", "prefix caching", "asynchronous scheduling"}
    assert all(gain.factor >= 1 for gain in ranking.in_use)
    mac = rank(make_setup(LLAMA, HARDWARE["m4-max"]), replace(WORK, budgets=(1000,)))
    assert {gain.name for gain in mac.in_use} == {"prefix caching"}
    assert not {"tensor parallel on 2", "separated prefill"} & {gain.name for gain in mac.could}, "nothing joins two"


def test_gains_come_largest_first_with_their_sources():
    for part in (rank(SETUP, WORK).could, rank(SETUP, WORK).training):
        assert [gain.factor for gain in part] == sorted((gain.factor for gain in part), reverse=True)
        assert all(gain.source and gain.note for gain in part)


def test_the_training_model_gives_back_what_it_was_fitted_to():
    """A 1.5B shape, packed rows, bf16, eager, on an H200: 37,317 tokens a second; with checkpointing 30,293."""
    qwen = load_shape(config("qwen2", 1536, 28, 12, 2, 8960, 151936, tie_word_embeddings=True))
    setup, work = make_setup(qwen, H200), Workload((500,))
    eager = update_seconds(setup, work, Training(compiled=False))
    assert 2**18 / eager == pytest.approx(37_317, rel=0.1)
    again = update_seconds(setup, work, Training(compiled=False, checkpointing=True))
    assert eager / again == pytest.approx(30_293 / 37_317, rel=0.1)


def test_fp8_training_brings_nothing_without_units_for_it():
    found = gains(make_setup(LLAMA, HARDWARE["a100"]), replace(WORK, budgets=(1000,)))
    assert found["FP8 products"] == 1.0


def test_half_the_bytes_train_no_faster_where_fp32_is_as_fast():
    found = gains(make_setup(LLAMA, HARDWARE["m4-max"]), replace(WORK, budgets=(1000,)))
    assert found["bf16"] == 1.0


def test_a_checkpoint_in_fp32_is_run_in_16_bits():
    single = load_shape(LLAMA_8B | {"dtype": "float32", "torch_dtype": "float32"})
    assert make_setup(single, H200).storage == SETUP.storage

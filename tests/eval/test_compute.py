"""Samples in operations, bytes and seconds; axes; the roofline of a run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from eval.axes import AXES, find_axis, short, with_prefix
from eval.compute import RunWork, recost
from eval.curves import MISSING, GradedSample
from eval.roofline_plots import Roof, RooflinePoint, roofline, run_roofline
from eval.throughput import Throughput
from reasoning.compute import Storage, decode_flops, prefill_flops
from reasoning.config import ConfigError
from reasoning.model_shape import load_shape
from reasoning.throughput import Speed
from reasoning.types import FinishReason, SampleKey
from tests.eval.test_gallery import numbers
from tests.test_model_shape import LLAMA_8B

LLAMA = load_shape(LLAMA_8B)


def sample(number: int, prompt: int = 100, thinking: int = 500, answer: int = 20, decoded: int | None = None):
    return GradedSample(
        SampleKey(f"t{number}", 0, 1000),
        None,
        "correct",
        thinking,
        answer,
        FinishReason.ANSWERED,
        *(False, False, False, False, None),
        prompt_tokens=prompt,
        completion_tokens=thinking + answer,
        decoded_tokens=thinking + answer if decoded is None else decoded,
    )


def work(samples: list[GradedSample], **changes) -> RunWork:
    decoded = sum(one.decoded_tokens for one in samples)
    prompts = sum(one.prompt_tokens for one in samples)
    found = RunWork(LLAMA, Storage(2, 2, 2), 520, decoded, prompts, seconds=10.0, joules=4000.0)
    return replace(found, **changes)


def test_a_sample_costs_its_prompt_and_its_tokens_and_the_last_is_never_computed():
    alone = [sample(0)]
    (found,) = recost(alone, AXES["flops"], work(alone), None)
    expected = prefill_flops(LLAMA, 0, 100) + decode_flops(LLAMA, 100, 619)
    assert found.spent_tokens == expected
    assert found.answer_tokens == decode_flops(LLAMA, 600, 619)
    assert work(alone).run_flops(alone) == pytest.approx(expected, rel=1e-3)


def test_probes_are_charged_where_the_trace_had_come_to():
    asked = [replace(sample(0), probe_tokens=7)]
    (found,) = recost(asked, AXES["flops"], work(asked), None)
    assert found.probe_tokens == 7 * decode_flops(LLAMA, 619, 620)


def test_what_samples_cost_adds_up_to_the_run():
    """One budget, no prefix shared: every token was computed for one sample."""
    samples = [sample(number, thinking=100 * (number + 1)) for number in range(5)]
    found = work(samples, steps=520)
    for axis, whole in (("gpu-seconds", 10.0), ("joules", 4000.0), ("dollars", 10 * 3.6 / 3600)):
        costed = recost(samples, AXES[axis], found, 3.6 if axis == "dollars" else None)
        assert sum(one.spent_tokens for one in costed) * AXES[axis].unit == pytest.approx(whole, rel=0.01)


def test_a_fork_that_shares_its_trace_is_computed_once():
    trace, fork = sample(0, thinking=900), sample(1, thinking=300, decoded=20)
    found = work([trace, fork], prompt_tokens=100)
    both = found.run_flops([trace, fork])
    assert both == pytest.approx(
        prefill_flops(LLAMA, 0, 100) + decode_flops(LLAMA, 100, 1019) + decode_flops(LLAMA, 400, 419), rel=1e-3
    )


def test_more_in_a_step_share_its_weights():
    samples = [sample(number) for number in range(4)]
    alone, together = work(samples, steps=4 * 520), work(samples, steps=520)
    assert (alone.step_tokens, together.step_tokens) == (1, 4)
    assert together.bytes(100, 200) < alone.bytes(100, 200) / 3


def test_missing_samples_cost_nothing_and_stay_missing():
    lost = replace(sample(0), status=MISSING, thinking_tokens=0, answer_tokens=0)
    assert recost([lost, sample(1)], AXES["flops"], work([lost, sample(1)]), None)[0] == lost


def test_axes_are_found_and_written():
    assert find_axis("gpu-seconds").per_sample == "Device-seconds per sample, mean (log scale)"
    assert find_axis("tokens").per_task == "Tokens spent per task, all samples together, mean (log scale)"
    with pytest.raises(ConfigError, match=r"--axis joule is not known. Did you mean joules\?"):
        find_axis("joule")
    assert [with_prefix(value) for value in (2e13, 5e9, 1500, 0.02, 5e-5, 2e-8)] == [
        "20T",
        "5G",
        "1.5k",
        "0.02",
        "50µ",
        "20n",
    ]
    assert [short(value) for value in (500, 2000, 3e6)] == ["500", "2k", "3M"]


def test_a_roofline_has_its_numbers(tmp_path):
    roofs = [Roof("reached", 4e12, 8e14), Roof("data sheet", 4.8e12, 1e15)]
    points = [RooflinePoint("one", 1.6e10, 1.6e10, 0.005), RooflinePoint("prompt", 1.6e13, 1.6e10, 0.02)]
    found = numbers(roofline(roofs, points, tmp_path / "r", title="t", caption="c"))
    assert [point["intensity"] for point in found["points"]] == [1, 1000]
    assert [point["flops_per_s"] for point in found["points"]] == [3.2e12, 8e14]
    assert roofs[0].at(1) == 4e12 and roofs[0].at(1e4) == 8e14
    assert roofline(roofs, [], tmp_path / "none", title="t", caption="c") == []


def test_a_profiled_run_has_a_roofline_of_its_own_steps(tmp_path):
    speeds = tuple(
        Speed(batch, batch, float(batch), position, batch / 0.01, 2e10, 100, seconds)
        for batch, position, seconds in ((4, 1000.0, 3.0), (4, 1010.0, 2.0), (64, 2000.0, 5.0))
    )
    found = Throughput("NVIDIA H200", 300, 300, 4.2e12, 0.5, 0.0, None, {}, {}, {}, speeds, ())
    drawn = json.loads(run_roofline(found, work([sample(0)]), tmp_path / "run", note="")[2].read_text())
    assert [point["name"] for point in drawn["points"]] == ["64 at 2,000", "4 at 1,000"], "not two on each other"
    assert drawn["points"][0]["flops"] == pytest.approx(64 * decode_flops(LLAMA, 2000, 2001))
    assert drawn["roofs"][0]["bandwidth"] == 4.2e12
    assert run_roofline(replace(found, copy_rate=None), work([sample(0)]), tmp_path / "no", note="") == []

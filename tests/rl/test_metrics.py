"""A line a step: what is written, what is shown, and what sets off an alarm."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from reasoning.files import read_json_lines
from rl.metrics import PHASES, MetricsLog, StepTimes, alarms, console_line, flops_per_token, seconds_left, throughput


def test_phases_add_up_to_the_step() -> None:
    times = StepTimes()
    times.add("generate", 2.0)
    times.add("update", 1.0)
    times.add("update", 0.5)
    found = times.finish(4.0)
    assert found["time/update"] == 1.5 and found["time/idle"] == 0.5
    assert sum(found[f"time/{phase}"] for phase in PHASES) == found["time/step"] == 4.0


def test_what_is_left_counts_the_steps_that_make_rollouts() -> None:
    """One step in four takes 13 s, the others 1 s: 4 s a step, wherever in a cycle one looks."""
    recent = [1.0, 13.0, 1.0, 1.0, 1.0, 13.0, 1.0, 1.0, 1.0]
    assert [seconds_left(recent[: 9 - shift], 4, 10) for shift in range(4)] == [40.0] * 4
    assert seconds_left([30.0, 2.0, 2.0], 1, 5) == 10.0  # a first step that had more to do is no measure
    assert seconds_left([13.0, 1.0], 4, 5) == 35.0


def test_throughput_by_hand() -> None:
    rates = throughput(1000, 0.5, 3000, 2.0, flops_per_token=6e6, peak_flops=1e11)
    assert rates == {"update_tokens_per_s": 2000.0, "mfu": pytest.approx(0.12), "generated_tokens_per_s": 1500.0}
    assert throughput(0, 0.0, 0, 0.0, 6e6, None) == {}


@pytest.mark.parametrize("tied", [True, False])
def test_an_embedding_that_is_only_looked_up_costs_nothing(tied: bool) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 0, "num_attention_heads": 4, "vocab_size": 64}
    model = LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=tied, pad_token_id=0))
    assert flops_per_token(model) == 6 * (32 + 64 * 32)  # the last norm and the head


def test_the_log_forgets_what_its_checkpoint_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, None)
    log.append(0, {"held_out/accuracy@16": 0.1})
    for step in (1, 2, 3):
        log.append(step, {"reward": math.nan if step == 2 else 0.5})
    log.close()
    again = MetricsLog(path, 2)
    again.close()
    assert again.measured == {0}
    assert list(read_json_lines(path)) == [
        {"step": 0, "held_out/accuracy@16": 0.1},
        {"step": 1, "reward": 0.5},
        {"step": 2, "reward": None},
    ]
    MetricsLog(path, None).close()
    assert list(read_json_lines(path)) == []


def test_a_line_shows_what_there_is() -> None:
    times = StepTimes()
    times.add("update", 1.0)
    line = console_line(3, 9, times.finish(1.25) | {"reward": 0.5, "grad_norm": 0.1, "padding": 0.02, "mfu": 0.3}, 400)
    assert line.startswith("step 3/9  reward 0.500")
    for part in ("update 1.0", "idle 0.2", "padding 2.0%", "MFU 30.0%"):
        assert part in line
    assert "nothing to learn from" in console_line(1, 9, times.finish(1.0), 8.0)


def test_an_engine_with_other_weights_is_noticed() -> None:
    assert alarms({"sampling/sampling_logp_difference/mean": 0.01}) == []
    assert alarms({}) == []
    [alarm] = alarms({"sampling/sampling_logp_difference/mean": 0.6})
    assert "0.60 nats" in alarm

"""The figure of the KV cache: what is drawn, what is only named, and how long runs are thinned."""

from __future__ import annotations

from dataclasses import replace

from eval.kv_plots import kv_growth, thinned
from reasoning.kv_cache import CacheGroup, KvCache, growth
from reasoning.layers import MixerKind
from tests.eval.test_gallery import numbers
from tests.eval.test_plots import words
from tests.test_kv_cache import state

CACHE = KvCache((CacheGroup(MixerKind.FULL, 4, 16, 2**20),), block_bytes=2**20, blocks=12)
STATES = [
    state(0, 4, 4),
    state(1, 9, 10, 2),
    state(2, 12, 12, preemptions=5, recomputed_tokens=1234),
    state(3, 0, 0, preemptions=5, recomputed_tokens=1234),
]
GROWTH = growth([(CACHE, STATES)], 100)


def test_prediction_measurement_capacity_and_preemptions(tmp_path):
    found = numbers(kv_growth(GROWTH, tmp_path / "kv", device="a GPU", note="PARTIAL RUN."))
    assert [sample["measured_bytes"] // 2**20 for sample in found["samples"]] == [4, 9, 12, 0]
    assert [sample["predicted_bytes"] // 2**20 for sample in found["samples"]] == [4, 8, 12, 0]
    assert (found["capacity_bytes"], found["peak_bytes"], found["preemptions"]) == (12 * 2**20, 12 * 2**20, 5)
    assert "On a GPU." in found["caption"]
    assert "Peak 12 MiB of 12 MiB." in found["caption"]
    assert "5 preemptions: 1,234 tokens were computed again" in found["caption"]
    assert "PARTIAL RUN." in found["caption"]
    assert {"capacity", "preempted (5)", "KV cache (MiB)"} <= set(words(tmp_path / "kv.svg"))


def test_a_capacity_far_above_is_named_and_not_drawn(tmp_path):
    found = numbers(kv_growth(replace(GROWTH, capacity_bytes=2**40), tmp_path / "kv", device="", note=""))
    assert "Peak 12 MiB of 1,024 GiB." in found["caption"]
    assert "capacity" not in words(tmp_path / "kv.svg")


def test_a_run_that_used_nothing_has_no_figure(tmp_path):
    assert kv_growth(growth([(CACHE, STATES[:1])], 100), tmp_path / "kv", device="", note="") == []
    assert kv_growth(growth([(CACHE, [STATES[3], STATES[3]])], 100), tmp_path / "kv", device="", note="") == []


def test_long_runs_keep_their_peaks_and_all_preemptions():
    samples = [
        replace(GROWTH.samples[0], time_s=n, measured_bytes=n * 7 % 1009, preemptions=n % 2) for n in range(1000)
    ]
    kept = thinned(samples, 100)
    assert len(kept) == 100
    assert sum(sample.preemptions for sample in kept) == 500
    assert max(s.measured_bytes for s in kept) == max(s.measured_bytes for s in samples)
    assert thinned(samples, 1000) == samples

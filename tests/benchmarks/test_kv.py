"""What the benchmarks of the KV cache decide, by hand."""

from __future__ import annotations

from dataclasses import asdict

from benchmarks.kv_growth import as_growth, requests
from benchmarks.kv_pressure import cut_bytes
from reasoning.kv_cache import KvGrowth, KvSample


def test_the_cut_cache_holds_one_request_at_least():
    kv = {"largest_request_bytes": 100, "block_bytes": 10, "peak_bytes": 5000}
    assert cut_bytes(kv, 0.1) == 500
    assert cut_bytes(kv, 0.01) == 120  # one request, vLLM's placeholder, and what rounding takes


def test_prompts_of_all_lengths_of_which_every_second_shares_a_beginning():
    made = requests(9, 1600, 7, 50)
    assert [len(request.prompt_ids) for request in made] == [100, 141, 200, 283, 400, 566, 800, 1131, 1600]
    assert made[1].prompt_ids[:50] == made[0].prompt_ids[:50]
    assert made[1].prompt_ids[50:60] != made[0].prompt_ids[50:60]
    assert made[2].prompt_ids[:50] != made[1].prompt_ids[:50]
    assert {request.max_tokens for request in made} == {7}
    assert all(4 <= token < 50 for request in made for token in request.prompt_ids)


def test_a_record_is_drawn_from_what_was_measured():
    sample = KvSample(time_s=0.0, running=2, measured_bytes=30, predicted_bytes=20, preemptions=1)
    found = KvGrowth((sample,), 4.0, 10, 100, 40, 0.1, 30, 5.0, preemptions=1, recomputed_tokens=7, outside=1)
    record = {**found.as_json(correct=0, samples=2), "samples": [asdict(sample)], "requests": 2}
    assert as_growth(record) == found

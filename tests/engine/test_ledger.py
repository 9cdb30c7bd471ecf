from __future__ import annotations

from enum import Enum
from types import SimpleNamespace

from reasoning.engine.base import Output, StopReason
from reasoning.engine.ledger import Ledger

Type = Enum("Type", ["QUEUED", "SCHEDULED", "PREEMPTED"])


def event(name: str, timestamp: float) -> SimpleNamespace:
    return SimpleNamespace(type=Type[name], timestamp=timestamp)


def core(core_id: str, *new: int, finish: str | None = None, events=None, prefill=None) -> SimpleNamespace:
    return SimpleNamespace(
        request_id=core_id, new_token_ids=list(new), finish_reason=finish, events=events, prefill_stats=prefill
    )


def opened(flush_at: int) -> tuple[Ledger, str]:
    ledger = Ledger()
    core_id = ledger.new_core_id("a")
    ledger.open(core_id, "a", flush_at)
    ledger._entries[core_id].added = 100.0
    return ledger, core_id


def test_a_request_from_its_first_ids_to_its_last():
    ledger, a = opened(flush_at=3)
    prefill = SimpleNamespace(num_prompt_tokens=50, num_cached_tokens=32)
    assert ledger.collect([core(a, 1, events=[event("SCHEDULED", 101.0)], prefill=prefill)], now=102.0) == []
    first = Output("a", (1, 2, 3, 4), finished=False, cached_tokens=32)
    assert ledger.collect([core(a, 2, 3, 4)], now=103.0) == [first]
    preempted = [event("PREEMPTED", 104.0), event("SCHEDULED", 105.0)]
    assert ledger.collect([core(a, 5, events=preempted)], now=106.0) == []
    (last,) = ledger.collect([core(a, 6, finish="stop")], now=110.0)
    assert (last.new_ids, last.finished, last.stop_reason, last.error) == ((5, 6), True, StopReason.STOP, None)
    assert last.cached_tokens == 0  # they came with the first output
    assert last.timings is not None
    assert (last.timings.queued_s, last.timings.first_token_s, last.timings.total_s) == (1.0, 2.0, 10.0)
    assert last.timings.preemptions == ledger.preemptions == 1
    assert (ledger.prompt_tokens, ledger.cached_tokens, ledger.generated_tokens) == (50, 32, 6)
    assert len(ledger) == 0
    assert "a" not in ledger


def test_ids_of_a_forgotten_request_are_counted_and_dropped():
    ledger, a = opened(flush_at=1)
    assert ledger.forget("a") == a
    assert ledger.forget("a") is None
    again = ledger.new_core_id("a")
    assert again != a
    ledger.open(again, "a", flush_at=1)
    assert ledger.collect([core(a, 8, 8), core(again, 9)], now=1.0) == [Output("a", (9,), finished=False)]
    assert ledger.generated_tokens == 3


def test_cached_tokens_come_with_a_last_output_that_is_the_first():
    ledger, a = opened(flush_at=9)
    prefill = SimpleNamespace(num_prompt_tokens=50, num_cached_tokens=32)
    assert ledger.collect([core(a, 1, prefill=prefill)], now=1.0) == []
    (last,) = ledger.collect([core(a, 2, finish="length")], now=2.0)
    assert (last.new_ids, last.cached_tokens) == ((1, 2), 32)


def test_any_other_end_is_an_error():
    ledger, a = opened(flush_at=1)
    (last,) = ledger.collect([core(a, finish="abort")], now=1.0)
    assert (last.stop_reason, last.error) == (StopReason.ERROR, "vLLM ended the request: abort")

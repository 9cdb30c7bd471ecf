"""A trace as the row that is stored: spans, texts and what can be told of them."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from reasoning.budget.confidence import answer_confidence, thinking_confidence
from reasoning.budget.loops import WINDOW, ends_in_loop
from reasoning.budget.moments import Moments
from reasoning.budget.trace import Trace
from reasoning.engine.base import Output
from reasoning.prompts import Ids, find
from reasoning.types import FinishReason, Generation, SampleKey, Timings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_WITHOUT_ANSWER = frozenset({FinishReason.UNCLOSED, FinishReason.CUT, FinishReason.ERROR})


def generation(
    key: SampleKey,
    prompt_ids: Ids,
    trace: Trace,
    tokenizer: PreTrainedTokenizerBase,
    *,
    finish_reason: FinishReason,
    forced: bool,
    seed: int,
    decoded_tokens: int,
    cached_tokens: int,
    timings: Timings,
    error: str | None,
    logprobs: bool,
) -> Generation:
    """The row of one sample at one budget. `forced`: the last injected span is the closing that the answer follows.

    `logprobs`: it keeps those of its ids.
    """
    ids = tuple(trace.ids)
    answer_start = None if finish_reason in _WITHOUT_ANSWER else trace.answer_start
    answer = () if answer_start is None else ids[answer_start:]
    # A second closing marker tells that the model went on thinking in what should have been its answer.
    thinks_again = trace.reopened or find(answer, trace.markers.close_ids) >= 0
    return Generation(
        key=key,
        prompt_ids=prompt_ids,
        completion_ids=ids,
        thinking=tuple((start, end) for start, end in trace.sections if start < end),
        injected=tuple(trace.injected),
        answer_start=answer_start,
        text=_decode(tokenizer, ids, skip_special_tokens=False),
        answer_text=_decode(tokenizer, answer, skip_special_tokens=True),
        finish_reason=finish_reason,
        bound=forced or finish_reason is FinishReason.CUT,
        forced=forced,
        escaped=thinks_again or finish_reason is FinishReason.ANSWER_LENGTH,
        looped=ends_in_loop(_thinking_tail(trace)),
        waits=len(trace.injected) - forced,
        seed=seed,
        decoded_tokens=decoded_tokens,
        cached_tokens=cached_tokens,
        timings=replace(timings, sample_answer_s=None) if answer_start is None else timings,
        error=error,
        answer_confidence=None if answer_start is None else answer_confidence(trace.logprobs[answer_start:]),
        thinking_confidence=thinking_confidence(of_thinking(trace)),
        logprobs=tuple(trace.logprobs) if logprobs else (),
    )


def _thinking_tail(trace: Trace) -> list[int]:
    """The end of the thinking, over all sections: its last `WINDOW` tokens, and maybe more."""
    return list(chain.from_iterable(trace.ids[max(start, end - WINDOW) : end] for start, end in trace.sections))


def of_thinking(trace: Trace) -> list[float]:
    """Log-probabilities of the thinking, over all sections."""
    return list(chain.from_iterable(trace.logprobs[start:end] for start, end in trace.sections))


def _decode(tokenizer: PreTrainedTokenizerBase, ids: Ids, *, skip_special_tokens: bool) -> str:
    if tokenizer.is_fast:  # transformers' own checks take longer than the decoding: 7 ms for 50,000 ids
        return tokenizer.backend_tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
    text = tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False)
    assert isinstance(text, str)
    return text


def timings_of(started: float, output: Output | None, moments: Moments, *, forced: bool) -> Timings:
    """As the engine saw the last request, except what is since `started`, of the sample's first one.

    `forced`: the output is the answer, and all of it.
    """
    total_s = time.perf_counter() - started
    first_s, answer_s = moments.first_s, moments.answer_s
    if output is None or output.timings is None:
        return Timings(total_s=total_s, sample_first_s=first_s)
    known = output.timings
    if forced and first_s is not None:
        answer_s = total_s - known.total_s + known.first_token_s
    return Timings(
        known.queued_s,
        known.first_token_s,
        total_s,
        known.preemptions,
        known.recomputed_tokens,
        sample_first_s=first_s,
        sample_answer_s=answer_s,
    )

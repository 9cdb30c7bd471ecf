"""What completions earn, by name and by hand."""

import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reasoning.config import ConfigError
from reasoning.types import FinishReason, Generation, SampleKey, Task
from rl.advantages import weighted_sum
from rl.reward_input import RewardInput, reward_input
from rl.rewards import REWARDS, load_reward, score
from verifiers import grade
from verifiers.base import Status, Verdict

TASK = Task("t", ({"role": "user", "content": "?"},), "3", "numeric")


def verdict(status: Status = Status.CORRECT, score: float | None = None) -> Verdict:
    return Verdict(status, "3", "3", "numeric", score=score)


def sample(status: Status = Status.CORRECT, **fields: Any) -> RewardInput:
    plain = RewardInput(
        task=TASK,
        verdict=verdict(status),
        completion_ids=(1, 2, 3),
        thinking_tokens=2,
        budget=100,
        finished=True,
        closed_once=True,
        text="<think>so</think>3",
        answer_text="3",
    )
    return replace(plain, **fields)


def rewards(name: str, samples: Sequence[RewardInput], **options: Any) -> list[float | None]:
    return load_reward(name, options)(samples)


def test_accuracy_pays_for_correct_alone_and_says_nothing_when_the_verifier_failed() -> None:
    assert rewards("accuracy", [sample(status) for status in Status]) == [1, 0, 0, 0, None]


def test_a_share_of_the_tests_where_there_is_one() -> None:
    shares = [
        sample(verdict=verdict(Status.WRONG, 0.75)),
        sample(verdict=verdict(Status.CORRECT, 1.0)),
        sample(verdict=verdict(Status.TIMEOUT, 0.25)),
        sample(Status.CORRECT),
        sample(Status.NO_ANSWER),
        sample(Status.ERROR),
    ]
    assert rewards("code_partial", shares) == [0.75, 1, 0.25, 1, 0, None]


def test_form_is_a_thinking_closed_once_and_an_answer_behind_it() -> None:
    forms = [sample(), sample(Status.WRONG), sample(closed_once=False), sample(answer_text=" \n")]
    assert rewards("format", forms) == [1, 1, 0, 0]


def generation(**fields: Any) -> Generation:
    plain = Generation(
        key=SampleKey("t", 0, 100),
        prompt_ids=(9,),
        completion_ids=(1, 2, 3, 4),
        thinking=((0, 2),),
        injected=(),
        answer_start=3,
        text="a b </think> 3",
        answer_text="3",
        finish_reason=FinishReason.ANSWERED,
        bound=False,
        forced=False,
        escaped=False,
        looped=False,
        waits=0,
        seed=0,
        decoded_tokens=4,
        cached_tokens=0,
    )
    return replace(plain, **fields)


@pytest.mark.parametrize(
    ("fields", "closed_once", "finished"),
    [
        ({}, True, True),
        ({"forced": True, "bound": True}, False, True),
        ({"escaped": True}, False, True),
        ({"escaped": True, "finish_reason": FinishReason.ANSWER_LENGTH}, False, False),
        ({"answer_start": None, "finish_reason": FinishReason.UNCLOSED, "answer_text": ""}, False, True),
        ({"answer_start": None, "finish_reason": FinishReason.CUT, "answer_text": ""}, False, False),
    ],
)
def test_the_record_of_a_rollout(fields: dict[str, Any], closed_once: bool, finished: bool) -> None:
    record = reward_input(TASK, generation(**fields), verdict())
    assert (record.closed_once, record.finished) == (closed_once, finished)
    assert (record.thinking_tokens, record.budget) == (2, 100)


def test_exact_length() -> None:
    used = [sample(status, thinking_tokens=1500) for status in (Status.CORRECT, Status.WRONG, Status.ERROR)]
    assert rewards("length_exact", used, target=1000, alpha=0.0003) == pytest.approx([0.85, -0.15, None])
    assert rewards("length_exact", [sample(thinking_tokens=500)], target=1000) == pytest.approx([0.85])


def test_largest_length() -> None:
    def at(used: int, status: Status = Status.CORRECT) -> RewardInput:
        return sample(status, thinking_tokens=used)

    used = [at(4000), at(3000), at(5000), at(0), at(20000), at(0, Status.WRONG)]
    found = rewards("length_max", used, target=4000, alpha=0.0003)
    assert found == pytest.approx([0.5, 0.65, 0.35, 1, 0, 0])


def test_numbers_of_the_command_line_are_numbers() -> None:
    used = [sample(completion_ids=(1,) * 90, thinking_tokens=500)]
    assert rewards("soft_overlong", used, longest="100", cache="20") == pytest.approx([-0.5])
    assert rewards("length_exact", used, target="1000", alpha="1e-3") == pytest.approx([0.5])


def test_a_target_of_no_tokens_is_a_target() -> None:
    assert rewards("length_exact", [sample(thinking_tokens=500)], target=0, alpha=0.001) == pytest.approx([0.5])


@pytest.mark.parametrize(("name", "earned"), [("length_exact", 0.5), ("length_max", 0.75)])
def test_a_length_reward_without_a_target_aims_at_the_budget(name: str, earned: float) -> None:
    assert rewards(name, [sample(thinking_tokens=50, budget=100)], alpha=0.01) == pytest.approx([earned])


def test_overlong_completions() -> None:
    lengths = [sample(completion_ids=(0,) * length) for length in (0, 80, 81, 90, 100, 101)]
    assert rewards("soft_overlong", lengths, longest=100, cache=20) == pytest.approx([0, 0, -0.05, -0.5, -1, -1])


def test_repeated_pairs() -> None:
    ids = [(1, 2, 3, 4), (5, 5, 5, 5, 5), (5,), ()]
    found = rewards("repetition", [sample(completion_ids=one) for one in ids], n=2)
    assert found == pytest.approx([0, -0.75, 0, 0])


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 4))
def test_repetition_lies_between_the_penalty_and_zero(ids: list[int], n: int) -> None:
    (found,) = score(
        {"r": load_reward("repetition", {"n": n, "penalty": -2.0})}, [sample(completion_ids=tuple(ids))]
    ).values
    assert -2 < found.item() <= 0


@pytest.mark.parametrize("answer", ["\\boxed{1, 2, 3, 4}", "\\boxed{1} \\boxed{2} \\boxed{3} \\boxed{4}", "1 2 3 4"])
def test_a_list_of_guesses_earns_nothing(answer: str) -> None:
    guesses = sample(verdict=grade("numeric", answer, "3", {}), answer_text=answer)
    assert rewards("accuracy", [guesses]) == [0]


MINE = """
def share(samples, scale=1.0):
    return [scale * sample.thinking_tokens for sample in samples]

def short(samples):
    return [1.0] * (len(samples) - 1)

def words(samples):
    return ["good" for _ in samples]

def forgetful(samples):
    pass

def endless(samples):
    return [float("inf") for _ in samples]

def fragile(samples):
    return [1 / (sample.thinking_tokens - 2) for sample in samples]

def stuck(samples):
    import re
    for sample in samples:
        if sample.thinking_tokens == 2:
            re.match("(a+)+$", "a" * 64 + "b")  # ends after the universe, and never lets another thread run
    return [1.0] * len(samples)

def deadly(samples):
    import os
    if any(sample.thinking_tokens == 2 for sample in samples):
        os.abort()
    return [1.0] * len(samples)
number = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of a user, importable."""
    (tmp_path / "my_rewards.py").write_text(MINE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_rewards", raising=False)
    return "my_rewards"


def test_a_function_of_the_user(mine: str) -> None:
    assert load_reward(f"{mine}:share", {"scale": 0.5})([sample(), sample(thinking_tokens=7)]) == [1, 3.5]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("acuracy", {}, "no reward is called 'acuracy'; did you mean accuracy"),
        ("xyz", {}, r"use accuracy, .*, repetition or your package.module:function"),
        ("nowhere_at_all:f", {}, "nowhere_at_all cannot be imported"),
        ("my_rewards:nothing", {}, "my_rewards has no 'nothing'"),
        ("my_rewards:number", {}, "is a int, not a function"),
        ("my_rewards:share", {"scal": 1}, r"my_rewards:share\(samples, scal=1\): got an unexpected keyword"),
        ("soft_overlong", {"longest": 3}, r"soft_overlong\(samples, longest=3\): missing a required.*'cache'"),
        ("soft_overlong", {"longest": 10, "cache": 20}, "cache is 20, longest is 10"),
        ("repetition", {"penalty": 1.0}, r"penalty is 1\.0"),
        ("repetition", {"n": 2.5}, r"reward repetition: n is 2\.5; input should be a valid integer"),
        ("length_exact", {"target": "far"}, "reward length_exact: target is 'far'; input should be a valid integer"),
        ("length_max", {"alpha": math.nan}, "reward length_max: alpha is nan; input should be a finite number"),
    ],
)
def test_rewards_that_cannot_be_loaded(mine: str, name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_reward(name, options)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("short", "reward my_rewards:short returned 2 values for 3 samples; return one value a sample"),
        ("words", "reward my_rewards:words returned something that is neither a number nor None"),
        ("forgetful", "reward my_rewards:forgetful returned NoneType, not one value a sample"),
        ("endless", "reward my_rewards:endless returned an infinite value"),
    ],
)
def test_wrong_returns_stop_the_run_and_name_the_reward(mine: str, function: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score({"mine": load_reward(f"{mine}:{function}", {})}, [sample()] * 3)


def test_a_reward_that_raises_costs_only_the_samples_it_raises_on(mine: str) -> None:
    samples = [sample(thinking_tokens=3), sample(thinking_tokens=2), sample(thinking_tokens=4)]
    found = score({"accuracy": REWARDS["accuracy"], "mine": load_reward(f"{mine}:fragile", {})}, samples)
    assert found.values.tolist() == [[1, 1], [1, pytest.approx(math.nan, nan_ok=True)], [1, 0.5]]
    assert found.errors == {"mine": (1, "ZeroDivisionError: division by zero")}


@pytest.mark.parametrize(("function", "message"), [("stuck", "no answer within 1 s"), ("deadly", "the worker died")])
def test_a_reward_that_hangs_or_dies_costs_only_the_samples_it_does_that_on(
    mine: str, function: str, message: str
) -> None:
    samples = [sample(thinking_tokens=2 if number % 4 == 0 else 3) for number in range(12)]
    started = time.monotonic()
    found = score({"mine": load_reward(f"{mine}:{function}", {}, deadline_s=1.0)}, samples)
    assert [math.isnan(value) for value in found.values[:, 0]] == [number % 4 == 0 for number in range(12)]
    assert found.errors["mine"][0] == 3 and message in found.errors["mine"][1]
    assert time.monotonic() - started < 30


@given(
    status=st.sampled_from(Status),
    span=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    meta=st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.integers())),
    text=st.text(),
)
def test_a_sample_survives_json(status: Status, span: tuple[int, int] | None, meta: dict[str, Any], text: str) -> None:
    one = sample(
        task=replace(TASK, meta=meta), verdict=replace(verdict(status), span=span), text=text, answer_text=text
    )
    assert RewardInput.of(json.loads(json.dumps(one.line()))) == one


def test_rewards_that_are_missing_do_not_count_as_zero() -> None:
    loaded = {name: load_reward(name, {}) for name in ("accuracy", "format")}
    found = score(loaded, [sample(), sample(Status.ERROR), sample(Status.WRONG)])
    assert weighted_sum(found.values, [1.0, 0.5]).tolist() == [1.5, 0.5, 0.5]
    assert np.isnan(found.values[1, 0]) and not found.errors

"""Training texts are right wherever they are taught, and slips are found by the second look."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from reasoning.tasks.countdown import is_test
from rl.packing import Document
from rl.traces import TraceMix, attempt_length, documents
from rl.vocabulary import ID, WORDS

OPERATIONS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__}


@dataclass(frozen=True)
class Text:
    """A document in words."""

    numbers: list[int]
    target: str
    words: list[str]  # of the thinking
    taught: list[bool]
    answer: list[str] | None
    closing_taught: bool


def read(document: Document) -> Text:
    words = [WORDS[i] for i in document.ids]
    start = words.index("<think>") + 1
    assert words[0] == "<|user|>" and words[start - 2] == "<|assistant|>"
    assert not document.taught[:start].any()
    end = words.index("</think>") if "</think>" in words else len(words)
    closed = end < len(words)
    return Text(
        [int(word) for word in words[1 : start - 3]],
        words[start - 3],
        words[start:end],
        document.taught[start:end].tolist(),
        words[end + 1 :] if closed else None,
        bool(document.taught[end]) if closed else False,
    )


def solves(steps: list[str], numbers: list[int], target: str) -> bool:
    left = Counter(map(str, numbers))
    for a, operator, b, result in zip(*[iter(steps)] * 4, strict=True):
        if not left[a] or not left[b] or (a == b and left[a] < 2):
            return False
        left -= Counter((a, b))
        if OPERATIONS[operator](int(a), int(b)) != int(result[1:]):
            return False
        left[result[1:]] += 1
    return left == Counter({target[1:]: 1})


def sample(level: int, mix: TraceMix, count: int = 300, limit: int = 600) -> list[Text]:
    found = list(documents(level, count, limit, mix, np.random.default_rng(level)))
    assert all(len(document.ids) <= limit for document in found)
    return [read(document) for document in found]


@pytest.mark.parametrize("level", [3, 4, 5, 6])
def test_every_attempt_is_a_legal_play_with_the_right_verdict(level: int) -> None:
    for text in sample(level, TraceMix(slipped=0, forced=0)):
        width, at = attempt_length(level), 0
        while at + width <= len(text.words) and text.words[at] != "check":
            attempt = text.words[at : at + width]
            assert attempt[:level] == [str(number) for number in text.numbers]
            assert attempt[-2] == text.target
            assert (attempt[-1] == "yes") == solves(attempt[level:-2], text.numbers, text.target)
            at += width
        assert all(text.taught)


@pytest.mark.parametrize("level", [3, 4, 5, 6])
def test_closed_thinking_answers_with_a_solution(level: int) -> None:
    texts = [text for text in sample(level, TraceMix(forced=0)) if text.answer and text.answer[-1] == "<|end|>"]
    assert len(texts) > 20
    for text in texts:
        assert text.answer is not None and text.words[-1] == "ok" and text.closing_taught
        assert solves(text.answer[:-1], text.numbers, text.target)


@pytest.mark.parametrize("level", [3, 4, 5, 6])
def test_slips_are_not_taught_and_the_second_look_finds_them(level: int) -> None:
    texts = [text for text in sample(level, TraceMix(slipped=1, forced=0)) if "bad" in text.words]
    assert len(texts) > 150
    for text in texts:
        end = text.words.index("bad")
        start = end - text.words[end::-1].index("check")
        attempt = text.words[start - attempt_length(level) : start]
        assert attempt[-1] == "yes" and attempt[-3] == attempt[-2]  # it looks right
        honest = attempt[:level] == [str(n) for n in text.numbers] and attempt[-2] == text.target
        assert not (honest and solves(attempt[level:-2], text.numbers, text.target))
        assert [i for i, taught in enumerate(text.taught) if not taught] != []
        assert sum(not taught for taught in text.taught) == 1
        assert text.words[start + 1 : start + 1 + level] == [str(n) for n in text.numbers]


def test_a_forced_close_is_never_taught_and_always_answered() -> None:
    texts = [text for text in sample(4, TraceMix(slipped=0, forced=1)) if text.answer is not None]
    assert len(texts) > 200
    assert not any(text.closing_taught for text in texts)
    lengths = [len(text.answer or ()) for text in texts]
    assert max(lengths) == 4 * 3 + 1
    found = [text for text in texts if text.words and "yes" in text.words and text.answer[-1:] == ["<|end|>"]]
    assert found and all(solves((text.answer or [])[:-1], text.numbers, text.target) for text in found)


def test_problems_of_the_test_split_are_left_out() -> None:
    texts = sample(3, TraceMix(), count=2000, limit=100)
    numbers = np.array([text.numbers for text in texts])
    targets = np.array([int(text.target[1:]) for text in texts])
    assert not is_test(numbers, targets).any()
    assert 0.9 < len(texts) / 2000 < 0.97  # about one in sixteen was of the other side


def test_the_vocabulary_round_trips() -> None:
    from rl.vocabulary import build_tokenizer

    tokenizer = build_tokenizer(1024)
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "7 3 12 5 =24"}], add_generation_prompt=True, return_dict=False
    )
    assert ids == [ID[word] for word in ["<|user|>", "7", "3", "12", "5", "=24", "<|assistant|>", "<think>"]]
    assert tokenizer.decode([ID[word] for word in ("12", "+", "7", "=19")]) == "12 + 7 =19"

"""What the bundled model cannot read is refused before anything starts."""

import json
from pathlib import Path

import pytest

from reasoning.config import ConfigError
from reasoning.eval import parse
from reasoning.eval_config import load_config
from reasoning.preflight import make_plan
from reasoning.prompts import PromptError


def english(folder: Path) -> str:
    path = folder / "words.jsonl"
    path.write_text(json.dumps({"id": "a", "problem": "How many legs do 3 cows have?", "answer": 12}))
    return str(path)


def test_prompts_of_unknown_words_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"\d+ of the \d+ prompt tokens of task a are unknown .* pocket"):
        make_plan(load_config(None, {"budgets": "64", "tasks": english(tmp_path)}))


def test_a_users_own_countdown_problem_is_read(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    record = {"id": "a", "problem": "3 4 5 =12", "answer": 12, "numbers": [3, 4, 5], "verifier": "countdown"}
    path.write_text(json.dumps(record))
    plan = make_plan(load_config(None, {"budgets": "64", "tasks": str(path)}))
    assert plan.tokenizer.decode(list(plan.rendered["a"].prompt_ids)) == "<|user|> 3 4 5 =12 <|assistant|> <think>"


def test_an_extension_of_unknown_words_is_refused() -> None:
    with pytest.raises(PromptError, match=r"does not know 'Wait'.*--extension.text"):
        make_plan(load_config(None, {"budgets": "64", "limit": "1", "extension.waits": "1"}))
    known = {"budgets": "64", "limit": "1", "extension.waits": "1", "extension.text": "no"}
    assert make_plan(load_config(None, known)).config.extension.waits == 1


def test_a_closing_in_own_words_is_quoted() -> None:
    with pytest.raises(PromptError, match=r"the closing 'Stop now.' has words that the tokenizer"):
        make_plan(load_config(None, {"budgets": "64", "limit": "1", "closing": "Stop now."}))


def test_budgets_without_commas_are_explained() -> None:
    with pytest.raises(ConfigError, match="'2k' stands alone; separate budgets by commas, as in --budgets 1k,2k"):
        parse(["--budgets", "1k", "2k"])

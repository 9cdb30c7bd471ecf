"""A model whose every continuation is known, and whose words are their own ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from reasoning.budget import BudgetController, Sampling, Waits
from reasoning.engine.base import EngineState, Request
from reasoning.engine.scripted import ScriptedEngine
from reasoning.prompts import Closing, Rendered, ThinkMarkers
from reasoning.types import Generation

EOS, OPEN, CLOSE, FILLER = 0, 1, 2, 999
WORDS = ("</s>", "<think>", "</think>", "Wait", "<unk>", *(f"w{i}" for i in range(5, 1000)))
PROMPT = (900, 901, 902)
NO_WAITS = Waits()
SINGLE = ThinkMarkers((OPEN,), (CLOSE,))


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """`w5` is 5, `w6` is 6 ...; `</s>` 0, `<think>` 1, `</think>` 2, `Wait` 3."""
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="</s>")


@dataclass(frozen=True)
class Run:
    rows: dict[int, Generation]  # by budget
    log: list[Request]
    state: EngineState  # when all was over

    def requests(self, purpose: str) -> list[Request]:
        return [request for request in self.log if request.id.split("/")[-1].startswith(purpose)]


@pytest.fixture(scope="session")
def run(tokenizer: PreTrainedTokenizerFast) -> Callable[..., Run]:
    """Run one sample of a script (or of a fixed trace whose forks all answer `50 EOS`) to its end.

    What the script leaves open goes on with `FILLER`.
    """

    def run_one(
        script: Any,  # Callable[[Request], Sequence[int]] or Sequence[int]
        budgets: Sequence[int],
        *,
        starts_open: bool = True,
        markers: ThinkMarkers = SINGLE,
        closing: str = "</think>",
        cap: int = 8,
        chunk: int = 1,
        context: int = 1000,
        waits: Waits = NO_WAITS,
        owed: Sequence[int] | None = None,
    ) -> Run:
        def continuation(request: Request) -> tuple[int, ...]:
            fixed = script if request.stream else (50, EOS)
            ids = tuple(script(request) if callable(script) else fixed)
            return ids + (FILLER,) * max(request.max_tokens - len(ids), 0)

        engine = ScriptedEngine(continuation, context, block_size=4, step_tokens=chunk)
        controller = BudgetController(
            engine,
            tokenizer,
            markers,
            Closing("test", closing),
            budgets,
            max_answer_tokens=cap,
            stop_ids=(EOS,),
            sampling=Sampling(0.7, 0.9, top_k=20, min_p=0.05),
            seed=1,
            waits=waits,
            concurrency=4,
        )
        controller.submit("task", 0, Rendered(PROMPT, starts_open), owed)
        rows = drain_controller(controller)
        assert engine.unfinished == 0
        assert len({row.key for row in rows}) == len(rows)
        by_budget = {row.key.budget: row for row in sorted(rows, key=lambda row: row.key)}
        return Run(by_budget, engine.requests, engine.state())

    return run_one


def drain_controller(controller: BudgetController) -> list[Generation]:
    rows: list[Generation] = []
    while controller.unfinished:
        rows += controller.step()
    return rows


@pytest.fixture(scope="session")
def drain() -> Callable[[BudgetController], list[Generation]]:
    return drain_controller

"""What several budgets cost beside the largest alone, on thinking of log-normal length."""

import numpy as np
import pytest

from reasoning.budget import BudgetController, Sampling, Waits
from reasoning.engine.scripted import ScriptedEngine
from reasoning.prompts import Closing, Rendered, ThinkMarkers

EOS, OPEN, CLOSE = 0, 1, 2
ANSWER_TOKENS = 200
ONE = (50_000,)
THREE = (1000, 10_000, 50_000)
EIGHT = (512, 1000, 2000, 4000, 8000, 16_000, 32_000, 50_000)


@pytest.fixture(scope="module", params=[3500, 8000])
def decoded(request, tokenizer, drain):
    """Decoded tokens of 64 samples as a function of the budgets; natural lengths of that median, sigma 1."""
    lengths = (np.random.default_rng(0).lognormal(np.log(request.param), 1.0, size=64)).astype(int)
    answer = (*[60] * (ANSWER_TOKENS - 1), EOS)

    def script(engine_request):
        if not engine_request.stream:
            return answer
        length = int(lengths[engine_request.prompt_ids[0]])
        return (*[70] * length, CLOSE, *answer)

    def decode(budgets: tuple[int, ...]) -> int:
        controller = BudgetController(
            ScriptedEngine(script, 52_000, block_size=4096, step_tokens=16),
            tokenizer,
            ThinkMarkers((OPEN,), (CLOSE,)),
            Closing("bare", "</think>"),
            budgets,
            max_answer_tokens=512,
            stop_ids=(EOS,),
            sampling=Sampling(),
            seed=0,
            waits=Waits(),
            concurrency=64,
        )
        for sample in range(64):
            controller.submit("task", sample, Rendered((sample,), True))
        rows = drain(controller)
        assert len(rows) == 64 * len(budgets)
        for row in rows:
            natural = int(lengths[row.key.sample])
            assert row.thinking_tokens == min(natural, row.key.budget)
            assert row.bound == (natural > row.key.budget)
        assert sum(row.bound for row in rows) == sum((lengths > budget).sum() for budget in budgets)
        return sum(row.decoded_tokens for row in rows)

    return decode


def test_three_budgets_cost_at_most_a_tenth_more_and_eight_a_quarter(decoded):
    alone = decoded(ONE)
    assert decoded(THREE) <= 1.10 * alone
    assert decoded(EIGHT) <= 1.25 * alone

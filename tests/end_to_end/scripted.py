"""A model whose traces are known, and `reasoning.eval` with it.

A trace thinks for 4 to 43 tokens, closes and answers; the answer is right if the thinking was long enough for the
task. Everything follows from the ids of the prompt and the seed of the request.
"""

from __future__ import annotations

import ast
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from reasoning.engine.base import Engine, Output, Request
from reasoning.engine.scripted import ScriptedEngine
from reasoning.eval import parse
from reasoning.evaluation import evaluate
from reasoning.preflight import Plan
from rl.vocabulary import ID, NUMBER_0, RESULT_0, build_tokenizer

ROOT = Path(__file__).parents[2]
THINK, CLOSE, END = ID["<think>"], ID["</think>"], ID["<|end|>"]
CONTEXT = 512
STEP_SECONDS = "SCRIPTED_STEP_SECONDS"
SYMBOLS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def save_model(folder: Path, *, template: str | None = None, **config: object) -> Path:
    """A model folder without weights: what is read before the engine starts."""
    tokenizer = build_tokenizer(CONTEXT)
    tokenizer.chat_template = template or tokenizer.chat_template
    tokenizer.save_pretrained(folder)
    settings = {
        "model_type": "qwen3",
        "max_position_embeddings": CONTEXT,
        "reasoning_harness": {"prompt": "compact", "max_answer_tokens": 48},
    }
    (folder / "config.json").write_text(json.dumps(settings | config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": END, "top_p": 0.9}))
    return folder


def steps_of(expression: str) -> list[int]:
    """`(2 + 3) * 4` as the ids of `2 + 3 =5 5 * 4 =20`."""
    ids: list[int] = []

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant):
            return int(str(node.value))
        assert isinstance(node, ast.BinOp)
        left, right, symbol = value(node.left), value(node.right), SYMBOLS[type(node.op)]
        result = {"+": left + right, "-": left - right, "*": left * right, "/": left // (right or 1)}[symbol]
        ids.extend((NUMBER_0 + left, ID[symbol], NUMBER_0 + right, RESULT_0 + result))
        return result

    value(ast.parse(expression, mode="eval").body)
    return ids


class Model:
    """The script: the continuation of any prompt of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._solutions = {
            plan.rendered[task.id].prompt_ids: steps_of(task.meta["solution"])
            if "solution" in task.meta
            else [NUMBER_0]
            for task in plan.tasks
        }

    def __call__(self, request: Request) -> tuple[int, ...]:
        prompt = next(p for p in self._solutions if request.prompt_ids[: len(p)] == p)
        written = request.prompt_ids[len(prompt) :]
        if CLOSE in written:
            return self._answer(prompt, written.index(CLOSE), request.seed)
        length = 4 + request.seed % 40
        thinking = [NUMBER_0 + (index * 7 + request.seed) % 400 for index in range(length)]
        return (*thinking, CLOSE, *self._answer(prompt, length, request.seed))

    def _answer(self, prompt: tuple[int, ...], thought: int, seed: int) -> tuple[int, ...]:
        if seed % 13 == 0:
            return (END,)
        solved = thought >= sum(prompt) % 30
        return (*(self._solutions[prompt] if solved else [NUMBER_0]), END)


def _logprob(request: Request, place: int) -> float:
    return -((request.seed + 3 * place) % 11) / 10


class SlowEngine(ScriptedEngine):
    """Takes its time for every step, so that a signal finds it at work."""

    def step(self) -> list[Output]:
        time.sleep(float(os.environ.get(STEP_SECONDS, "0")))
        return super().step()


def start(plan: Plan, _log: Path) -> Engine:
    return SlowEngine(
        Model(plan),
        plan.max_model_len,
        max_running=plan.config.engine.max_num_seqs,
        logprob=_logprob if plan.config.logprobs else None,
    )


def main(arguments: Sequence[str]) -> int:
    return evaluate(*parse(arguments), start)

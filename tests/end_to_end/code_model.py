"""A model that writes programs, and `reasoning.eval` with it: what an answer is follows from the task and the seed.

Its tokenizer has a token for every byte. A trace thinks for a few letters and answers with a program for the task
named in the prompt: by the seed a right one, a wrong one, one that does not end, or none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from reasoning.cli import exit_with
from reasoning.engine.base import Engine, Request
from reasoning.engine.scripted import ScriptedEngine
from reasoning.eval import parse
from reasoning.evaluation import evaluate
from reasoning.preflight import Plan

CONTEXT = 4096
TEMPLATE = (
    "{% for message in messages %}{{ message.content }}\n{% endfor %}{% if add_generation_prompt %}<think>{% endif %}"
)
PROGRAMS = {
    "square": ("def f(x):\n    return x * x\n", "def f(x):\n    return x + x\n"),
    "inc": ("def inc(x):\n    return x + 1\n", "def inc(x):\n    return 2\n"),
    "read": ("print(int(input()) ** 2)\n", "print(4)\n"),
    "hang": ("import time\ntime.sleep(600)\n", "import time\ntime.sleep(600)\n"),
}


def records() -> list[dict[str, object]]:
    """A task of each form, called by its id in the problem."""
    call = {"type": "call", "entry": "f", "cases": [{"args": [n], "expected": n * n} for n in (2, 3)]}
    code = {"type": "assert", "code": "assert inc(1) == 2\nassert inc(2) == 3\n"}
    stdio = {"type": "stdio", "cases": [{"stdin": "2\n", "stdout": "4\n"}, {"stdin": "3\n", "stdout": "9\n"}]}
    return [
        {"id": "square", "problem": "[square]", "tests": call, "solution": PROGRAMS["square"][0]},
        {"id": "inc", "problem": "[inc]", "tests": code, "entry_point": "inc", "solution": PROGRAMS["inc"][0]},
        {"id": "read", "problem": "[read]", "tests": stdio, "solution": PROGRAMS["read"][0]},
    ]


def save_model(folder: Path) -> Path:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(alphabet)}, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytes_only.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_only, eos_token="<|end|>", additional_special_tokens=["<think>", "</think>"]
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3", "max_position_embeddings": CONTEXT}))
    return folder


class Model:
    """The script of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._tokenizer = plan.tokenizer
        (self._close,) = plan.markers.close_ids
        (self._end,) = plan.stop_ids

    def __call__(self, request: Request) -> tuple[int, ...]:
        text = str(self._tokenizer.decode(list(request.prompt_ids)))
        answer = self._ids(self._answer(text, request.seed))
        if self._close in request.prompt_ids:
            return (*answer, self._end)
        return (*self._ids("hm " * (2 + request.seed % 9)), self._close, *answer, self._end)

    def _answer(self, text: str, seed: int) -> str:
        task = re.findall(r"\[(\w+)\]", text)[0]
        right, wrong = PROGRAMS[task]
        if seed % 5 == 4:
            return "I do not know."
        program = right if seed % 5 < 3 else wrong
        return f"{program}```\n" if text.endswith("```python\n") else f"\n\nSo:\n```python\n{program}```\nDone."

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


def start(plan: Plan, _log: Path) -> Engine:
    return ScriptedEngine(Model(plan), plan.max_model_len, max_running=plan.config.engine.max_num_seqs)


def main(arguments: Sequence[str]) -> int:
    return evaluate(*parse(arguments), start)


if __name__ == "__main__":
    exit_with(main)

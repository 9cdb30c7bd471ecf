"""A tiny model with real weights, and `reasoning.train` on it with engines that need no vLLM.

`main` trains with a scripted engine, whose completions follow from prompt and seed alone. `SamplingEngine` samples from
the weights that it is given, token by token, so that what is trained changes what is sampled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from reasoning.config import load_settings
from reasoning.engine.base import Engine, EngineError, EngineState, Output, Request, RequestTimings, StopReason
from reasoning.engine.scripted import ScriptedEngine
from reasoning.engine.steps import Steps
from reasoning.files import read_json_lines
from reasoning.kv_cache import CacheGroup, KvCache
from reasoning.layers import MixerKind
from reasoning.train_config import TrainConfig
from reasoning.train_plan import TrainPlan
from reasoning.training import TrainCommand, train
from rl.coldstart import ModelShape, build_model
from rl.vocabulary import ID, NUMBER_0, build_tokenizer
from tests.end_to_end import scripted

SHAPE = ModelShape(hidden=32, layers=2, heads=4, kv_heads=2, head_width=8, mlp=64, context=512, rope_theta=1e4)
CACHE = KvCache((CacheGroup(MixerKind.FULL, layers=1, block_tokens=16, page_bytes=16),), block_bytes=16, blocks=1000)
STATE = EngineState(0.0, 0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0.0)

SETTINGS: dict[str, Any] = {
    "budget": 12,
    "limit": 12,
    "max_answer_tokens": 24,
    "countdown": {"levels": [3]},
    "held_out": {"limit": 4},
    "checks": {"prompts": 2, "generations": 2},
    "update": {"row_tokens": 128, "threads": 2},
    "grpo": {
        "learning_rate": 1e-3,
        "num_generations": 4,
        "per_device_train_batch_size": 16,
        "max_steps": 4,
        "save_steps": 2,
        "lr_scheduler_type": "linear",
    },
}


def save_model(folder: Path, *, template: str | None = None) -> Path:
    """A complete model folder with random weights."""
    torch.manual_seed(0)
    model = build_model(SHAPE)
    model.config.reasoning_harness = {"prompt": "compact", "max_answer_tokens": 24}
    model.generation_config.eos_token_id = ID["<|end|>"]
    model.save_pretrained(folder)
    tokenizer = build_tokenizer(SHAPE.context)
    tokenizer.chat_template = template or tokenizer.chat_template
    tokenizer.save_pretrained(folder)
    return folder


def settings(model: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """SETTINGS with some changed; a section is changed key by key."""
    merged = json.loads(json.dumps(SETTINGS)) | {"model": str(model)}
    for name, value in changes.items():
        merged[name] = merged.get(name, {}) | value if isinstance(value, Mapping) else value
    return merged


def config(model: Path, folder: Path, **changes: Any) -> Path:
    """A YAML file of the settings."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "grpo.yaml"
    file.write_text(json.dumps(settings(model, changes)))
    return file


def start_scripted(plan: TrainPlan, _log: Path) -> Engine:
    """Completions that need no weights: some tasks are solved by some samples."""
    return ScriptedEngine(Script(plan), plan.max_model_len, max_running=plan.config.engine.max_num_seqs)


def main(
    file: Path,
    *arguments: str,
    out: Path,
    start: Callable[[TrainPlan, Path], Engine] = start_scripted,
    resume: bool = False,
) -> int:
    """What the command does with a YAML file, but for the engine."""
    loaded = load_settings(TrainConfig, file, {"out": str(out)})
    return train(loaded, TrainCommand((str(file), *arguments), resume=resume), start)


def assert_same(run: Path, whole: Path) -> None:
    """Weights, metrics and rollouts to the last bit, times aside."""
    assert (run / "model/model.safetensors").read_bytes() == (whole / "model/model.safetensors").read_bytes()
    assert numbers(run) == numbers(whole)
    for path in sorted((whole / "rollouts").glob("*.parquet")):
        assert pq.read_table(run / "rollouts" / path.name).equals(pq.read_table(path)), path.name


def numbers(run: Path) -> list[dict[str, Any]]:
    """What metrics.jsonl says, but for what depends on the clock."""
    clock = re.compile(r"time/|.*_per_s$|mfu")
    return [
        {name: value for name, value in line.items() if not clock.match(name)}
        for line in read_json_lines(run / "metrics.jsonl")
    ]


class Script(scripted.Model):
    """The scripted model of the evaluation's tests, on the tasks of a training run and of its held-out set."""

    def __init__(self, plan: TrainPlan) -> None:
        super().__init__(plan.rollouts)
        training = self._solutions
        super().__init__(plan.held_out)
        self._solutions = training | self._solutions

    def _answer(self, prompt: tuple[int, ...], thought: int, seed: int) -> tuple[int, ...]:
        return (*(self._solutions[prompt] if seed % 3 == 0 else [NUMBER_0]), ID["<|end|>"])


class SamplingEngine:
    """Samples every request to its end in one step, each from a generator with the request's own seed."""

    def __init__(self, plan: TrainPlan) -> None:
        from transformers import AutoModelForCausalLM

        self.max_model_len = plan.max_model_len
        self._model = AutoModelForCausalLM.from_pretrained(plan.rollouts.model.source, dtype=torch.float32).eval()
        self._waiting: list[Request] = []

    @property
    def unfinished(self) -> int:
        return len(self._waiting)

    def add(self, request: Request) -> None:
        self._waiting.append(request)

    def abort(self, request_id: str) -> None:
        self._waiting = [request for request in self._waiting if request.id != request_id]

    def step(self) -> list[Output]:
        by_length: dict[int, list[Request]] = {}
        for request in self._waiting:
            by_length.setdefault(len(request.prompt_ids), []).append(request)
        self._waiting = []
        return [output for requests in by_length.values() for output in self._sample(requests)]

    def load_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        if self._waiting:
            raise EngineError("requests are running")
        named = dict(self._model.named_parameters())
        with torch.no_grad():
            for name, tensor in weights:
                named[name].copy_(tensor)

    @property
    def free_blocks(self) -> int:
        return 1

    def state(self) -> EngineState:
        return STATE

    def take_steps(self) -> Steps:
        return Steps()

    def describe(self) -> dict[str, Any]:
        return {"engine": "sampling", "kv_cache": CACHE.as_json()}

    def close(self) -> None:
        pass

    @torch.no_grad()
    def _sample(self, requests: Sequence[Request]) -> list[Output]:
        ids = torch.tensor([request.prompt_ids for request in requests])
        generators = [torch.Generator().manual_seed(request.seed) for request in requests]
        new: list[list[int]] = [[] for _ in requests]
        logps: list[list[float]] = [[] for _ in requests]
        going = set(range(len(requests)))
        while going:
            scores = torch.log_softmax(self._model(input_ids=ids).logits[:, -1], dim=-1)
            drawn = torch.stack(
                [torch.multinomial(s.exp(), 1, generator=g) for s, g in zip(scores, generators, strict=True)]
            )
            ids = torch.cat([ids, drawn], dim=1)
            for row in list(going):
                token = int(drawn[row])
                new[row].append(token)
                logps[row].append(float(scores[row, token]))
                if token in requests[row].stop_ids or len(new[row]) == requests[row].max_tokens:
                    going.remove(row)
        return [
            Output(
                request.id,
                tuple(ids_),
                finished=True,
                stop_reason=StopReason.STOP if ids_[-1] in request.stop_ids else StopReason.LENGTH,
                timings=RequestTimings(0.0, 0.0, 0.0, 0),
                logprobs=tuple(found),
            )
            for request, ids_, found in zip(requests, new, logps, strict=True)
        ]

"""One cell of the sweep: requests of one context length, as many as the batch, timed while all of them decode."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reasoning.engine.base import EngineSettings, Output, Request
from reasoning.engine.copy_rate import copy_rate
from reasoning.files import read_json
from reasoning.kv_cache import KvCache, cache_of_shape
from reasoning.model_shape import DTYPE_BYTES, kv_bytes, load_shape
from reasoning.throughput import StepTime, fit_steps

STEPS, SKIPPED = 40, 5
ROOM = 1024  # tokens that a request may decode: while others are prefilled, and while it is timed
CELL_LIMIT_S = 150
MEMORY_SHARE = 0.93


@dataclass(frozen=True, slots=True)
class Cell:
    """What was found with `batch` requests of `context` prompt tokens. Bytes are of one step, read from memory."""

    context: int
    batch: int
    status: str  # measured, capacity, preempted or failed
    room: int = 0  # requests of this length that the cache holds
    fill_s: float = 0.0
    step_s: float = 0.0  # median
    step_mean_s: float = 0.0
    steps: int = 0
    context_tokens: int = 0  # of all requests together, in the middle of the steps
    tokens_per_s: float = 0.0
    weight_bytes: int = 0
    kv_bytes: int = 0
    utilisation: float = 0.0  # (weights + cache) / step / copy rate
    kv_blocks_used: int = 0
    kv_blocks_predicted: int = 0  # from the engine's specifications and the tokens of every request
    kv_blocks_of_shape: int = 0  # from config.json alone, for the mean length
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Bench:
    """An engine over a folder that holds nothing but a config.json, and the requests that run in it."""

    def __init__(self, folder: str, context: int, batches: Sequence[int]) -> None:
        import torch

        from reasoning.engine.vllm import VllmEngine

        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        extra: dict[str, Any] = {"load_format": "dummy"}
        if self._device == "cuda":
            extra["compilation_config"] = {"cudagraph_capture_sizes": list(batches)}
        settings = EngineSettings(max_num_seqs=max(batches), gpu_memory_utilization=MEMORY_SHARE, extra=extra)
        self._engine = VllmEngine(folder, settings, context + ROOM, profile=True)
        self._folder = folder
        self._shape = load_shape(folder)
        described = self._engine.describe()
        self._dtype_bytes = DTYPE_BYTES[described["dtype"]]
        self._cache = KvCache.from_json(described["kv_cache"])
        self._of_shape = cache_of_shape(self._shape, described["kv_bytes"], self._dtype_bytes, described["block_size"])
        self._copy_rate = copy_rate(self._device)
        self._prompts: dict[int, np.ndarray] = {}
        self._longest = context
        self._running: list[str] = []
        self._warm_up()

    def describe(self) -> dict[str, Any]:
        return {
            "engine": self._engine.describe(),
            "config": read_json(Path(self._folder, "config.json")),
            "copy_rate": self._copy_rate,  # bytes a second, read and written
            "parameters": self._shape.parameters,
            "weight_bytes": self._weight_bytes,
            "kv_blocks_of_shape": self._of_shape.blocks,
        }

    def first_token(self, context: int) -> dict[str, Any]:
        """Prefill one prompt of which nothing is cached; it stays, as the batch of one."""
        self.clear()
        name = f"alone/{context}"
        self._add(name, self._ids(-context, context))
        deadline = time.monotonic() + CELL_LIMIT_S
        while not (outputs := [output for output in self._step(deadline) if output.times]):
            pass
        seconds = outputs[0].times[0]
        return {"context": context, "seconds": seconds, "tokens_per_s": context / seconds}

    def cell(self, context: int, batch: int) -> dict[str, Any]:
        """Fill up to `batch` requests and time `STEPS` steps in which nothing else happens."""
        room = self._cache.room(context + ROOM)
        if room < batch:
            return Cell(context, batch, "capacity", room=room).as_json()
        before = self._engine.state().preemptions
        started = time.monotonic()
        self._fill(context, batch)
        seconds, tokens, filled = self._steady(batch, started + CELL_LIMIT_S)
        state = self._engine.state()
        step_s, context_tokens = statistics.median(seconds), round(statistics.median(tokens))
        kv = batch * kv_bytes(self._shape, round(context_tokens / batch), self._dtype_bytes)
        last = round(tokens[-1] / batch) + 1
        return Cell(
            context,
            batch,
            "measured" if state.preemptions == before else "preempted",
            room=room,
            fill_s=filled - started,
            step_s=step_s,
            step_mean_s=statistics.fmean(seconds),
            steps=len(seconds),
            context_tokens=context_tokens,
            tokens_per_s=batch / step_s,
            weight_bytes=self._weight_bytes,
            kv_bytes=kv,
            utilisation=(self._weight_bytes + kv) / step_s / self._copy_rate,
            kv_blocks_used=state.kv_blocks_used,
            kv_blocks_predicted=state.kv_blocks_predicted,
            kv_blocks_of_shape=batch * sum(group.blocks(last) for group in self._of_shape.groups),
        ).as_json()

    def fit(self, cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The line through all measured cells: fixed time, time a request, time a token of context."""
        times = [
            StepTime(cell["batch"], cell["context_tokens"], cell["step_s"], cell["steps"])
            for cell in cells
            if cell["status"] == "measured"
        ]
        line = fit_steps(times)
        return {"fit": None if line is None else asdict(line)}

    def clear(self) -> None:
        # Blocks that are freed first are given away first: the next context goes on with the first prompts.
        for name in reversed(self._running):
            self._engine.abort(name)
        self._running = []

    def close(self) -> None:
        self.clear()
        self._engine.close()

    @property
    def _weight_bytes(self) -> int:
        """What a step reads of the weights: one row of the embedding is next to nothing, the head is read whole."""
        return (self._shape.active_layer_parameters + self._shape.head_parameters) * self._dtype_bytes

    def _warm_up(self) -> None:
        """Whatever is compiled or allocated at first use."""
        for number in range(4):
            self._add(f"warm/{number}", self._ids(-number - 1, min(600, self._longest)))
        for _ in range(20):
            self._step(time.monotonic() + CELL_LIMIT_S)
        self.clear()

    def _fill(self, context: int, batch: int) -> None:
        alone = f"alone/{context}"
        if batch == 1:
            if self._running != [alone]:
                self.first_token(context)
            return
        if alone in self._running:
            self.clear()
        for number in range(len(self._running), batch):
            self._add(f"{number}/{context}", self._ids(number, context))

    def _steady(self, batch: int, deadline: float) -> tuple[list[float], list[int], float]:
        """Seconds and summed context of steps in a row in which `batch` requests decode, and when they began."""
        seconds: list[float] = []
        tokens: list[int] = []
        began = time.monotonic()
        while len(seconds) < SKIPPED + STEPS:
            self._step(deadline)
            new = self._engine.take_steps()
            for us, n, context, prefill in zip(new.microseconds, new.batch, new.context, new.prefill, strict=True):
                if n != batch or prefill:
                    seconds, tokens, began = [], [], time.monotonic()
                else:
                    seconds.append(us / 1e6)
                    tokens.append(context)
        return seconds[SKIPPED:], tokens[SKIPPED:], began

    def _step(self, deadline: float) -> list[Output]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the cell took more than {CELL_LIMIT_S} s")
        outputs = self._engine.step()
        for output in outputs:
            if output.finished:
                raise RuntimeError(f"request {output.request_id} ended: {output.error or output.stop_reason}")
        return outputs

    def _add(self, name: str, ids: tuple[int, ...]) -> None:
        self._engine.add(
            Request(name, ids, ROOM, temperature=1.0, top_p=1.0, seed=len(self._running), stop_ids=(), stream=True)
        )
        self._running.append(name)

    def _ids(self, number: int, length: int) -> tuple[int, ...]:
        """The beginning of prompt `number`, which shares nothing with any other."""
        if number not in self._prompts:
            numbers = np.random.default_rng(number % 2**32).integers(self._shape.vocab_size, size=self._longest)
            self._prompts[number] = numbers
        return tuple(self._prompts[number][:length].tolist())

"""The engine that a vLLM server is to a training run: one request a completion, over HTTP, through TRL's client."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from torch import Tensor

from reasoning.engine.base import EngineError, EngineState, Output, Request, StopReason, refusal
from reasoning.engine.steps import Steps

if TYPE_CHECKING:
    from trl.generation.vllm_client import VLLMClient

STEP_S = 0.1
"""Seconds that a step waits for a completion, so that an interrupt is seen."""

QUIET_S = 30.0
"""Seconds without any completion after which the server is asked whether it is well."""

CHUNK_BYTES = 2**30
"""Of weights that are announced and sent together."""

UNKNOWN = (
    *("waiting", "kv_blocks_used", "kv_blocks_total", "kv_blocks_predicted", "kv_blocks_shared", "block_size"),
    *("context_tokens", "preemptions", "recomputed_tokens", "cached_tokens", "steps"),
)
"""Fields of `EngineState` that a server does not tell; they are 0."""


class ServedEngine:
    """The `Engine` protocol over a vLLM server. All processes ask the same one; the first brings the weights."""

    def __init__(
        self,
        client: VLLMClient,
        max_model_len: int,
        concurrency: int,
        described: dict[str, Any],
        *,
        brings_weights: bool,
    ) -> None:
        """At most `concurrency` requests are with the server at once, each on a connection of its own."""
        self.max_model_len = max_model_len
        self._client = client
        for scheme in ("http://", "https://"):
            adapter: Any = client.session.get_adapter(scheme)
            adapter.init_poolmanager(concurrency, concurrency)
        self._described = described
        self._brings_weights = brings_weights
        self._open: dict[str, Request] = {}
        self._asked: SimpleQueue[Request | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[Request, Output | Exception]] = SimpleQueue()
        # Daemons: a server that hangs must not keep the process from ending.
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(concurrency)]
        for thread in self._threads:
            thread.start()
        self._refused: list[Output] = []
        self._started = self._heard = time.monotonic()
        self._prompt_tokens = self._generated_tokens = 0

    def add(self, request: Request) -> None:
        if request.id in self._open:
            raise EngineError(f"request {request.id} is already running")
        if reason := refusal(request, self.max_model_len):
            self._refused.append(Output(request.id, (), finished=True, stop_reason=StopReason.ERROR, error=reason))
            return
        self._prompt_tokens += len(request.prompt_ids)
        if not self._open:
            self._heard = time.monotonic()
        self._open[request.id] = request
        self._asked.put(request)

    def step(self) -> list[Output]:
        """Completions that ended; waits a little for the first."""
        outputs, self._refused = self._refused, []
        for request, made in self._take() if self._open else ():
            if self._is_open(request):
                del self._open[request.id]
                if isinstance(made, Exception):
                    raise EngineError(f"the vLLM server failed on request {request.id}: {made}") from made
                outputs.append(made)
        if self._open and time.monotonic() - self._heard > QUIET_S:
            self._check_health()
        self._generated_tokens += sum(len(output.new_ids) for output in outputs)
        return outputs

    def abort(self, request_id: str) -> None:
        """Forget a request. One that the server has begun it ends, unseen."""
        self._open.pop(request_id, None)

    @property
    def unfinished(self) -> int:
        return len(self._open) + len(self._refused)

    @property
    def free_blocks(self) -> int:
        raise EngineError("a vLLM server does not tell how full its cache is")

    def state(self) -> EngineState:
        """What is known from here: nothing of the cache."""
        return EngineState(
            time_s=time.monotonic() - self._started,
            running=len(self._open),
            prompt_tokens=self._prompt_tokens,
            generated_tokens=self._generated_tokens,
            step_s=0.0,
            **dict.fromkeys(UNKNOWN, 0),
        )

    def take_steps(self) -> Steps:
        return Steps()

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Send the server a whole checkpoint, in the process that does."""
        if self._open:
            raise EngineError(f"weights cannot change under {len(self._open)} unfinished requests; abort them first")
        if not self._brings_weights:
            return
        with client_errors("the vLLM server could not take the new weights"):
            with self._client.weight_update():
                for chunk in _chunks(weights):
                    facts = [(name, str(w.dtype).removeprefix("torch."), list(w.shape)) for name, w in chunk]
                    self._client.update_named_params(facts, iter(chunk))
            self._client.reset_prefix_cache()

    def describe(self) -> dict[str, Any]:
        return self._described

    def close(self) -> None:
        self._open.clear()
        for _ in self._threads:
            self._asked.put(None)
        self._client.close_communicator()

    def _is_open(self, request: Request) -> bool:
        """Whether it was not aborted, nor its name given to another one since."""
        return self._open.get(request.id) is request

    def _work(self) -> None:
        while (request := self._asked.get()) is not None:
            if self._is_open(request):
                try:
                    self._ended.put((request, self._complete(request)))
                except Exception as error:  # noqa: BLE001 - raised in `step`
                    self._ended.put((request, error))

    def _complete(self, request: Request) -> Output:
        made: Any = self._client.generate(
            [list(request.prompt_ids)],
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            min_p=request.min_p,
            max_tokens=min(request.max_tokens, self.max_model_len - len(request.prompt_ids)),
            generation_kwargs={
                "seed": request.seed,
                "stop_token_ids": list(request.stop_ids),
                "ignore_eos": True,  # the request's stop ids are the only ones
            },
        )
        ids = tuple(made["completion_ids"][0])
        return Output(
            request.id,
            ids,
            finished=True,
            stop_reason=StopReason.STOP if ids and ids[-1] in request.stop_ids else StopReason.LENGTH,
            logprobs=tuple(float("nan") if logp is None else logp for [logp] in made["logprobs"][0]),
        )

    def _take(self) -> list[tuple[Request, Output | Exception]]:
        """What ended, at least one unless `STEP_S` pass without."""
        found = []
        try:
            found.append(self._ended.get(timeout=STEP_S))
            self._heard = time.monotonic()
            while True:
                found.append(self._ended.get_nowait())
        except Empty:
            return found

    def _check_health(self) -> None:
        """TRL's client waits for ever; one that was told to end may leave its connections open."""
        import requests

        with client_errors(f"the vLLM server does not answer, {len(self._open)} requests were unfinished"):
            requests.get(f"{self._client.base_url}/health", timeout=10).raise_for_status()
        self._heard = time.monotonic()


def _chunks(weights: Iterable[tuple[str, Tensor]]) -> Iterator[list[tuple[str, Tensor]]]:
    """The weights in their order, in lists of about CHUNK_BYTES; no more than one list is held."""
    chunk: list[tuple[str, Tensor]] = []
    size = 0
    for name, weight in weights:
        chunk.append((name, weight))
        size += weight.nbytes
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


@contextmanager
def client_errors(what: str) -> Generator[None]:
    """Every failure of the client leaves as an EngineError."""
    try:
        yield
    except Exception as error:
        raise EngineError(f"{what}: {error}") from error

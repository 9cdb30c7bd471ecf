"""A vLLM server as TRL's client sees it, on this machine: real HTTP, an engine of the tests behind it, no NCCL.

What is replaced is the transport of the weights alone: `open_trainer_endpoint` and `packed_nccl_broadcast_producer`,
which the client takes from vLLM, hand the tensors over in memory. The answers have the shape of vLLM 0.31's.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlparse

import pytest
from torch import Tensor

from reasoning.engine.base import Engine, Request

INFO: dict[str, Any] = {
    "model_config": {
        "model": "tiny",
        "dtype": "torch.float32",
        "logprobs_mode": "processed_logprobs",
        "max_model_len": 512,
    },
    "parallel_config": {"tensor_parallel_size": 1, "data_parallel_size": 1},
    "scheduler_config": {"max_num_seqs": 64},
    "weight_transfer_config": {"backend": "nccl"},
}


@dataclass
class Server:
    """What arrived, and what is answered. `engine` writes the completions, one request after the other."""

    engine: Engine
    info: dict[str, Any] = field(default_factory=lambda: json.loads(json.dumps(INFO)))
    calls: list[str] = field(default_factory=list)  # paths of all requests, in the order of their arrival
    completions: list[dict[str, Any]] = field(default_factory=list)  # bodies
    updates: list[list[str]] = field(default_factory=list)  # names of the weights of each update
    sent: list[tuple[str, Tensor]] = field(default_factory=list)  # what is on its way
    refuse: Callable[[str], bool] = lambda _path: False
    arrived: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def answer(self, path: str, body: Any) -> Any:
        """What is sent back, as JSON holds it."""
        self.calls.append(path)
        if path == "/v1/completions":
            with self.lock:
                self.completions.append(body)
                return self._complete(body)
        if path == "/start_weight_update":
            self.updates.append([])
        if path == "/update_weights":
            assert self.arrived.wait(30)
            self.arrived.clear()
            self._load(body["update_info"])
        return {
            "/health": {},
            "/v1/models": {"data": [{"id": "tiny"}]},
            "/server_info": {"vllm_config": self.info},
            "/get_world_size": {"world_size": 1},
            "/reset_prefix_cache": {"success": True},
        }.get(path, {})

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["n"] == 1 and body["ignore_eos"] and body["return_token_ids"] and body["logprobs"] == 0
        [prompt] = body["prompt"]
        self.engine.add(
            Request(
                id="one",
                prompt_ids=tuple(prompt),
                max_tokens=body["max_tokens"],
                temperature=body["temperature"],
                top_p=body["top_p"],
                top_k=body["top_k"],
                min_p=body["min_p"],
                seed=body["seed"],
                stop_ids=tuple(body["stop_token_ids"]),
            )
        )
        ids: list[int] = []
        logps: list[float] = []
        while self.engine.unfinished:
            for output in self.engine.step():
                ids += output.new_ids
                logps += output.logprobs
        names = [f"token_id:{token}" for token in ids]
        tops = [{name: logp} for name, logp in zip(names, logps, strict=True)]
        logprobs = {"tokens": names, "token_logprobs": logps, "top_logprobs": tops}
        return {"choices": [{"prompt_token_ids": prompt, "token_ids": ids, "logprobs": logprobs}]}

    def _load(self, announced: dict[str, Any]) -> None:
        sent, self.sent = self.sent, []
        facts = [(name, str(w.dtype).removeprefix("torch."), list(w.shape)) for name, w in sent]
        assert facts == list(zip(announced["names"], announced["dtype_names"], announced["shapes"], strict=True))
        self.updates[-1] += announced["names"]
        self.engine.load_weights(sent)


@contextmanager
def running(engine: Engine, patched: pytest.MonkeyPatch) -> Generator[Server]:
    """A server at `url`, and clients in this process that need no NCCL."""
    import trl.generation.vllm_client as client

    server = Server(engine)

    def hand_over(*, iterator: Iterator[tuple[str, Tensor]], **_: Any) -> None:
        server.sent = [(name, weight.clone()) for name, weight in iterator]
        server.arrived.set()

    group = SimpleNamespace(group=SimpleNamespace(store=None, socket=None))
    patched.setattr(client, "_HAS_STATEFUL_TRAINER_ENGINE", True)  # or vLLM before 0.28 is imported by other names
    patched.setattr(client, "open_trainer_endpoint", lambda _: group, raising=False)
    patched.setattr(client, "packed_nccl_broadcast_producer", hand_over, raising=False)
    patched.setattr(client, "get_ip", lambda: "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._answer(json.loads(body) if body else None)

        def _answer(self, body: Any) -> None:
            path = urlparse(self.path).path
            refused = server.refuse(path)
            text = json.dumps({"error": "no such luck"} if refused else server.answer(path, body)).encode()
            self.send_response(400 if refused else 200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()

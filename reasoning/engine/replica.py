"""A vLLM engine in a process of its own, and how to talk to it: messages there, answers and news from there."""

from __future__ import annotations

import os
import signal
from collections import deque
from dataclasses import dataclass
from io import BytesIO
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from reasoning.engine.base import CacheTooSmall, Engine, EngineError, EngineSettings, Output


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """What a vLLM engine is started with; see `reasoning.engine.vllm.VllmEngine`."""

    model: str
    settings: EngineSettings
    max_model_len: int
    seed: int = 0
    log: Path | None = None
    logprobs: bool = False
    profile: bool = False


def open_here(arguments: EngineArguments) -> Engine:
    """One engine in this process."""
    from reasoning.engine.vllm import VllmEngine

    return VllmEngine(
        arguments.model,
        arguments.settings,
        arguments.max_model_len,
        arguments.seed,
        arguments.log,
        logprobs=arguments.logprobs,
        profile=arguments.profile,
    )


class Replica:
    """One process with an engine, seen from here: messages there, answers and news from there."""

    def __init__(self, number: int, arguments: EngineArguments) -> None:
        context = get_context("spawn")
        self.connection, other = context.Pipe()
        self.news: list[Output] = []
        self.free_blocks = 0
        self._name = f"replica {number + 1} of the engine"
        self._answers: deque[Any] = deque()
        self._process = context.Process(target=serve, args=(other, arguments), daemon=True)
        self._process.start()
        other.close()

    def tell(self, what: str, value: Any = None) -> None:
        try:
            self.connection.send((what, value))
        except OSError:
            raise self._lost() from None

    def ask(self) -> Any:
        """The next answer. What becomes known before it is kept for the next step."""
        while not self._answers:
            self.read()
        return self._answers.popleft()

    def read(self) -> None:
        """Wait for one message.

        Raises:
            EngineError: the replica died, or what it says went wrong.
        """
        try:
            kind, value, self.free_blocks = self.connection.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if kind == "error":
            raise value
        if kind == "answer":
            self._answers.append(value)
        else:
            self.news += value

    def take_news(self) -> list[Output]:
        """What became known, read as far as it is there."""
        while self.connection.poll():
            self.read()
        news, self.news = self.news, []
        return news

    def hang_up(self) -> None:
        """Ask it to end."""
        self.connection.close()

    def end(self) -> None:
        """Wait until it has, or kill it."""
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _lost(self) -> EngineError:
        self._process.join(5)
        return EngineError(f"{self._name} died (exit code {self._process.exitcode}); the log of vLLM may say why")


def serve(connection: Connection, arguments: EngineArguments) -> None:
    """A replica's process: runs its engine until the connection ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one decides
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the cores are for the replicas
    try:
        engine = open_here(arguments)
    except EngineError as error:
        connection.send(("error", _plain(error), 0))
        return
    connection.send(("answer", engine.describe(), engine.free_blocks))
    inbox: SimpleQueue[tuple[str, Any] | None] = SimpleQueue()
    Thread(target=_receive, args=(connection, inbox), daemon=True).start()
    try:
        _run(engine, connection, inbox)
    except EngineError as error:
        connection.send(("error", _plain(error), 0))
    except OSError:  # nobody listens any more
        pass
    finally:
        engine.close()


def _receive(connection: Connection, inbox: SimpleQueue[tuple[str, Any] | None]) -> None:
    """Take messages as they come, so that nobody waits for a step to send one. None: there will be no more."""
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        inbox.put(None)


def _run(engine: Engine, connection: Connection, inbox: SimpleQueue[tuple[str, Any] | None]) -> None:
    while True:
        while not (engine.unfinished and inbox.empty()):
            message = inbox.get()
            if message is None:
                return
            _obey(engine, connection, *message)
        if outputs := engine.step():
            connection.send(("news", outputs, engine.free_blocks))


def _obey(engine: Engine, connection: Connection, what: str, value: Any) -> None:
    if what == "add":
        engine.add(value)
    elif what == "abort":
        engine.abort(value)
    elif what == "state":
        connection.send(("answer", engine.state(), engine.free_blocks))
    else:
        import torch

        engine.load_weights(torch.load(BytesIO(value), weights_only=True).items())
        connection.send(("answer", None, engine.free_blocks))


def _plain(error: EngineError) -> EngineError:
    """The error as it can be sent."""
    return (CacheTooSmall if isinstance(error, CacheTooSmall) else EngineError)(str(error))

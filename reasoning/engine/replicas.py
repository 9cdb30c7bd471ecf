"""Several vLLM engines on one device, each in a process of its own, as one engine: `engine.replicas`.

The steps of a small model are bound by the host: Python that schedules and books some tens of microseconds a request,
while the device waits. Engines in processes of their own do that side by side. A trace and its forks stay on one
replica, which has their prefix cached. Every request samples with its own seed, so its ids do not depend on which
replica it came to, up to rounding.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from io import BytesIO
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from reasoning.engine.base import CacheTooSmall, Engine, EngineError, EngineSettings, EngineState, Output, Request
from reasoning.engine.environment import prepare_environment
from reasoning.engine.steps import Steps

PATIENCE_S = 0.1
"""How long a step waits for news before it returns without."""
ADDED = (
    *("running", "waiting", "kv_blocks_used", "kv_blocks_total", "kv_blocks_predicted", "kv_blocks_shared"),
    *(
        "context_tokens",
        "preemptions",
        "recomputed_tokens",
        "cached_tokens",
        "prompt_tokens",
        "generated_tokens",
        "steps",
    ),
)
"""Fields of a state that are sums over the replicas."""


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


def open_engine(arguments: EngineArguments) -> Engine:
    """The engine that the settings ask for: one in this process, or replicas.

    Raises:
        EngineError: the model does not fit, or vLLM refuses it.
    """
    return Replicas(arguments) if arguments.settings.replicas > 1 else _in_this_process(arguments)


def _in_this_process(arguments: EngineArguments) -> Engine:
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


class Replicas:
    """The `Engine` protocol over `settings.replicas` engines.

    `max_num_seqs` and `kv_cache_gb` are those of all together; the cache is shared out evenly. vLLM measures what a
    device has left while it starts, which engines that start side by side would disturb, so `kv_cache_gb` is needed.
    """

    def __init__(self, arguments: EngineArguments) -> None:
        prepare_environment()
        self.max_model_len = arguments.max_model_len
        self._started = time.monotonic()
        self._names: dict[str, str] = {}  # request by the name that its replica knows
        self._requests: dict[str, tuple[str, _Replica]] = {}  # that name and the replica, by request
        self._homes: dict[str, _Replica] = {}  # by what a trace and its forks have in common
        self._load: Counter[_Replica] = Counter()
        self._opened = 0
        share = _share(arguments)
        self._replicas = [_Replica(number, share) for number in range(arguments.settings.replicas)]
        try:
            self._described = [replica.ask() for replica in self._replicas]
        except EngineError:
            self.close()
            raise

    def add(self, request: Request) -> None:
        """Queue a request. One that can never run becomes an error output of a later step."""
        if request.id in self._requests:
            raise EngineError(f"request {request.id} is already running")
        replica = self._home(request.id.rpartition("/")[0] or request.id)
        self._opened += 1
        name = f"{self._opened}"  # different each time: outputs of an aborted request may still be under way
        self._names[name], self._requests[request.id] = request.id, (name, replica)
        self._load[replica] += 1
        replica.tell("add", replace(request, id=name))

    def step(self) -> list[Output]:
        """What became known since the last call; waits for news, but not for long."""
        if not self._requests:
            return []
        if not any(replica.news for replica in self._replicas):
            wait([replica.connection for replica in self._replicas], PATIENCE_S)
        news = [output for replica in self._replicas for output in replica.take_news()]
        return [self._book(output) for output in news if output.request_id in self._names]

    def abort(self, request_id: str) -> None:
        name, replica = self._requests.pop(request_id, ("", None))
        if replica is not None:
            del self._names[name]
            self._load[replica] -= 1
            replica.tell("abort", name)

    @property
    def unfinished(self) -> int:
        return len(self._requests)

    @property
    def free_blocks(self) -> int:
        """As the replicas said with their last news."""
        return sum(replica.free_blocks for replica in self._replicas)

    def state(self) -> EngineState:
        """Sums over the replicas, which step side by side: the time of a step is their mean."""
        states = self._ask_all("state")
        sums = {name: sum(getattr(state, name) for state in states) for name in ADDED}
        energies = [state.energy_j for state in states if state.energy_j is not None]
        return EngineState(
            **sums,
            time_s=time.monotonic() - self._started,
            block_size=states[0].block_size,
            step_s=sum(state.step_s for state in states) / len(states),
            energy_j=max(energies, default=None),  # each has measured the device, and all its work
        )

    def take_steps(self) -> Steps:
        return Steps()

    def load_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Replace the weights of all replicas; they travel through main memory."""
        import torch

        if self._requests:
            raise EngineError(
                f"weights cannot change under {len(self._requests)} unfinished requests; abort them first"
            )
        written = BytesIO()
        torch.save({name: tensor.detach().cpu() for name, tensor in weights}, written)
        self._ask_all("load_weights", written.getvalue())

    def describe(self) -> dict[str, Any]:
        """The first replica's description, with the cache of all."""
        first, count = self._described[0], len(self._replicas)
        cache = first["kv_cache"]
        return {
            **first,
            "replicas": count,
            "kv_blocks": first["kv_blocks"] * count,
            "kv_bytes": first["kv_bytes"] * count,
            "kv_cache": {**cache, "blocks": cache["blocks"] * count},
        }

    def close(self) -> None:
        for replica in self._replicas:
            replica.close()

    def _home(self, family: str) -> _Replica:
        """The replica of a trace and its forks: at first the one with the fewest requests."""
        if family not in self._homes:
            self._homes[family] = min(self._replicas, key=lambda replica: self._load[replica])
        return self._homes[family]

    def _book(self, output: Output) -> Output:
        name = output.request_id
        request_id = self._names[name]
        if output.finished:
            _, replica = self._requests.pop(request_id)
            del self._names[name]
            self._load[replica] -= 1
        return replace(output, request_id=request_id)

    def _ask_all(self, what: str, value: Any = None) -> list[Any]:
        for replica in self._replicas:
            replica.tell(what, value)
        return [replica.ask() for replica in self._replicas]


def _share(arguments: EngineArguments) -> EngineArguments:
    """What each replica is started with."""
    settings = arguments.settings
    if settings.kv_cache_gb is None:
        raise EngineError(
            f"{settings.replicas} engines on one device need engine.kv_cache_gb, the KV cache of all together; set it"
        )
    own = replace(
        settings,
        replicas=1,
        kv_cache_gb=settings.kv_cache_gb / settings.replicas,
        gpu_memory_utilization=settings.gpu_memory_utilization / settings.replicas,
    )
    return replace(arguments, settings=own)


class _Replica:
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

    def close(self) -> None:
        self.connection.close()  # which it takes for the end
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
        engine = _in_this_process(arguments)
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

        engine.load_weights(torch.load(BytesIO(value)).items())
        connection.send(("answer", None, engine.free_blocks))


def _plain(error: EngineError) -> EngineError:
    """The error as it can be sent."""
    return (CacheTooSmall if isinstance(error, CacheTooSmall) else EngineError)(str(error))

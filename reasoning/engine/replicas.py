"""Several vLLM engines on one device, each in a process of its own, as one engine: `engine.replicas`.

The steps of a small model are bound by the host: Python that schedules and books some tens of microseconds a request,
while the device waits. Engines in processes of their own do that side by side. A trace and its forks stay on one
replica, which has their prefix cached. Every request samples with its own seed, so its ids do not depend on which
replica it came to, up to rounding.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from io import BytesIO
from multiprocessing.connection import wait
from typing import Any

from reasoning.engine.base import Engine, EngineError, EngineState, Output, Request
from reasoning.engine.environment import prepare_environment
from reasoning.engine.replica import EngineArguments, Replica, open_here
from reasoning.engine.steps import Steps

PATIENCE_S = 0.1
"""How long a step waits for news before it returns without."""
ADDED = (
    *("running", "waiting", "kv_blocks_used", "kv_blocks_total", "kv_blocks_predicted", "kv_blocks_shared", "steps"),
    *("context_tokens", "preemptions", "recomputed_tokens", "cached_tokens", "prompt_tokens", "generated_tokens"),
)
"""Fields of a state that are sums over the replicas."""


def open_engine(arguments: EngineArguments) -> Engine:
    """The engine that the settings ask for: one in this process, or replicas.

    Raises:
        EngineError: the model does not fit, or vLLM refuses it.
    """
    return Replicas(arguments) if arguments.settings.replicas > 1 else open_here(arguments)


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
        self._requests: dict[str, tuple[str, Replica]] = {}  # that name and the replica, by request
        self._homes: dict[str, Replica] = {}  # by what a trace and its forks have in common
        self._load: Counter[Replica] = Counter()
        self._opened = 0
        share = _share(arguments)
        self._replicas = [Replica(number, share) for number in range(arguments.settings.replicas)]
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
        self._homes.clear()  # their prefixes are forgotten

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
            replica.hang_up()
        for replica in self._replicas:
            replica.end()

    def _home(self, family: str) -> Replica:
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

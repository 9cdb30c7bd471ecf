"""Two processes of one training that are threads, for what they decide together."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any, TypeVar

from rl.distributed import Processes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Linked(Processes):
    """One of them. `barrier` is of as many threads, `table` holds what they tell."""

    table: dict[int, Any] = field(default_factory=dict)
    barrier: Barrier = field(default_factory=lambda: Barrier(1))

    def _gather(self, value: Any) -> list[Any]:
        self.table[self.index] = value
        self.barrier.wait(timeout=30)
        found = [self.table[index] for index in range(self.count)]
        self.barrier.wait(timeout=30)
        return found


def together(call: Callable[[Processes], T]) -> list[T]:
    """What `call` returns in the one and in the other."""
    table: dict[int, Any] = {}
    barrier = Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(call, [Linked(index, 2, False, table, barrier) for index in range(2)]))

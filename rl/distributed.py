"""Several processes of one training, as `accelerate launch` or torchrun starts them, and what they tell each other.

Each process has its own engine and makes a part of every generation; then all of them hold the whole of it. What is
drawn, rewarded, weighed and packed is decided by every process for itself, from the same numbers, so it is the same
everywhere, and a process without work takes part like any other. Gradients are added up, never averaged: the weights of
the loss are those of the whole step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from reasoning.config import ConfigError

LONGEST_WAIT = timedelta(days=1)
"""For others, which may be measuring held-out tasks. One that dies is noticed by its launcher at once."""

T = TypeVar("T")


class ProcessLost(RuntimeError):
    """Another process of the training ended, or cannot be reached; it has said why itself."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The process `index` of `count`. What they call together, all of them call, in the same order.

    `sharded`: each holds a part of the weights (FSDP2); otherwise all of them.
    """

    index: int = 0
    count: int = 1
    sharded: bool = False

    @property
    def is_first(self) -> bool:
        """Whether this one writes the folder and talks to people."""
        return self.index == 0

    def each(self, call: Callable[[], T]) -> list[T]:
        """What every process found, in their order, known to all. The first of their errors is raised in all."""
        if self.count == 1:
            return [call()]
        own: Exception | None = None
        try:
            outcome: tuple[bool, Any] = True, call()
        except Exception as error:  # noqa: BLE001 - raised below, in all processes
            own, outcome = error, (False, _plain(error))
        outcomes = self._gather(outcome)
        for index, (fine, value) in enumerate(outcomes):
            if not fine:
                raise own if own is not None and index == self.index else value
        return [value for _, value in outcomes]

    def first(self, call: Callable[[], T]) -> T:
        """What the first process found, known to all; the others wait for it."""
        return cast(T, self.each(lambda: call() if self.is_first else None)[0])

    def any(self, flag: bool) -> bool:
        """Whether it is so in any process."""
        return any(self.each(lambda: flag))

    def share_of(self, things: Sequence[T]) -> Sequence[T]:
        """The part of this process: neighbours stay together, parts differ by one in size at most."""
        start, end = (len(things) * number // self.count for number in (self.index, self.index + 1))
        return things[start:end]

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Every tensor becomes its sum over the processes, to the same bits in all of them."""
        if self.count > 1:
            with _told():
                for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
                    work.wait()

    def leave(self) -> None:
        """Say goodbye to the others."""
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()

    def _gather(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.count
        with _told():
            dist.all_gather_object(found, value)
        return found


ALONE = Processes()


def join_processes() -> Processes:
    """The processes that the launcher's environment tells of, connected; one by itself without a launcher.

    Raises:
        ConfigError: it asks for a kind of sharding that is not built.
    """
    sharded = _asked_for_shards()
    count = process_count()
    if count == 1:
        return ALONE
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not dist.is_initialized():
        # Objects travel through main memory, gradients from GPU to GPU.
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=LONGEST_WAIT)
    return joined(sharded=sharded)


def joined(*, sharded: bool = False) -> Processes:
    """The processes that `join_processes` connected."""
    count = process_count()
    return ALONE if count == 1 else Processes(dist.get_rank(), count, sharded)


def process_count() -> int:
    """How many processes the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def _asked_for_shards() -> bool:
    """Whether `accelerate launch --use_fsdp` started this. It is this project that shards: TRL need not know."""
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true":
        raise ConfigError("DeepSpeed is not built; start with accelerate launch --use_fsdp --fsdp_version 2 instead")
    if os.environ.pop("ACCELERATE_USE_FSDP", "false").lower() != "true":
        return False
    if os.environ.get("FSDP_VERSION", "1") != "2":
        raise ConfigError("FSDP 1 is not built; add --fsdp_version 2 to accelerate launch")
    if os.environ.get("FSDP_OFFLOAD_PARAMS", "false").lower() == "true":
        raise ConfigError("offloading of weights is not built; leave --fsdp_offload_params out")
    return True


@contextmanager
def _told() -> Generator[None]:
    """Failures of communication leave as ProcessLost."""
    try:
        yield
    except RuntimeError as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        raise ProcessLost(f"another process of this training ended, or cannot be reached ({reason})") from error


def _plain(error: Exception) -> Exception:
    """The error as it can be sent."""
    if all(isinstance(part, str | int | None) for part in error.args):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")

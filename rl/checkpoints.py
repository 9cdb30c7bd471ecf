"""Checkpoints that are there or not: written beside their place, then moved into it.

A checkpoint is a model folder (weights and tokenizer, usable by any program) with `state.pt`, the rest of what the next
step depends on, as tensors and plain values.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

STATE = "state.pt"
_NAME = re.compile(r"step-(\d{6,})")


class CheckpointError(RuntimeError):
    """A checkpoint could not be written; the message names the last good one."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of one run. `keep`: how many of the latest stay, None: all."""

    folder: Path
    keep: int | None

    def save(self, step: int, state: Mapping[str, Any], save_model: Callable[[Path], None]) -> Path:
        """Write the checkpoint of `step`; older ones beyond `keep` go once it is complete.

        Raises:
            CheckpointError: it could not be written, of a full disk for example. Earlier ones are untouched.
        """
        place = self.folder / f"step-{step:06d}"
        unfinished = place.with_name(place.name + ".tmp")
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            save_model(unfinished)
            with (unfinished / STATE).open("wb") as file:
                torch.save(dict(state), file)
            _reach_the_disk(unfinished)
            shutil.rmtree(place, ignore_errors=True)
            os.replace(unfinished, place)
        except Exception as error:  # a full disk is an OSError here, a RuntimeError or SafetensorError there
            shutil.rmtree(unfinished, ignore_errors=True)
            last = self.latest()
            good = f"the last good checkpoint is {last}" if last else "there is no earlier one"
            raise CheckpointError(f"the checkpoint of step {step} could not be written: {error}; {good}") from error
        self._forget_old()
        return place

    def latest(self) -> Path | None:
        """The complete checkpoint with the largest step."""
        complete = self._complete()
        return complete[-1] if complete else None

    def _complete(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        found = [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name) and (path / STATE).is_file()]
        return sorted(found, key=step_of)

    def _forget_old(self) -> None:
        if self.keep is not None:
            for path in self._complete()[: -self.keep]:
                shutil.rmtree(path)


def _reach_the_disk(folder: Path) -> None:
    """Or a power cut could leave a complete checkpoint with half of its weights."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def step_of(checkpoint: Path) -> int:
    """The number of optimizer steps behind a checkpoint."""
    match = _NAME.fullmatch(checkpoint.name)
    if match is None:
        raise ValueError(f"{checkpoint} is not the folder of a checkpoint")
    return int(match[1])


def load_state(checkpoint: Path) -> dict[str, Any]:
    """What `Checkpoints.save` was given."""
    return torch.load(checkpoint / STATE, map_location="cpu", weights_only=True)


def random_state() -> dict[str, Any]:
    """Where the global random number generators are."""
    kind, keys, position, has_gauss, cached = np.random.get_state()
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": (kind, torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Put the generators where `random_state` found them."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])

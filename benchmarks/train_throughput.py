"""Real tokens a second of the train phase, ours against stock TRL's GRPOTrainer, in one run.

    python -m benchmarks.train_throughput --json FILE

Same model, same rollouts, same optimizer step, on the bundled model and on random weights of the shape of SmolLM2-135M;
bfloat16 on a GPU, small and float32 on the CPU. Real tokens are those of prompts and completions, padding not counted.
The train phase runs from finished rollouts (ids and rewards) to updated weights. Every side is a process of its own
with a time limit, so one that fails or hangs does not lose the rest; the file is written after each.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.train_batches import MODELS
from benchmarks.train_cells import run_cells

SIDE_LIMITS = {"ours": 180.0, "trl-defaults": 130.0, "trl-best": 90.0, "trl-compiled": 90.0}
"""Seconds that each side may take for one model."""


def measure(side: str, model: str, folder: Path, micro_batch: int | None) -> list[dict[str, Any]]:
    """The cells of one side."""
    arguments = ["benchmarks.train_throughput", "--side", side, "--models", model, "--folder", str(folder)]
    arguments += ["--micro-batch", str(micro_batch)] if micro_batch else []
    cells = run_cells(f"{side} on {model}", arguments, SIDE_LIMITS[side], _describe)
    return [{"model": model} | cell for cell in cells]


def _describe(cell: dict[str, Any]) -> str:
    if "error" in cell:
        return f"{cell['side']}: {cell['error']}"
    settings = [f"{name} {cell[name]}" for name in ("micro_batch", "rows", "dead", "torch_compile") if cell.get(name)]
    return f"{cell['side']} ({', '.join(settings)}): {cell['tokens_per_s']:,.0f} real tokens/s, {cell['seconds']:.3f} s"


def summarise(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each model: the rate of each side, and how many times TRL's ours is. The best flags are the fastest found."""
    found = []
    for model in dict.fromkeys(cell["model"] for cell in cells):
        rates: dict[str, float] = {}
        for cell in cells:
            if cell["model"] == model and "error" not in cell:
                name = f"{cell['side']}, {cell['dead']:.0%} dead groups" if cell.get("dead") else cell["side"]
                rates[name] = max(rates.get(name, 0.0), cell["tokens_per_s"])
        rows: dict[str, Any] = {"model": model, "tokens_per_s": rates}
        for name in rates:
            if name.startswith("trl"):
                rows[f"ours / {name}"] = rates["ours"] / rates[name] if "ours" in rates else None
        found.append(rows)
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, help="all on a GPU, the bundled one on the CPU")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", choices=list(SIDE_LIMITS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--micro-batch", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.side:
        from benchmarks.train_sides import run_side

        run_side(options.side, options.models[0], options.folder, options.micro_batch)
        return 0
    models = options.models or (MODELS if _on_gpu() else MODELS[:1])
    cells: list[dict[str, Any]] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for side, model in _order(models):
            micro_batch = _fastest_micro_batch(cells, model) if side == "trl-compiled" else None
            cells += measure(side, model, Path(folder), micro_batch)
            if options.json:
                options.json.write_text(json.dumps(_record(cells), indent=1) + "\n")
    for row in summarise(cells):
        print(json.dumps(row, indent=1))
    print(f"{time.monotonic() - started:.0f} s in all")
    return 0


def _order(models: Sequence[str]) -> list[tuple[str, str]]:
    """Sides and models, what matters most first. Only a GPU is worth TRL's compilation of every new shape."""
    sides = [(side, model) for model in models for side in SIDE_LIMITS if side != "trl-compiled"]
    return sides + ([("trl-compiled", model) for model in models] if _on_gpu() else [])


def _fastest_micro_batch(cells: Sequence[dict[str, Any]], model: str) -> int | None:
    fitting = [
        cell for cell in cells if cell["model"] == model and cell["side"] == "trl best flags" and "error" not in cell
    ]
    return max(fitting, key=lambda cell: cell["tokens_per_s"])["micro_batch"] if fitting else None


def _on_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _record(cells: list[dict[str, Any]]) -> dict[str, Any]:
    from importlib.metadata import version

    import torch

    from benchmarks.train_batches import CPU, GPU

    cuda = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if cuda else platform.processor(),
        "versions": {name: version(name) for name in ("torch", "transformers", "trl")},
        "batch": asdict(GPU if cuda else CPU),
        "summary": summarise(cells),
        "cells": cells,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Predicted against measured KV cache on models of any shape, with random weights and requests of all lengths.

    python -u -m benchmarks.kv_growth --json FILE                                             (one GPU, four shapes)
    python -u -m benchmarks.kv_growth --shapes pocket,pocket-sliding --context 2k --json FILE       (CPU)
    python -m benchmarks.kv_growth --json FILE --draw FOLDER                        (figures of what FILE holds)

Each shape is a process of its own that starts the engine with dummy weights. Prompts of random ids run from a hundred
tokens to the context, evenly on a logarithmic scale; every second one begins with half of the one before, so that
blocks are shared; all decode. About five times a second the blocks in use are compared with those that the lengths of
the running requests predict. FILE is rewritten after every shape, and one that fails does not cost the others.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from benchmarks.long_context_shapes import SHAPES, write_model
from reasoning.budgets import parse_budget
from reasoning.cli import exit_with
from reasoning.config import ConfigError
from reasoning.engine.base import EngineSettings, Request
from reasoning.engine.environment import prepare_environment
from reasoning.files import read_json, write_json
from reasoning.kv_cache import KvCache, KvGrowth, KvSample, cache_of_shape, growth
from reasoning.model_shape import DTYPE_BYTES, load_shape

TIMEOUT_S = 400
STATE_EVERY_S = 0.2
DUMMY = {"load_format": "dummy"}
SHORTEST = 100  # tokens of a prompt


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--shapes", default="8b,1.5b,sliding,135m", help=f"of {', '.join(SHAPES)}")
    options.add_argument("--context", default="50k", help="tokens of the longest prompt")
    options.add_argument("--requests", type=int, default=48)
    options.add_argument("--decode", type=int, default=512, help="tokens that every request decodes")
    options.add_argument("--memory", type=float, default=0.9, help="share of the GPU's memory that the engine may take")
    options.add_argument("--json", type=Path, default=Path("kv-growth.json"))
    options.add_argument("--draw", type=Path, metavar="FOLDER", help="measure nothing: print and draw what FILE holds")
    options.add_argument("--one", help=argparse.SUPPRESS)  # the shape that this process measures
    given = options.parse_args(arguments)
    if given.draw is not None:
        return draw(given.json, given.draw)
    if given.one is not None:
        settings = EngineSettings(max_num_seqs=given.requests, gpu_memory_utilization=given.memory, extra=DUMMY)
        found = measure(given.one, settings, parse_budget(given.context), given.decode)
        return _update(given.json, given.one, found)
    names = given.shapes.split(",")
    if unknown := [name for name in names if name not in SHAPES]:
        raise ConfigError(f"no shape is called '{unknown[0]}'; write some of {', '.join(SHAPES)}")
    write_json(given.json, {"command": ["python", "-m", "benchmarks.kv_growth", *arguments], "shapes": {}})
    for name in names:
        started = time.monotonic()
        command = [sys.executable, "-u", "-m", "benchmarks.kv_growth", *arguments, "--one", name]
        try:
            failed: Any = subprocess.run(command, timeout=TIMEOUT_S, check=False).returncode
        except subprocess.TimeoutExpired:
            failed = f"no end after {TIMEOUT_S} s"
        _update(given.json, name, {"seconds": round(time.monotonic() - started, 1), "failed": failed or None})
    records = show(given.json)
    return 1 if any(record["failed"] for record in records.values()) else 0


def show(file: Path) -> dict[str, Any]:
    records = read_json(file)["shapes"]
    for name, record in records.items():
        print(f"{name}: {record['failed'] or say(record)}", flush=True)
    return records


def draw(file: Path, folder: Path) -> int:
    """The lines again, and a figure of every shape."""
    from eval.kv_plots import kv_growth

    for name, record in show(file).items():
        if record["failed"]:
            continue
        note = f"Shape {name}, random weights."
        kv_growth(as_growth(record), folder / f"kv-growth-{name}", device=record["engine"]["device"], note=note)
    return 0


def as_growth(record: dict[str, Any]) -> KvGrowth:
    kept: dict[str, Any] = {field.name: record[field.name] for field in fields(KvGrowth) if field.name in record}
    kept["samples"] = tuple(KvSample(**sample) for sample in record["samples"])
    return KvGrowth(outside=record["n_outside_prediction"], **kept)


def say(record: dict[str, Any]) -> str:
    return (
        f"{record['n_states']:,} states, {record['n_outside_prediction']} off by more than a block a running request, "
        f"at most {record['worst_blocks_per_request']:.3g}; peak {record['peak_bytes'] / 2**30:.3g} GiB of "
        f"{record['capacity_bytes'] / 2**30:.3g}; {record['preemptions']} preemptions; shape alone "
        f"{record['bytes_per_token_of_shape']:,.0f} B a token, engine {record['bytes_per_token']:,.0f}"
    )


def measure(name: str, settings: EngineSettings, context: int, decode: int) -> dict[str, Any]:
    """Run as many requests as the engine holds in this process; what the cache took, and how far that was predicted."""
    count = settings.max_num_seqs
    prepare_environment()
    from reasoning.engine.vllm import VllmEngine

    with tempfile.TemporaryDirectory() as folder:
        write_model(SHAPES[name], Path(folder))
        engine = VllmEngine(folder, settings, context + decode, log=Path(folder, "log"))
        shape = load_shape(folder)
    described = engine.describe()
    print(f"{name}: engine up on {described['device']}", flush=True)
    for request in requests(count, context, decode, shape.vocab_size):
        engine.add(request)
    states, due = [], 0.0
    while engine.unfinished:
        engine.step()
        if time.monotonic() >= due:
            states.append(asdict(engine.state()))
            due = time.monotonic() + STATE_EVERY_S
    engine.close()
    cache = KvCache.from_json(described["kv_cache"])
    found = growth([(cache, states)], context + decode)
    assert found is not None
    number_bytes = DTYPE_BYTES[described["dtype"]]
    by_shape = cache_of_shape(shape, cache.capacity_bytes, number_bytes, described["block_size"])
    running = [sample for sample in found.samples if sample.running]
    worst = max(abs(sample.residual_bytes) / sample.running for sample in running) / cache.block_bytes
    return {
        "engine": described,
        "requests": count,
        "context": context,
        "decode": decode,
        "worst_blocks_per_request": worst,
        "bytes_per_token_of_shape": by_shape.bytes_per_token,
        "block_bytes_of_shape": by_shape.block_bytes,
        **found.as_json(correct=0, samples=count),
        "samples": [asdict(sample) for sample in found.samples],
    }


def requests(count: int, context: int, decode: int, vocabulary: int) -> list[Request]:
    draw = random.Random(0)
    made: list[Request] = []
    for number in range(count):
        length = round(SHORTEST * (context / SHORTEST) ** (number / max(1, count - 1)))
        prompt = tuple(draw.randrange(4, vocabulary) for _ in range(length))
        if number % 2:
            before = made[-1].prompt_ids
            prompt = before[: len(before) // 2] + prompt[len(before) // 2 :]
        made.append(Request(f"r{number}", prompt, decode, temperature=1.0, top_p=1.0, seed=number, stop_ids=()))
    return made


def _update(out: Path, name: str, changes: dict[str, Any]) -> int:
    found = json.loads(out.read_text("utf-8"))
    found["shapes"].setdefault(name, {}).update(changes)
    write_json(out, found)
    return 0


if __name__ == "__main__":
    exit_with(main)

"""The sweep over long contexts, in miniature."""

from __future__ import annotations

import json

import pytest

from benchmarks import long_context
from benchmarks.long_context_results import planned_seconds, table
from benchmarks.long_context_shapes import SHAPES, write_model
from reasoning.config import ConfigError
from reasoning.model_shape import kv_bytes_per_token, load_shape

PUBLISHED = {"135m": 134_515_008, "1.5b": 1_543_714_304, "8b": 8_030_261_248, "sliding": 999_885_952}
KV_TOKEN = {"135m": 23_040, "1.5b": 28_672, "8b": 131_072, "sliding": 26_624}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_shapes_are_the_published_ones(name, tmp_path):
    write_model(SHAPES[name], tmp_path)
    shape = load_shape(tmp_path)
    assert shape.parameters == PUBLISHED[name]
    assert kv_bytes_per_token(shape, 2) == KV_TOKEN[name]
    assert shape.max_positions >= 50_000


def test_an_unknown_shape_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="no shape is called '9b'; write some of pocket"):
        long_context.main(["--shapes", "pocket,9b", "--json", str(tmp_path / "out.json")])
    assert not list(tmp_path.iterdir())


REST = {"max_position_embeddings": 131_072, "dtype": "bfloat16"}


def record(device: str = "a GPU") -> dict:
    shared = {"fill_s": 1.0, "steps": 40, "error": None, "room": 18, "weight_bytes": 8 << 30}
    measured = [
        shared
        | {
            "context": context,
            "batch": batch,
            "status": "measured",
            "step_s": 0.004 + batch * context * 3e-8,
            "step_mean_s": 0.005,
            "context_tokens": batch * context,
            "tokens_per_s": batch / (0.004 + batch * context * 3e-8),
            "kv_bytes": batch * context * 131_072,
            "utilisation": 0.7,
            "kv_blocks_used": 100,
            "kv_blocks_predicted": 100,
        }
        for batch in (1, 16)
        for context in (1_000, 10_000)
    ]
    full = shared | {"context": 50_000, "batch": 64, "status": "capacity"}
    engine = {"device": device, "dtype": "bfloat16"}
    return {
        "engine": engine,
        "config": {**SHAPES["8b"], **REST},
        "copy_rate": 4e12,
        "cells": [*measured, full],
        "first_token": [],
    }


def test_the_table_shows_every_cell_and_why_one_is_empty():
    lines = list(table(record() | {"fit": {"fixed_s": 0.004, "request_s": 0.0, "token_s": 3e-8}}))
    assert lines[1].split() == ["1,000", "1", "4.030", "248", "0.70", "100", "0"]
    assert lines[-2].split() == ["50,000", "64", "capacity,", "room", "for", "18"]
    assert lines[-1].strip() == "a step: 4.000 ms + 0.00 us a request + 0.03000 us a token of context"


def test_a_known_device_is_compared_with_the_plan():
    found = record("NVIDIA H200")
    *planned, last = planned_seconds(found)
    assert last is None, "nothing was measured there"
    planned = [seconds for seconds in planned if seconds is not None]
    # 16 GB of weights at 4.8 TB/s take 3.3 ms; 160,000 tokens of 128 KiB take 4.4 ms more. No step is faster.
    assert planned[0] > 0.0031
    assert planned[3] - planned[2] > 0.003
    lines = list(table(found))
    ratios = [expected / cell["step_s"] for expected, cell in zip(planned, found["cells"], strict=False)]
    assert [line.split()[4] for line in lines[1:5]] == [f"{ratio:.2f}" for ratio in ratios]
    close = sum(abs(ratio - 1) <= 0.2 for ratio in ratios)
    assert lines[-1].strip() == f"planned within 20% of the measured time: {close} of 4 cells"


def test_what_was_measured_is_drawn_again(tmp_path):
    line = {"fixed_s": 0.004, "request_s": 0.0, "token_s": 3e-8, "error": 0.0, "steps": 160}
    (tmp_path / "found.json").write_text(json.dumps({"shapes": {"8b": record() | {"fit": line}}}))
    assert long_context.main(["--json", str(tmp_path / "found.json"), "--draw", str(tmp_path)]) == 0
    data = json.loads((tmp_path / "long-context-8b-speed.json").read_text())
    assert [[point["position"] for point in line["points"]] for line in data["lines"]] == [[1000, 10_000]] * 2
    assert (tmp_path / "long-context-8b-steps.png").exists()


@pytest.mark.slow
def test_a_sweep_on_the_cpu(tmp_path, capfd):
    out = tmp_path / "found.json"
    options = ["--shapes", "pocket-sliding", "--contexts", "64,600", "--batches", "1,3", "--json", str(out)]
    assert long_context.main(options) == 0
    found = json.loads(out.read_text())["shapes"]["pocket-sliding"]
    assert [(cell["context"], cell["batch"], cell["status"]) for cell in found["cells"]] == [
        (context, batch, "measured") for context in (64, 600) for batch in (1, 3)
    ]
    for cell in found["cells"]:
        assert cell["kv_blocks_used"] == cell["kv_blocks_predicted"]
        assert abs(cell["kv_blocks_of_shape"] - cell["kv_blocks_used"]) <= cell["batch"]
        assert cell["context_tokens"] >= cell["batch"] * cell["context"]
        assert 0 < cell["utilisation"] < 1.5
    assert [first["context"] for first in found["first_token"]] == [64, 600]
    assert "pocket-sliding: cpu, copy" in capfd.readouterr().out

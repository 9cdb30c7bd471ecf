"""`python -m reasoning.plan`: what it prints, draws and refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from reasoning.cli import USAGE_ERRORS
from reasoning.plan import main
from tests.test_model_shape import LLAMA_8B


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_8B | {"max_position_embeddings": 131072}))
    return folder


def refused(*arguments: str) -> str:
    with pytest.raises(USAGE_ERRORS) as found:
        main(arguments)
    return str(found.value)


def test_a_plan_is_a_table_its_techniques_and_a_picture(model, tmp_path, capsys):
    out = tmp_path / "pictures" / "plan"
    command = ["--model", str(model), "--hardware", "h200", "--price-per-hour", "4", "--out", str(out)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "llama on NVIDIA H200 141GB" in printed
    assert "weights: 8,030,261,248, 15 GiB; KV cache: 131,072 B a token" in printed
    for budget in ("1k", "10k", "50k"):
        assert f"\n {budget.rjust(6)} " in printed
    assert "capacity: at 50k 17 of 256 fit at once; all would need" in printed
    for words in ("sliding-window attention", "arXiv:2405.04434", "CUDA graphs", "torch.compile", "bandwidth"):
        assert words in printed
    assert f"plot:         {out}.png" in printed
    found = json.loads(out.with_suffix(".json").read_text())
    assert found["figure"] == "roofline"
    assert [plan["budget"] for plan in found["plans"]] == [1000, 10_000, 50_000]
    assert all(plan["cost"] > 0 for plan in found["plans"])
    reached, sheet = found["roofs"]
    assert reached["bandwidth"] < sheet["bandwidth"] == 4.8e12
    for point in found["points"]:
        roof = min(point["intensity"] * sheet["bandwidth"], sheet["matrix_flops"])
        assert 0 < point["flops_per_s"] < roof, "nothing is above the data sheet"


def test_the_bundled_model_on_this_machine(tmp_path, capsys):
    command = ["--model", "pocket", "--hardware", "local", "--budgets", "64,1k", "--tasks", "20"]
    assert main([*command, "--out", str(tmp_path / "plan")]) == 0
    printed = capsys.readouterr().out
    assert "pocket on " in printed
    assert "measured now" in printed


def test_bad_input_is_refused_with_what_to_type_next(model, tmp_path):
    known = ("--model", str(model), "--hardware", "h200")
    assert "Did you mean h200? Known are h100" in refused("--model", str(model), "--hardware", "h20O")
    assert "--tasks 0: give a number of at least 1" in refused(*known, "--tasks", "0")
    assert "the largest possible is --budgets 130360" in refused(*known, "--budgets", "1k,200k")
    assert "Did you mean --budgets?" in refused(*known, "--budget", "1k")
    assert "--weight-dtype fp7 is not known; write one of fp32" in refused(*known, "--weight-dtype", "fp7")
    assert "--price-per-hour -1" in refused(*known, "--price-per-hour", "-1")
    assert "--price-per-hour nan" in refused(*known, "--price-per-hour", "nan")
    (tmp_path / "file").write_text("")
    assert "give another path" in refused(*known, "--out", str(tmp_path / "file" / "plan"))
    assert "no model folder at 'nowhere'" in refused("--model", "nowhere", "--hardware", "h200")
    fewer = {name: value for name, value in LLAMA_8B.items() if name != "intermediate_size"}
    (model / "config.json").write_text(json.dumps(fewer))
    assert "intermediate_size" in refused(*known)
    assert not list(tmp_path.glob("plans")), "nothing was drawn"


def test_a_reader_that_goes_early_leaves_no_traceback(tmp_path):
    command = [sys.executable, "-m", "reasoning.plan", "--model", "pocket", "--hardware", "h200", "--budgets", "1k"]
    command += ["--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate(timeout=120)
    assert "Traceback" not in said
    assert "BrokenPipe" not in said
    assert process.returncode == 1

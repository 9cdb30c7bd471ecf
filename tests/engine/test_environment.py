from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from reasoning.engine.environment import preload_kept

PROGRAM = """
import json, os, sys
from reasoning.engine.environment import prepare_environment
prepare_environment()
print(json.dumps([dict(os.environ), [name for name in ("torch", "vllm") if name in sys.modules]]))
"""


def prepared(**variables: str) -> tuple[dict[str, str], list[str]]:
    ours = ("OMP_NUM_THREADS", "TORCH_", "VLLM_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    printed = subprocess.check_output(
        [sys.executable, "-c", PROGRAM], env=environment | variables, cwd=Path(__file__).parents[2], text=True
    )
    return tuple(json.loads(printed))


def test_one_thread_no_compiler_no_usage_report_and_nothing_imported():
    environment, imported = prepared()
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["TORCH_COMPILE_DISABLE"] == "1"
    assert environment["VLLM_NO_USAGE_STATS"] == "1"
    assert environment["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert imported == []


def test_a_users_own_values_win():
    environment, _ = prepared(OMP_NUM_THREADS="3", VLLM_LOGGING_LEVEL="DEBUG", TORCH_COMPILE_DISABLE="0")
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["VLLM_LOGGING_LEVEL"] == "DEBUG"
    assert environment["TORCH_COMPILE_DISABLE"] == "0"


def test_ld_preload_is_left_alone(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "mine.so")
    with preload_kept():
        os.environ["LD_PRELOAD"] = "mine.so:libgomp.so"
    assert os.environ["LD_PRELOAD"] == "mine.so"
    monkeypatch.delenv("LD_PRELOAD")
    with preload_kept():
        os.environ["LD_PRELOAD"] = "libgomp.so"
    assert "LD_PRELOAD" not in os.environ

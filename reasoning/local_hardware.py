"""The machine that this runs on as a device: how fast it copies its memory and multiplies matrices, measured now."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from reasoning.engine.copy_rate import copy_rate
from reasoning.hardware import CPU, GIB, HARDWARE, HOPPER, Hardware, of_device

COPIED_SHARE = 0.87
"""Of its bandwidth that a GPU copies with: what the shares of `Reached` are divided by where copies are measured."""

REPEATS = 7


def measure_local() -> Hardware:
    """The GPU if torch finds one, else the CPU with as many threads as the engine takes. Takes a few seconds."""
    import torch

    return _gpu() if torch.cuda.is_available() else _cpu()


def _gpu() -> Hardware:
    import torch

    properties = torch.cuda.get_device_properties(0)
    matrix = matrix_rate("cuda")
    known = of_device(properties.name)
    reached = replace(
        HOPPER,
        weights_share=min(1.0, HOPPER.weights_share / COPIED_SHARE),
        cache_share=HOPPER.cache_share / COPIED_SHARE,
        matrix_share=1.0,
        source=f"rates measured now; {HOPPER.source}",
    )
    return replace(
        HARDWARE["h200"],
        name="local",
        title=properties.name,
        memory_bytes=float(properties.total_memory),
        bandwidth=copy_rate("cuda"),
        matrix_flops=matrix,
        fp8_flops=2 * matrix if (properties.major, properties.minor) >= (8, 9) else None,
        reached=reached,
        source="measured now: copy rate, rate of bf16 products",
        link=None if known is None else known.link,
    )


def _cpu() -> Hardware:
    import psutil
    import torch

    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))  # as reasoning.engine.environment has it
    torch.set_num_threads(threads)
    return Hardware(
        name="local",
        title=f"this CPU, {threads} thread{'' if threads == 1 else 's'}",
        memory_bytes=float(psutil.virtual_memory().total),
        usable_share=0.5,
        working_bytes=1.0 * GIB,
        bandwidth=copy_rate("cpu"),
        matrix_flops=matrix_rate("cpu"),
        fp8_flops=None,
        reached=CPU,
        source="measured now: copy rate, rate of float32 products",
        weight_bytes=4,  # the engine's type on the CPU
        fp32_share=1.0,
    )


def matrix_rate(device: str) -> float:
    """Operations a second of the fastest of a few square products: of bf16 on `cuda`, of float32 on `cpu`."""
    import torch

    on_gpu = device == "cuda"
    size = 8192 if on_gpu else 1024
    matrix = torch.randn(size, size, device=device, dtype=torch.bfloat16 if on_gpu else torch.float32)
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        matrix @ matrix
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return 2 * size**3 / min(seconds)

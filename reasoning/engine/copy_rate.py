"""How fast this device copies its own memory: the rate that decoding is held against."""

from __future__ import annotations

import time

BUFFER_BYTES = 1 << 28  # several times any cache
REPEATS = 7


def copy_rate(device: str) -> float:
    """Bytes a second, read and written ones together, of the fastest of a few copies within the memory of `device`.

    `device` is a name of torch: `cpu` or `cuda`. On the CPU with as many threads as torch has, as the engine's. Counted
    as STREAM counts a copy: every byte is read once and written once (McCalpin 1995).
    """
    import torch

    copies = 10 if device == "cuda" else 1  # one copy on a GPU is not much longer than its launch
    size = BUFFER_BYTES
    if device == "cuda":  # where the engine has left little, an hour of sampling must not end here
        size = min(size, torch.cuda.mem_get_info()[0] // 4)
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    seconds = []
    for _ in range(REPEATS):
        _wait(device)
        start = time.perf_counter()
        for _ in range(copies):
            target.copy_(source)
        _wait(device)
        seconds.append((time.perf_counter() - start) / copies)
    return 2 * size / min(seconds)


def _wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()

"""Devices in numbers: what their makers state, and what programs were seen to reach of it.

The two are kept apart. `Hardware` has the data sheet: memory, bandwidth, dense matrix rates (makers like to state
them with sparsity, which is twice as much and which no language model uses here). `Reached` has the shares of it that
decoding reaches, and the times that no bandwidth explains. Measure your own with `local`, or with
`python -m benchmarks.long_context` and put it here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches

from reasoning.config import ConfigError

GB, GIB, TFLOP = 1e9, 1024**3, 1e12


@dataclass(frozen=True, slots=True)
class Reached:
    """What a program reaches on a device. Shares are of the data sheet; `source` says how they are known."""

    weights_share: float  # of the bandwidth, while a step streams weights through its matrices
    cache_share: float  # of the bandwidth, while attention reads keys and values
    head_rate: float  # bytes a second that one KV head of one request is read with, at most
    matrix_share: float  # of the matrix rate
    layer_s: float  # a layer of a step: its kernels start, drain and wait for each other, however little they read
    step_s: float  # likewise once a step: embedding, sampling
    logit_bytes: float  # moved for each logit while a token is drawn
    host_s: float  # a step: scheduling, inputs, outputs
    host_request_s: float  # more for each request in it
    overlaps: bool  # the host prepares the next step while the device runs (asynchronous scheduling)
    eager_layer_s: float  # of the host, a layer, when it launches every kernel by itself
    source: str


@dataclass(frozen=True, slots=True)
class Hardware:
    """One device. Bytes, bytes a second, operations a second."""

    name: str
    title: str
    memory_bytes: float
    usable_share: float  # of the memory, by weights and cache together
    working_bytes: float  # of that, for activations and graphs
    bandwidth: float
    matrix_flops: float  # bf16 or fp16, dense, sums in fp32
    fp8_flops: float | None  # None: no matrix unit for it
    reached: Reached
    source: str
    weight_bytes: float | None = None  # of a number, where the engine does not take the checkpoint's type
    fp32_share: float = 0.5  # of matrix_flops, that products of fp32 have: TF32 units are half as fast
    link: float | None = None  # bytes a second, one way, to another device of the host; None: there is no other

    @property
    def weights_rate(self) -> float:
        return self.bandwidth * self.reached.weights_share

    def cache_rate(self, heads: float) -> float:
        """Bytes a second that attention reads, with `heads` KV heads in the batch, over all requests."""
        return min(self.bandwidth * self.reached.cache_share, self.reached.head_rate * heads)

    def matrix_rate(self, weight_bytes: float) -> float:
        """Operations a second; weights of one byte go through the FP8 units where there are some."""
        peak = self.fp8_flops if weight_bytes == 1 and self.fp8_flops else self.matrix_flops
        return peak * self.reached.matrix_share


HOPPER = Reached(
    weights_share=0.92,
    cache_share=0.91,
    head_rate=1.3e12,
    matrix_share=0.80,
    layer_s=45e-6,
    step_s=150e-6,
    logit_bytes=16,
    host_s=1.8e-3,
    host_request_s=17e-6,
    overlaps=True,
    eager_layer_s=200e-6,
    source=(
        "fitted to steps of a 1.5B and an 8B shape and of the bundled model on an H200, vLLM 0.26, FlashAttention 3 "
        "(docs/throughput.md); matrix rate measured there: bf16 products reach 790 of 989 TFLOP/s; the rate of one "
        "head, the time once a step and eager launches are estimates"
    ),
)
"""vLLM with CUDA graphs and asynchronous scheduling."""

GEFORCE = replace(
    HOPPER,
    weights_share=0.90,
    cache_share=0.80,
    head_rate=0.5e12,
    source=f"shares are estimates; the rest as the H200: {HOPPER.source}",
)
METAL = Reached(
    weights_share=0.88,
    cache_share=0.70,
    head_rate=0.5e12,
    matrix_share=0.72,
    layer_s=150e-6,
    step_s=0.3e-3,
    logit_bytes=16,
    host_s=0.0,
    host_request_s=20e-6,
    overlaps=False,
    eager_layer_s=150e-6,
    source=(
        "estimates after llama.cpp's table of Apple chips (its discussion 4167): a 7B model in F16 and in Q4_0 gives "
        "bandwidth and time a layer, its prompts the matrix share; the cache's share is a guess"
    ),
)
PHONE = replace(
    METAL,
    weights_share=0.65,
    cache_share=0.50,
    matrix_share=0.40,
    layer_s=300e-6,
    head_rate=0.05e12,
    source="estimates",
)
CPU = Reached(
    weights_share=1.0,
    cache_share=0.33,
    head_rate=1e12,
    matrix_share=1.0,
    layer_s=0.43e-3,
    step_s=0.1e-3,
    logit_bytes=16,
    host_s=0.0,
    host_request_s=0.13e-3,
    overlaps=False,
    eager_layer_s=0.43e-3,
    source=(
        "rates measured on the spot; times and the cache's share from benchmarks.long_context on two CPU cores "
        "(docs/throughput.md: 3.5 ms + 129 us a request + 515 us a thousand tokens of the bundled model's context)"
    ),
)


def _nvidia(
    name: str,
    title: str,
    memory: float,
    bandwidth: float,
    matrix: float,
    fp8: float | None,
    link: float,
    source: str,
    reached: Reached = HOPPER,
) -> Hardware:
    return Hardware(
        name,
        title,
        memory * GIB,
        usable_share=0.9,  # the default of --engine.gpu_memory_utilization
        working_bytes=1.5 * GIB,
        bandwidth=bandwidth * GB,
        matrix_flops=matrix * TFLOP,
        fp8_flops=None if fp8 is None else fp8 * TFLOP,
        reached=reached,
        source=source,
        link=link * GB,
    )


def _apple(name: str, title: str, memory: float, bandwidth: float, matrix: float, source: str) -> Hardware:
    return Hardware(
        name,
        title,
        memory * GIB,
        usable_share=0.75,  # what Metal lets a GPU hold of the memory, unless told otherwise
        working_bytes=1.0 * GIB,
        bandwidth=bandwidth * GB,
        matrix_flops=matrix * TFLOP,
        fp8_flops=None,
        reached=METAL,
        source=source,
        fp32_share=1.0,
    )


ADA, BLACKWELL = "NVIDIA Ada whitepaper, appendix A", "NVIDIA RTX Blackwell whitepaper, appendix A"
M3 = "Apple's specifications; GPU cores x 128 units x 2 x 1.40 GHz, fp16 as fast as fp32"
M4 = "Apple's specifications; GPU cores x 128 units x 2 x 1.68 GHz, fp16 as fast as fp32"

# Memory of NVIDIA devices is what torch reports, a little under the number on the box. Links are half of what the data
# sheets state for both directions: NVLink, or PCIe with 16 lanes.
_DEVICES = (
    _nvidia("h100", "NVIDIA H100 SXM 80GB", 79.2, 3350, 989.4, 1978.9, 450, "NVIDIA H100 data sheet"),
    _nvidia("h200", "NVIDIA H200 141GB", 139.8, 4800, 989.4, 1978.9, 450, "NVIDIA H200 data sheet"),
    _nvidia("b200", "NVIDIA B200 180GB", 178.3, 8000, 2250, 4500, 900, "NVIDIA DGX B200 data sheet, an eighth of it"),
    _nvidia("a100", "NVIDIA A100 SXM 80GB", 79.2, 2039, 312, None, 300, "NVIDIA A100 80GB data sheet"),
    _nvidia("rtx4090", "NVIDIA GeForce RTX 4090", 23.6, 1008, 165.2, 330.3, 32, ADA, GEFORCE),
    _nvidia("rtx5090", "NVIDIA GeForce RTX 5090", 31.4, 1792, 209.5, 419.0, 64, BLACKWELL, GEFORCE),
    _apple("m3-max", "Apple M3 Max, 40 GPU cores, 128GB", 128, 400, 14.3, M3),
    _apple("m3-ultra", "Apple M3 Ultra, 80 GPU cores, 512GB", 512, 819, 28.6, M3),
    _apple("m4-max", "Apple M4 Max, 40 GPU cores, 128GB", 128, 546, 17.2, M4),
    Hardware(
        "snapdragon-8-elite",
        "Qualcomm Snapdragon 8 Elite, 24GB",
        24 * GIB,
        usable_share=0.5,  # the rest is the phone's
        working_bytes=0.5 * GIB,
        bandwidth=84.8 * GB,
        matrix_flops=6.8 * TFLOP,
        fp8_flops=None,
        reached=PHONE,
        source="LPDDR5X at 5.3 GHz, 64 bits; Adreno 830: 1,536 units x 2 x 1.1 GHz, fp16 twice that; no rate is stated",
    ),
)
HARDWARE = {device.name: device for device in _DEVICES}

_NEVER_MADE = {
    "m4ultra": "Apple made no M4 Ultra: the largest of that generation is m4-max, the largest of all m3-ultra"
}
_OTHER_CARDS = ("pcie", "40gb", "laptop")
"""What a driver's name says where memory or bandwidth are not those of the table."""

_OTHER_NAMES = {
    "h100sxm": "h100",
    "h10080gb": "h100",
    "a10080gb": "a100",
    "a100sxm": "a100",
    "geforcertx4090": "rtx4090",
    "4090": "rtx4090",
    "geforcertx5090": "rtx5090",
    "5090": "rtx5090",
}


def find_hardware(name: str) -> Hardware:
    """The device of that name, however it is spelt; `local` is measured now, which takes a few seconds.

    Raises:
        ConfigError: there is none.
    """
    if name == "local":
        from reasoning.local_hardware import measure_local

        return measure_local()
    plain = _plain(re.sub(r"^(nvidia|apple|qualcomm)\b", "", name.strip(), flags=re.IGNORECASE))
    known = {_plain(key): key for key in HARDWARE} | _OTHER_NAMES
    if plain in known:
        return HARDWARE[known[plain]]
    if plain in _NEVER_MADE:
        raise ConfigError(_NEVER_MADE[plain])
    close = get_close_matches(plain, known, n=1)
    meant = f" Did you mean {known[close[0]]}?" if close else ""
    raise ConfigError(f"unknown hardware '{name}'.{meant} Known are {', '.join(HARDWARE)}, and local (measured here)")


def of_device(name: str) -> Hardware | None:
    """The device that a driver calls so, as `NVIDIA H100 80GB HBM3`; None if it is not among the known ones."""
    plain = _plain(name)
    if any(card in plain for card in _OTHER_CARDS):
        return None
    return next((device for key, device in HARDWARE.items() if _plain(key) in plain), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())

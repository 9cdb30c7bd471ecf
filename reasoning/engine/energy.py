"""How much energy the engine's devices have used, from NVIDIA's management library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class EnergyMeter:
    """Joules of devices since the meter was made, everything that ran on them included.

    NVML counts millijoules since the driver was loaded (`nvmlDeviceGetTotalEnergyConsumption`, from Volta on).
    """

    def __init__(self, nvml: Any, uuids: Sequence[str]) -> None:
        """`nvml` is the module pynvml; `uuids` as torch names them, without the prefix `GPU-`.

        Raises:
            nvml.NVMLError: there is no such library or device, or it does not count.
        """
        self._nvml = nvml
        nvml.nvmlInit()
        self._devices = [nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}") for uuid in uuids]
        self._start = self._millijoules()

    def joules(self) -> float:
        return (self._millijoules() - self._start) / 1000

    def _millijoules(self) -> int:
        return sum(self._nvml.nvmlDeviceGetTotalEnergyConsumption(device) for device in self._devices)

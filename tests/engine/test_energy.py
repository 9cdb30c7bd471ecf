"""The energy meter over a library that counts as NVML does."""

from __future__ import annotations

import pytest

from reasoning.engine.energy import EnergyMeter


class Nvml:
    class NVMLError(Exception):
        pass

    def __init__(self, counters: dict[str, int]) -> None:
        self.counters = counters
        self.ready = False

    def nvmlInit(self) -> None:
        self.ready = True

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.counters:
            raise self.NVMLError(uuid)
        return uuid

    def nvmlDeviceGetTotalEnergyConsumption(self, device: str) -> int:
        assert self.ready
        return self.counters[device]


def test_joules_are_of_all_devices_since_the_meter_was_made():
    nvml = Nvml({"GPU-a": 5_000, "GPU-b": 7_000, "GPU-c": 1})
    meter = EnergyMeter(nvml, ["a", "b"])
    assert meter.joules() == 0
    nvml.counters |= {"GPU-a": 6_500, "GPU-b": 7_100, "GPU-c": 99_999}
    assert meter.joules() == pytest.approx(1.6)


def test_a_device_that_nvml_does_not_know_is_its_error():
    with pytest.raises(Nvml.NVMLError):
        EnergyMeter(Nvml({}), ["a"])


@pytest.mark.gpu
def test_a_gpu_at_work_uses_energy():
    import torch
    from vllm.third_party import pynvml

    meter = EnergyMeter(pynvml, [str(torch.cuda.get_device_properties(0).uuid)])
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    for _ in range(2000):
        matrix @ matrix
    torch.cuda.synchronize()
    assert 50 < meter.joules() < 10_000, "about three seconds at some hundred watts"

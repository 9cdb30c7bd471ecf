"""Devices: how they are found, and that what they say is possible."""

from __future__ import annotations

import pytest

from reasoning.config import ConfigError
from reasoning.hardware import HARDWARE, find_hardware, of_device


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("h200", "h200"),
        ("H200", "h200"),
        ("NVIDIA H100", "h100"),
        ("H100 SXM", "h100"),
        ("A100-80GB", "a100"),
        ("RTX 4090", "rtx4090"),
        ("5090", "rtx5090"),
        ("Apple M3 Ultra", "m3-ultra"),
        ("m4_max", "m4-max"),
        ("Snapdragon 8 Elite", "snapdragon-8-elite"),
    ],
)
def test_names_are_found_however_they_are_spelt(name, found):
    assert find_hardware(name).name == found


def test_an_unknown_name_gets_the_list_and_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown hardware 'h20'. Did you mean h200\? Known are h100, .*local"):
        find_hardware("h20")


def test_what_was_never_made_is_said():
    with pytest.raises(ConfigError, match="Apple made no M4 Ultra"):
        find_hardware("M4 Ultra")


@pytest.mark.parametrize(
    ("driver", "found"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
    ],
)
def test_drivers_name_devices_their_way(driver, found):
    assert of_device(driver).name == found


@pytest.mark.parametrize("driver", ["cpu", "NVIDIA H100 PCIe", "NVIDIA A100-SXM4-40GB", "NVIDIA L4"])
def test_a_device_that_is_not_in_the_table_is_none(driver):
    assert of_device(driver) is None


@pytest.mark.parametrize("device", HARDWARE.values(), ids=list(HARDWARE))
def test_what_is_reached_is_below_the_data_sheet(device):
    reached = device.reached
    for share in (reached.weights_share, reached.cache_share, reached.matrix_share, device.usable_share):
        assert 0 < share <= 1
    assert device.source
    assert reached.source
    assert device.matrix_rate(2) < device.matrix_flops
    assert device.cache_rate(1) <= device.cache_rate(1000) <= device.bandwidth


def test_fp8_counts_only_where_there_are_units_for_it():
    h100, a100 = HARDWARE["h100"], HARDWARE["a100"]
    assert h100.matrix_rate(1) == pytest.approx(2 * h100.matrix_rate(2), rel=1e-3)
    assert a100.matrix_rate(1) == a100.matrix_rate(2)

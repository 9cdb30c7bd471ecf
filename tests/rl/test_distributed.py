"""What is one process's part, and what a launcher may ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning.config import ConfigError
from rl.distributed import ALONE, Processes, join_processes


@given(st.integers(0, 40), st.integers(1, 9))
def test_parts_are_all_of_it_in_order_and_of_equal_size(things: int, count: int) -> None:
    parts = [list(Processes(index, count).share_of(range(things))) for index in range(count)]
    assert [thing for part in parts for thing in part] == list(range(things))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_one_by_itself_needs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join_processes() is ALONE
    assert ALONE.is_first and ALONE.each(lambda: 3) == [3] and ALONE.first(lambda: 4) == 4 and ALONE.any(True)
    with pytest.raises(ZeroDivisionError):
        ALONE.each(lambda: 1 // 0)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, "DeepSpeed is not built"),
        ({"ACCELERATE_USE_FSDP": "true"}, "FSDP 1 is not built; add --fsdp_version 2"),
        ({"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_OFFLOAD_PARAMS": "true"}, "offloading"),
    ],
)
def test_what_a_launcher_asks_for_in_vain(
    environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        join_processes()

"""A judge for a worker process, which now and then never comes back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def hostile() -> Callable[[int], bool]:
    """Sleeps for ever on one case in ten, dies on another, and otherwise says whether the number is even."""

    def judge(number: int) -> bool:
        if number % 10 == 3:
            time.sleep(3600)
        if number % 10 == 7:
            os._exit(9)
        return number % 2 == 0

    return judge

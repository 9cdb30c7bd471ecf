"""What is told of each step while it runs: metrics.jsonl for programs, a line and alarms for people."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from rl.metrics import MetricsLog, alarms, console_line, seconds_left


class StepReport:
    """Tells of a run of `steps` optimizer steps, `cycle` of them a generation. `log`: None but in the first process."""

    def __init__(self, log: MetricsLog | None, steps: int, cycle: int, say: Callable[[str], None]) -> None:
        self._log = log
        self._steps = steps
        self._cycle = cycle
        self._say = say
        self._seconds: deque[float] = deque(maxlen=max(9, 3 * cycle))  # of the latest steps

    def has_measured(self, step: int) -> bool:
        """Whether the log knows the held-out tasks after `step`."""
        return self._log is not None and step in self._log.measured

    def append(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write metrics down."""
        if self._log is not None:
            self._log.append(step, metrics)

    def tell(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write an optimizer step down, and say how it went."""
        self.append(step, metrics)
        self._seconds.append(metrics["time/step"])
        left_s = seconds_left(list(self._seconds), self._cycle, self._steps - step)
        self._say(console_line(step, self._steps, metrics, left_s))
        for alarm in alarms(metrics):
            self._say(f"warning: {alarm}")

    def close(self) -> None:
        """No more is written."""
        if self._log is not None:
            self._log.close()

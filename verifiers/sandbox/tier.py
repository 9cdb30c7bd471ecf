"""The tiers, in a module that imports hardly anything, for the process that is forked."""

from __future__ import annotations

from enum import StrEnum


class Tier(StrEnum):
    """How well a program is shut in; the strongest first."""

    FULL = "full"  # own namespaces and root, and all of the next line
    LANDLOCK = "landlock"  # Landlock, seccomp and limits, but the host's processes and namespaces
    PROCESS = "process"  # timeouts and a verdict that cannot be forged: no isolation

"""Landlock: which files a process may use, and no network, whatever else may fail. Linux 5.13 and newer."""

from __future__ import annotations

import os
from collections.abc import Iterable

from verifiers.sandbox import linux

SCOPES_SINCE = 6
"""The version that keeps signals and abstract Unix sockets inside."""
_EXECUTE, _WRITE, _READ, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_FILES_OF_VERSION = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
_TCP_SINCE, _TCP = 4, 3
_SCOPES = 3
_READ_ONLY = _EXECUTE | _READ | _READ_DIR
_OF_A_FILE = _EXECUTE | _WRITE | _READ | 1 << 14 | 1 << 15


def rules(version: int, *, readable: Iterable[str], writable: Iterable[str]) -> int:
    """A descriptor of rules that give a process these files alone: for `linux.landlock_restrict`.

    They hold for what is mounted below these paths later, too.
    """
    files = sum(rights for since, rights in _FILES_OF_VERSION if version >= since)
    network = _TCP if version >= _TCP_SINCE else 0
    scopes = _SCOPES if version >= SCOPES_SINCE else 0
    ruleset = linux.landlock_ruleset(files, network, scopes)
    for path in readable:
        linux.landlock_allow(ruleset, path, files & (_READ_ONLY if os.path.isdir(path) else _READ_ONLY & ~_READ_DIR))
    for path in writable:
        rights = files & ~(_MAKE_CHAR | _MAKE_BLOCK)
        linux.landlock_allow(ruleset, path, rights if os.path.isdir(path) else rights & _OF_A_FILE)
    return ruleset

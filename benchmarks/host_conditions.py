"""What must hold on the host after a program has run: conditions of the cases of `benchmarks.sandbox_cases`.

A condition is `name` or `name:argument`. Those that start with `next_run` run more programs.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

Grade = Callable[[Mapping[str, Any]], dict[str, Any]]

TIME_SCALE = 1.5
"""For a busy machine."""
_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
_OWN = "/tmp/sbxcanary"
_LIMITS = {"timeout_s": 5, "memory_mb": 512, "pids": 64, "output_kb": 1024, "fsize_mb": 64}
_SAMPLE_S = 0.05
_SETTLE_S = 0.4
_CLEAN = (
    "import builtins, json\ndef state(x):\n    return [hasattr(builtins, 'sbx_was_here'), json.dumps([1])]\n",
    [False, "[1]"],
)


class Host:
    """Lays out what a case needs, looks at the host, and after the run tells which conditions did not hold."""

    def __init__(self, case: Mapping[str, Any], grade: Grade) -> None:
        self._case, self._grade = case, grade
        self._conditions: list[str] = case["must_hold"]
        setup = case.get("setup") or {}
        self._sockets = {spec: _listen(spec) for spec in setup.get("listen") or []}
        _write_files(setup.get("files") or {})
        os.environ.update(setup.get("env") or {})
        self._leaked = _leak(setup["leaked_fd"]) if "leaked_fd" in setup else None
        grade(_probe("def inc(x):\n    return x + 1\n", 2))  # so that the workers run
        self._digests = {argument: _digest(argument) for name, argument in self._named() if name == "file_unchanged"}
        self._mounts, self._name = Path("/proc/self/mounts").read_text(), socket.gethostname()
        self._processes, self._files = set(_processes()), _listing()
        self._sampler = _Sampler()

    def broken(self, result: Mapping[str, Any], seconds: float) -> list[str]:
        """The conditions that do not hold, after `result` came in `seconds`."""
        self._sampler.stop()
        time.sleep(_SETTLE_S)
        text = json.dumps(result)
        try:
            found = [
                name if not argument else f"{name}:{argument}"
                for name, argument in sorted(self._named(), key=lambda item: item[0].startswith("next_run"))
                if not self._holds(name, argument, result, text, seconds)
            ]
        finally:
            for listener in self._sockets.values():
                listener.close()
            if self._leaked is not None:
                os.close(self._leaked)
        wanted = self._case.get("per_test")
        return [*found, "per_test"] if wanted and result["per_test"] != wanted else found

    def _named(self) -> list[tuple[str, str]]:
        return [(name, argument) for name, _, argument in (text.partition(":") for text in self._conditions)]

    def _holds(self, name: str, argument: str, result: Mapping[str, Any], text: str, seconds: float) -> bool:
        sampler = self._sampler
        checks: dict[str, Callable[[], bool]] = {
            "verdict_pass": lambda: result["verdict"] == "pass",
            "verdict_not_pass": lambda: result["verdict"] != "pass",
            "parent_alive": lambda: True,
            "next_run_ok": self._next_run_ok,
            "next_run_clean": lambda: self._passes(_CLEAN[0], _CLEAN[1], "state"),
            "time_le": lambda: seconds <= float(argument) * TIME_SCALE,
            "no_process_growth": lambda: not _children_since(self._processes),
            "no_process_matching": lambda: not any(argument in line for line in _processes().values()),
            "file_absent": lambda: not os.path.lexists(argument),
            "file_unchanged": lambda: _digest(argument) == self._digests[argument],
            "workdir_removed": lambda: not _listing() - self._files - {_OWN},
            "output_lacks": lambda: argument not in text,
            "output_lacks_tail_of": lambda: Path(argument).read_text().strip().splitlines()[-1] not in text,
            "result_bytes_le": lambda: len(text) <= int(argument),
            "harness_rss_growth_le_mb": lambda: sampler.rss_growth <= int(argument),
            "host_mem_drop_le_mb": lambda: sampler.memory_drop <= int(argument),
            "disk_growth_le_mb": lambda: sampler.disk_growth <= int(argument),
            "no_sysv_ipc": lambda: int(argument, 16) not in _sysv_keys(),
            "no_connection": lambda: not select.select([self._sockets[argument]], [], [], 0.1)[0],
            "no_listen_port": lambda: not _answers(int(argument)),
            "mounts_unchanged": lambda: Path("/proc/self/mounts").read_text() == self._mounts,
            "hostname_unchanged": lambda: socket.gethostname() == self._name,
        }
        return checks[name]()

    def _next_run_ok(self) -> bool:
        good, bad = (f"def inc(x):\n    return x + {n}\n" for n in (1, 2))
        return self._passes(good, 2, "inc") and not self._passes(bad, 2, "inc")

    def _passes(self, program: str, expected: Any, entry: str) -> bool:
        return self._grade(_probe(program, expected, entry))["verdict"] == "pass"


class _Sampler:
    """Memory and disk while the program runs, in MB, against what they were."""

    def __init__(self) -> None:
        self._first = _rss(), _available(), _disk()
        self.rss_growth = self.memory_drop = self.disk_growth = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stop.wait(_SAMPLE_S):
            self.rss_growth = max(self.rss_growth, _rss() - self._first[0])
            self.memory_drop = max(self.memory_drop, self._first[1] - _available())
            self.disk_growth = max(self.disk_growth, _disk() - self._first[2])

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def _probe(program: str, expected: Any, entry: str = "inc") -> dict[str, Any]:
    test = {"type": "call", "entry": entry, "cases": [{"args": [1], "expected": expected}]}
    return {"id": "probe", "program": program, "limits": _LIMITS, "test": test}


def _write_files(files: Mapping[str, str]) -> None:
    for path, content in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(content)


def _leak(secret: str) -> int:
    """A descriptor that would be handed on to any process that is started carelessly."""
    with tempfile.TemporaryFile() as file:
        file.write(secret.encode())
        file.flush()
        fd = os.dup(file.fileno())
    os.set_inheritable(fd, True)
    return fd


def _listen(spec: str) -> socket.socket:
    kind, _, address = spec.partition(":")
    if kind == "unix":
        listener = socket.socket(socket.AF_UNIX)
        if address[0] != "@":
            Path(address).unlink(missing_ok=True)
        listener.bind("\0" + address[1:] if address[0] == "@" else address)
    else:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(address)))
    if kind != "udp":
        listener.listen()
    return listener


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
    except OSError:
        return False
    return True


def _processes() -> dict[int, str]:
    """Command lines of all processes that have not ended."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                found[int(name)] = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
    return found


def _children_since(before: set[int]) -> list[int]:
    """New processes below this one: others may start what they like."""
    parents = {}
    for pid in _processes():
        with suppress(OSError):
            state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[pid] = int(parent)
    found = []
    for pid in parents:
        line = [pid]
        while (parent := parents.get(line[-1])) is not None and parent not in line:
            line.append(parent)
        if pid not in before and os.getpid() in line:
            found.append(pid)
    return found


def _listing() -> set[str]:
    return {entry.path for folder in _FOLDERS if os.path.isdir(folder) for entry in os.scandir(folder)}


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        return f"error {error.errno}"


def _sysv_keys() -> set[int]:
    keys = set()
    for kind in ("shm", "sem", "msg"):
        with suppress(OSError):
            lines = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]
            keys |= {int(line.split()[0]) & 0xFFFFFFFF for line in lines}
    return keys


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def _available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) >> 10


def _disk() -> int:
    used = 0
    for folder in _FOLDERS:
        with suppress(OSError):
            status = os.statvfs(folder)
            used += (status.f_blocks - status.f_bfree) * status.f_frsize
    return used >> 20

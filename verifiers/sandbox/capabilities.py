"""What this system allows, found out by doing it, with the reason and the fix for what it does not."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from verifiers.sandbox import linux, memory, root, seccomp
from verifiers.sandbox.client import command
from verifiers.sandbox.usage import uses

_ANY_USER = 64000
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Capability:
    """`needed` is the tier that needs it, or "" where something else stands in for it. `detail` says why not."""

    name: str
    needed: str
    works: bool
    detail: str = ""
    fix: str = ""


def capabilities() -> list[Capability]:
    """Everything that the sandbox would use, tried in processes of their own."""
    done = subprocess.run(
        command(f"from verifiers.sandbox.capabilities import probe; probe({os.getpid()})"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        env={},
        check=False,
        start_new_session=True,  # Ctrl-C is for the parent to handle
    )
    if done.returncode:
        problem = (done.stderr.splitlines() or [f"exit status {done.returncode}"])[-1]
        return [Capability("probes", "full", works=False, detail=problem)]
    return [Capability(**record) for record in json.loads(done.stdout)]


def probe(parent: int) -> None:
    """Print what works as JSON. In a new interpreter, for some probes cannot be undone. It ends with its parent."""
    _end_with(parent)
    records = []
    for name, (needed, attempt, fix) in _PROBES.items():
        if linux.SUPPORTED:
            works, detail = _try(attempt)
        else:
            works, detail = False, f"{sys.platform} on {linux.MACHINE} is not Linux on x86-64 or aarch64"
        advice = "" if works else _fix_of(fix)
        records.append({"name": name, "needed": needed, "works": works, "detail": detail, "fix": advice})
    print(json.dumps(records))


def _try(attempt: Callable[[], str]) -> tuple[bool, str]:
    """Whether it works in a forked process, and what that says."""
    reader, writer = os.pipe()
    pid = _fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            message = attempt()
            status = 0
        except Exception as error:  # noqa: BLE001 - told to the parent
            message = f"{type(error).__name__}: {error}"
        os.write(writer, message.encode())
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as file:
        message = file.read()
    return os.waitpid(pid, 0)[1] == 0, message


def _end_with(parent: int) -> None:
    """End this process with its parent, which may be the first to end here, or to be ended."""
    if linux.SUPPORTED:
        linux.die_with_parent()
        if os.getppid() not in (parent, 0):  # 0: it is in another process namespace
            os._exit(1)


def _fork() -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _end_with(parent)
    return pid


def _unshare(flags: int) -> None:
    user, group, parent = os.geteuid(), os.getegid(), os.getppid()
    linux.unshare(linux.CLONE_NEWUSER | flags)
    _end_with(parent)  # a change of what one may do makes the kernel forget it
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_text(text)


def _user_namespace() -> str:
    _unshare(0)
    return ""


def _own_root() -> str:
    _unshare(linux.CLONE_NEWNS)
    root.build()
    root.disk(1 << 20).make()
    return ""


def _process_namespace() -> str:
    _unshare(linux.CLONE_NEWNS | linux.CLONE_NEWPID)

    def inside() -> str:
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        if os.getpid() != 1:
            raise OSError("the process is not the first of its namespace")
        return ""

    works, detail = _try(inside)
    if not works:
        raise OSError(detail)
    return ""


def _other_namespaces() -> str:
    _unshare(linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS)
    return ""


def _seccomp() -> str:
    linux.no_new_privileges()
    linux.Filter(seccomp.compile_filter(linux.MACHINE, sockets=True)).install()
    with suppress(PermissionError):
        linux.unshare(linux.CLONE_NEWUSER)
        raise OSError("a filter has no effect")
    return ""


def _landlock() -> str:
    version = linux.landlock_version()
    if not version:
        raise OSError("this kernel has none, or it is not switched on")
    return f"version {version}"


def _process_limit() -> str:
    if os.geteuid() == 0:
        with suppress(OSError):  # where that cannot be done, root is not the machine's
            _other_user()
            linux.set_dumpable(True)
    _unshare(0)
    resource.setrlimit(resource.RLIMIT_NPROC, (3, 3))
    for _ in range(5):
        try:
            pid = _fork()
        except BlockingIOError:
            return ""
        if pid == 0:  # until this process ends, which is soon
            while True:
                signal.pause()
    raise OSError("it does not hold for this user")


def _other_user() -> str:
    parent = os.getppid()
    os.setgroups([])
    os.setresgid(_ANY_USER, _ANY_USER, _ANY_USER)
    os.setresuid(_ANY_USER, _ANY_USER, _ANY_USER)
    _end_with(parent)
    return ""


def _memory_group() -> str:
    group = memory.Group.make()
    if group is None:
        raise OSError("no memory control group can be made here")
    group.remove()
    return str(group.path.parent)


def _memory_polling() -> str:
    if memory.measure(uses(os.getpid()), 0) == 0:
        raise OSError("the memory of processes cannot be read")
    return ""


_NAMESPACES = "namespaces"
_KERNEL = "Linux 5.14 or newer"
_PROBES: dict[str, tuple[str, Callable[[], str], str]] = {
    "user namespace": ("full", _user_namespace, _NAMESPACES),
    "own root": ("full", _own_root, _NAMESPACES),
    "process namespace": ("full", _process_namespace, _NAMESPACES),
    "network, ipc and uts namespaces": ("full", _other_namespaces, _NAMESPACES),
    "seccomp": ("landlock", _seccomp, "a kernel with CONFIG_SECCOMP_FILTER"),
    "landlock": ("landlock", _landlock, "Linux 5.13 or newer with landlock in its list of security modules (lsm=)"),
    "limit of processes": ("", _process_limit, _NAMESPACES),
    "memory control group": ("", _memory_group, "run as root, or delegate a group; until then memory is measured"),
    "memory by measuring": ("", _memory_polling, "a kernel with CONFIG_PROC_CHILDREN"),
    "change of user": ("", _other_user, "run as root; only then it matters"),
}


def _fix_of(fix: str) -> str:
    if fix != _NAMESPACES:
        return fix
    if _setting("/proc/sys/user/max_user_namespaces") == "0":
        return "sysctl -w user.max_user_namespaces=10000"
    if _setting("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "sysctl -w kernel.unprivileged_userns_clone=1"
    if _setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile with `userns,`"
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return "start the container with a seccomp profile that allows unshare, clone, mount and pivot_root"
    return f"{_KERNEL}, and no security module that forbids user namespaces"


def _setting(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""

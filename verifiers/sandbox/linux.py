"""The system calls that Python has no function for. Linux on x86-64 and aarch64; every function raises OSError."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

MACHINE = os.uname().machine
SUPPORTED = sys.platform == "linux" and MACHINE in ("x86_64", "aarch64")

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
BOX_NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS
"""What each box has for itself."""
WORKER_NAMESPACES = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
"""What a zygote has for itself. Its boxes, one at a time, share its network, which has no interface at all: making one
costs a tenth of a program and takes a lock of the whole machine, and nothing in it outlives the processes."""

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_PR_SET_CHILD_SUBREAPER, _PR_GET_TID_ADDRESS = 36, 40
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522

_X86 = MACHINE == "x86_64"
_PIVOT_ROOT = 155 if _X86 else 41
_CAPSET = 126 if _X86 else 91
_CLONE3 = 435
_CLOSE_RANGE = 436
_MOUNT_SETATTR = 442
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION = 1


class _CloneArguments(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in [
            "flags",
            "pidfd",
            "child_tid",
            "parent_tid",
            "exit_signal",
            "stack",
            "stack_size",
            "tls",
            "set_tid",
            "set_tid_size",
            "cgroup",
        ]
    ]


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


# PyDLL keeps the interpreter's lock, so that a clone has it as its parent had.
_libc: Any = ctypes.PyDLL(None, use_errno=True) if SUPPORTED else None
# Made once: what is made in a box costs page faults there.
_clone = _CloneArguments(flags=BOX_NAMESPACES, exit_signal=17)  # SIGCHLD
_clone_arguments, _clone_size = ctypes.byref(_clone), ctypes.c_size_t(ctypes.sizeof(_clone))
_capability_header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
_no_capabilities = (ctypes.c_uint32 * 6)()


def _check(result: int, what: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def clone_into_namespaces() -> int:
    """Like `os.fork`, into the namespaces of a box. The caller must have no other thread.

    None of what Python does after a fork is done in the child, which is good enough for one that itself forks and
    waits, and halves its cost.
    """
    return _check(_libc.syscall(_CLONE3, _clone_arguments, _clone_size), "clone3")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


class Mount:
    """A mount to be made, maybe often."""

    def __init__(self, source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
        texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
        self._target = target
        self._arguments = (*texts[:3], ctypes.c_ulong(flags), texts[3])

    def make(self) -> None:
        _check(_libc.mount(*self._arguments), f"mount {self._target}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    Mount(source, target, kind, flags, options).make()


def make_read_only(target: str) -> None:
    """Make a mount and all below it read-only, without set-user-id programs and devices. Since Linux 5.12."""
    attributes = (ctypes.c_uint64 * 4)(MS_RDONLY | MS_NOSUID | MS_NODEV, 0, 0, 0)
    result = _libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, ctypes.byref(attributes), ctypes.c_size_t(32)
    )
    _check(result, f"mount_setattr {target}")


def enter_root(path: str) -> None:
    """Make `path`, a mount, the root, and let go of the old one."""
    os.chdir(path)
    _check(_libc.syscall(_PIVOT_ROOT, b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount2")
    os.chdir("/")


def close_from(fd: int) -> None:
    """Close this descriptor and all above it."""
    if _libc is None or _libc.syscall(_CLOSE_RANGE, fd, ctypes.c_uint(0xFFFFFFFF), 0) == -1:
        os.closerange(fd, os.sysconf("SC_OPEN_MAX"))


def die_with_parent() -> None:
    _check(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl(PDEATHSIG)")


def adopt_orphans() -> None:
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(CHILD_SUBREAPER)")


def set_dumpable(on: bool) -> None:
    """Whether other processes of the user may read and trace this one."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(on), 0, 0, 0), "prctl(DUMPABLE)")


def drop_capabilities() -> None:
    """For good, together with `no_new_privileges`: nothing that is executed later gives any back."""
    _check(_libc.syscall(_CAPSET, _capability_header, _no_capabilities), "capset")


def no_new_privileges() -> None:
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(NO_NEW_PRIVS)")


class Filter:
    """A seccomp filter: instructions of classic BPF, 8 bytes each."""

    def __init__(self, code: bytes) -> None:
        self._program = _Filter(len(code) // 8, code)
        self._reference = ctypes.byref(self._program)

    def install(self) -> None:
        """For good, in this process and those that it starts. Needs `no_new_privileges`."""
        _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, self._reference, 0, 0), "prctl(SECCOMP)")


def landlock_version() -> int:
    """Of the kernel's interface; 0 if there is none."""
    if _libc is None:
        return 0
    return max(0, _libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), _LANDLOCK_VERSION))


def landlock_ruleset(files: int, network: int, scopes: int) -> int:
    """A descriptor of an empty set of rules that denies these rights."""
    attributes = (ctypes.c_uint64 * 3)(files, network, scopes)
    size = 24 if scopes else 16 if network else 8
    return _check(
        _libc.syscall(_LANDLOCK_CREATE, ctypes.byref(attributes), ctypes.c_size_t(size), 0), "landlock_create_ruleset"
    )


def landlock_allow(ruleset: int, path: str, rights: int) -> None:
    """Allow these rights beneath `path`."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = rights.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
        _check(_libc.syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0), f"landlock_add_rule {path}")
    finally:
        os.close(fd)


def landlock_restrict(ruleset: int) -> None:
    _check(_libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")

"""What a program's process does to itself before it runs the program: everything it could misuse goes."""

from __future__ import annotations

import fcntl
import os
import resource
from typing import NamedTuple

from verifiers.sandbox import landlock, linux, root, seccomp, wire
from verifiers.sandbox.tier import Tier

CONTROL = 3
"""The descriptor of the channel, beside the standard three."""
INSIDE = 1000
_STACK = 64 << 20
_OPEN_FILES = 256


class Order(NamedTuple):
    """A box to be made: memory and files in bytes, processor time in seconds. `folder` is for tiers without a root."""

    memory: int
    processes: int
    file: int
    files: int
    cpu: int
    folder: str = ""

    def pack(self) -> bytes:
        return b" ".join((*(b"%d" % number for number in self[:-1]), os.fsencode(self.folder)))

    @staticmethod
    def unpack(data: bytes) -> Order:
        *numbers, folder = data.split(b" ", len(Order._fields) - 1)
        return Order(*map(int, numbers), folder=os.fsdecode(folder))


class Kind:
    """How the boxes of this process are made. What can be prepared is prepared here, once for all of them."""

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        self._user, self._group = (b"%d %d 1" % (INSIDE, outside) for outside in (os.geteuid(), os.getegid()))
        self._address_space = _address_space()
        self._rules = -1
        self._filter: linux.Filter | None = None
        self._version = 0
        if tier is not Tier.PROCESS:
            self._version = linux.landlock_version()
            if tier is Tier.LANDLOCK and not self._version:
                raise OSError("this kernel has no Landlock, or it is not switched on")
            self._filter = linux.Filter(seccomp.compile_filter(linux.MACHINE, sockets=tier is Tier.FULL))
        if tier is Tier.FULL and self._version:
            rules = landlock.rules(self._version, readable=("/",), writable=(root.HOME, "/dev"))
            self._rules = fcntl.fcntl(rules, fcntl.F_DUPFD_CLOEXEC, CONTROL + 1)  # not where `enter` puts others
            os.close(rules)

    def prepare(self, order: Order) -> Plan:
        """What programs with these limits have in common."""
        limits = {
            resource.RLIMIT_AS: self._address_space + order.memory,
            resource.RLIMIT_NPROC: order.processes,
            resource.RLIMIT_FSIZE: order.file,
            resource.RLIMIT_CPU: order.cpu,
            resource.RLIMIT_STACK: _STACK,
            resource.RLIMIT_NOFILE: _OPEN_FILES,
            resource.RLIMIT_CORE: 0,
        }
        return Plan(order, root.disk(order.files), tuple((what, _cap(what, value)) for what, value in limits.items()))

    def map_user(self) -> None:
        """In a new user namespace, be a user there who is no other outside than before."""
        _write("/proc/self/setgroups", b"deny")
        _write("/proc/self/uid_map", self._user)
        _write("/proc/self/gid_map", self._group)

    def enter(self, plan: Plan, descriptors: list[int]) -> str:
        """Shut this process in. Returns the working directory."""
        folder = root.WORK
        if self.tier is Tier.FULL:
            root.furnish(plan.files)
            _write("/proc/sys/user/max_user_namespaces", b"0")
        else:
            folder = plan.order.folder
            os.chdir(folder)
            os.environ.update(TMPDIR=folder, HOME=folder)
        for target, fd in enumerate(descriptors):
            os.dup2(fd, target)
        os.set_inheritable(CONTROL, False)
        for what, values in plan.limits:
            resource.setrlimit(what, values)
        if self._filter is not None:
            linux.no_new_privileges()
            self._restrict_files(folder)
            linux.drop_capabilities()
            self._filter_for_program(self._filter).install()
            linux.set_dumpable(True)
        _close_others()
        return folder

    def enter_for_tests(self, fd: int, memory: int) -> None:
        """The same for the process that runs tests: these are trusted, but may err."""
        os.dup2(fd, CONTROL)
        _close_others()
        resource.setrlimit(resource.RLIMIT_AS, _cap(resource.RLIMIT_AS, self._address_space + memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if self._filter is not None:
            linux.no_new_privileges()
            linux.drop_capabilities()
            self._filter.install()

    def _restrict_files(self, folder: str) -> None:
        if self._rules >= 0:
            linux.landlock_restrict(self._rules)
        elif self._version:
            writable = (folder, *(f"/dev/{name}" for name in root.DEVICES))
            linux.landlock_restrict(landlock.rules(self._version, readable=root.system_paths(), writable=writable))

    def _filter_for_program(self, usual: linux.Filter) -> linux.Filter:
        if self.tier is Tier.LANDLOCK and self._version < landlock.SCOPES_SINCE:
            return linux.Filter(seccomp.compile_filter(linux.MACHINE, sockets=False, signals_of=os.getpid()))
        return usual


class Plan(NamedTuple):
    """An order with what was prepared for it."""

    order: Order
    files: linux.Mount
    limits: tuple[tuple[int, tuple[int, int]], ...]


def wait_for(child: int) -> int:
    """The first process of a namespace: collect what ends, until the program does. Its exit status."""
    linux.set_dumpable(False)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def fail(fd: int, error: BaseException) -> None:
    """Tell the other side that the box could not be made."""
    wire.Channel(fd).send({"setup": f"{type(error).__name__}: {error}"})


def _address_space() -> int:
    """Bytes that the interpreter itself takes of what limits a program's."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 1 << 33  # no Linux, where this limit is of little use


def _cap(what: int, value: int) -> tuple[int, int]:
    hard = resource.getrlimit(what)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    return value, value


def map_same_user(user: int, group: int) -> None:
    """In a new user namespace, go on as the user that one was."""
    _write("/proc/self/setgroups", b"deny")
    _write("/proc/self/uid_map", b"%d %d 1" % (user, user))
    _write("/proc/self/gid_map", b"%d %d 1" % (group, group))


def _close_others() -> None:
    os.closerange(CONTROL + 1, root.HELD)
    linux.close_from(root.HELD + 1)


def _write(path: str, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, text)
    os.close(fd)

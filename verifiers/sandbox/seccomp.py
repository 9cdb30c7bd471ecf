"""The seccomp filter: what a boxed program may not ask of the kernel.

It denies what honest programs do not need and what has a record of holes: mounts, namespaces, tracing, loading of
code into the kernel, keys, io_uring, memory that no limit counts, the network. Denied calls give EPERM, so that a
program sees PermissionError; calls newer than this table give ENOSYS, as an older kernel would. Calls of another
architecture end the program. The numbers are those of the kernel's tables for x86-64 and aarch64.
"""

from __future__ import annotations

import errno
import sys
from typing import NamedTuple

ALLOW = 0x7FFF0000
KILL = 0x80000000
DENY = 0x00050000 | errno.EPERM
MISSING = 0x00050000 | errno.ENOSYS

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
AF_UNIX = 1
NEW_NAMESPACES = 0x7E020000
"""The flags of `clone` that make namespaces."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
_LAST_KNOWN = 462
_X32 = 0x40000000

_NUMBERS: dict[str, tuple[int, int]] = {  # x86-64, aarch64; -1 where there is none
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "statmount": (457, 457), "listmount": (458, 458),
    "unshare": (272, 97), "setns": (308, 268),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "perf_event_open": (298, 241), "bpf": (321, 280), "userfaultfd": (323, 282), "seccomp": (317, 277),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "syslog": (103, 116), "vhangup": (153, 58),
    "personality": (135, 92), "iopl": (172, -1), "ioperm": (173, -1), "modify_ldt": (154, -1),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197),
    "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip
CLONE, CLONE3 = (56, 220), (435, 435)
SOCKET, SOCKETPAIR, IOCTL = (41, 198), (53, 199), (16, 29)
KILLS = {"kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "pidfd_send_signal": (424, 424)}

_LOAD, _JUMP, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _JUMP_IF_SET, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_AT_NUMBER, _AT_ARCHITECTURE = 0, 4
_AT_ARGUMENTS = (16, 24)


class _Step(NamedTuple):
    code: int
    value: int = 0
    then: int = 0
    otherwise: int = 0

    def pack(self) -> bytes:
        order = sys.byteorder
        return self.code.to_bytes(2, order) + bytes((self.then, self.otherwise)) + self.value.to_bytes(4, order)


_Steps = tuple[_Step, ...]


def denied_numbers(machine: str) -> dict[str, int]:
    """The system calls that are denied whatever their arguments, by name."""
    column = list(ARCHITECTURES).index(machine)
    return {name: pair[column] for name, pair in _NUMBERS.items() if pair[column] >= 0}


def compile_filter(machine: str, *, sockets: bool, signals_of: int | None = None) -> bytes:
    """The filter as instructions for the kernel.

    `sockets` allows Unix sockets, which are harmless in a root and a network of one's own. With `signals_of`, a
    process id, signals go to that process and to process groups 0 alone.
    """
    column = list(ARCHITECTURES).index(machine)
    rules: dict[int, _Steps] = dict.fromkeys(denied_numbers(machine).values(), _give(DENY))
    rules[CLONE[column]] = (_argument(0), _Step(_JUMP_IF_SET, NEW_NAMESPACES, 0, 1), *_give(DENY), *_give(ALLOW))
    rules[CLONE3[column]] = _give(MISSING)  # its flags are behind a pointer; libraries then use clone
    rules[SOCKET[column]] = _only(0, (AF_UNIX,)) if sockets else _give(DENY)
    rules[SOCKETPAIR[column]] = _only(0, (AF_UNIX,))
    rules[IOCTL[column]] = _all_but(1, (TIOCSTI, TIOCLINUX))
    if signals_of is not None:
        rules.update({pair[column]: _only(0, (signals_of,)) for pair in KILLS.values()})
        rules[KILLS["pidfd_send_signal"][column]] = _give(DENY)
    head = (
        _Step(_LOAD, _AT_ARCHITECTURE),
        _Step(_JUMP_IF_EQUAL, ARCHITECTURES[machine], 1, 0),
        *_give(KILL),
        _Step(_LOAD, _AT_NUMBER),
        _Step(_JUMP_IF_AT_LEAST, _X32, 0, 1),
        *_give(KILL),
    )
    return b"".join(step.pack() for step in (*head, *_tree(_intervals(rules))))


def _give(action: int) -> _Steps:
    return (_Step(_RETURN, action),)


def _argument(index: int) -> _Step:
    return _Step(_LOAD, _AT_ARGUMENTS[index])  # the low half: these arguments are ints


def _only(argument: int, values: tuple[int, ...]) -> _Steps:
    checks = [_Step(_JUMP_IF_EQUAL, value, len(values) - i, 0) for i, value in enumerate(values)]
    return (_argument(argument), *checks, *_give(DENY), *_give(ALLOW))


def _all_but(argument: int, values: tuple[int, ...]) -> _Steps:
    checks = [_Step(_JUMP_IF_EQUAL, value, len(values) - i, 0) for i, value in enumerate(values)]
    return (_argument(argument), *checks, *_give(ALLOW), *_give(DENY))


def _intervals(rules: dict[int, _Steps]) -> list[tuple[int, _Steps]]:
    """What to do from each number on, up to the next."""
    starts: dict[int, _Steps] = {0: _give(ALLOW)}
    for number in sorted(rules):
        starts[number] = rules[number]
        starts[number + 1] = _give(ALLOW)
    starts[_LAST_KNOWN + 1] = _give(MISSING)
    ordered = sorted(starts.items())
    return [item for i, item in enumerate(ordered) if i == 0 or item[1] != ordered[i - 1][1]]


def _tree(intervals: list[tuple[int, _Steps]]) -> _Steps:
    """A binary search, for speed."""
    if len(intervals) == 1:
        return intervals[0][1]
    half = len(intervals) // 2
    low, high = _tree(intervals[:half]), _tree(intervals[half:])
    start = intervals[half][0]
    if len(low) < 256:
        return (_Step(_JUMP_IF_AT_LEAST, start, len(low), 0), *low, *high)
    return (_Step(_JUMP_IF_AT_LEAST, start, 0, 1), _Step(_JUMP, len(low)), *low, *high)

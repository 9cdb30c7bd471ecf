"""The filter, run by a small interpreter of its instructions, and against the numbers that libseccomp knows."""

import ctypes
import ctypes.util
import os
import struct

import pytest

from verifiers.sandbox import Sandbox, StdioTests, Tier, seccomp

MACHINES = list(seccomp.ARCHITECTURES)
ALL = {
    **seccomp._NUMBERS,
    **seccomp.KILLS,
    "clone": seccomp.CLONE,
    "clone3": seccomp.CLONE3,
    "socket": seccomp.SOCKET,
    "socketpair": seccomp.SOCKETPAIR,
    "ioctl": seccomp.IOCTL,
}


def run(code, machine, number, *arguments, architecture=None):
    architecture = seccomp.ARCHITECTURES[machine] if architecture is None else architecture
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *padded)
    steps = [struct.unpack_from("<HBBI", code, i) for i in range(0, len(code), 8)]
    at = value = 0
    while True:
        operation, then, otherwise, constant = steps[at]
        at += 1
        if operation == 0x06:
            return constant
        if operation == 0x20:
            (value,) = struct.unpack_from("<I", data, constant)
        elif operation == 0x05:
            at += constant
        else:
            holds = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[operation]
            at += then if holds else otherwise


@pytest.fixture(params=MACHINES)
def machine(request):
    return request.param


def test_every_number_gets_its_answer(machine):
    code = seccomp.compile_filter(machine, sockets=True)
    denied = set(seccomp.denied_numbers(machine).values())
    column = MACHINES.index(machine)
    checked = {pair[column] for pair in (seccomp.CLONE, seccomp.CLONE3, seccomp.SOCKET, seccomp.SOCKETPAIR)}
    for number in range(463):
        if number not in checked:
            assert run(code, machine, number, 1) == (seccomp.DENY if number in denied else seccomp.ALLOW), number
    assert run(code, machine, seccomp.CLONE3[column]) == seccomp.MISSING
    assert run(code, machine, 463) == seccomp.MISSING
    assert run(code, machine, 0x3FFFFFFF) == seccomp.MISSING
    assert run(code, machine, 0x40000000) == seccomp.KILL  # x32
    assert run(code, machine, 1, architecture=0x40000003) == seccomp.KILL  # i386


@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_clone_makes_no_namespace(machine, flag):
    code = seccomp.compile_filter(machine, sockets=True)
    number = seccomp.CLONE[MACHINES.index(machine)]
    assert run(code, machine, number, 17) == seccomp.ALLOW
    assert run(code, machine, number, 0x3D0F00) == seccomp.ALLOW  # a thread
    assert run(code, machine, number, flag | 17) == seccomp.DENY


@pytest.mark.parametrize(("sockets", "family", "allowed"), [(True, 1, 1), (False, 1, 0), (True, 2, 0), (True, 40, 0)])
def test_sockets(machine, sockets, family, allowed):
    code = seccomp.compile_filter(machine, sockets=sockets)
    wanted = seccomp.ALLOW if allowed else seccomp.DENY
    assert run(code, machine, seccomp.SOCKET[MACHINES.index(machine)], family, 1) == wanted


def test_signals_only_to_oneself_where_nothing_else_confines_them(machine):
    code = seccomp.compile_filter(machine, sockets=False, signals_of=77)
    column = MACHINES.index(machine)
    assert run(code, machine, seccomp.KILLS["kill"][column], 77, 9) == seccomp.ALLOW
    for target in (76, 0, 0xFFFFFFFF):
        assert run(code, machine, seccomp.KILLS["kill"][column], target, 9) == seccomp.DENY


def test_terminal_input_cannot_be_faked(machine):
    code = seccomp.compile_filter(machine, sockets=True)
    number = seccomp.IOCTL[MACHINES.index(machine)]
    assert run(code, machine, number, 0, 0x5401) == seccomp.ALLOW
    assert run(code, machine, number, 0, seccomp.TIOCSTI) == seccomp.DENY


def test_numbers_are_those_of_libseccomp():
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("no libseccomp here")
    for name, pair in ALL.items():
        for machine, number in zip(MACHINES, pair, strict=True):
            known = library.seccomp_syscall_resolve_name_arch(seccomp.ARCHITECTURES[machine], name.encode())
            if known != -1:  # newer than this libseccomp
                assert number == (known if known >= 0 else -1), (name, machine)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only there is another set of numbers")
@pytest.mark.parametrize(("number", "outcome"), [(39, "pass"), (0x40000000 + 39, "blocked")])
def test_the_kernel_ends_a_program_that_calls_by_the_numbers_of_x32(number, outcome):
    program = f"import ctypes, os\nprint(ctypes.CDLL(None).syscall({number}) == os.getpid())"
    with Sandbox(workers=1, tier=Tier.LANDLOCK) as sandbox:
        assert sandbox.run_tests(program, StdioTests((("", "True"),))).outcome == outcome

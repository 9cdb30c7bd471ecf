"""Programs for the benchmarks of the sandbox: small honest ones, stubs that forge a verdict, and hostile ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from verifiers.sandbox import AssertTests, CallTests, Outcome, StdioTests, Tests

ALWAYS_EQUAL = """
class Equal:
    def __getattribute__(self, name):
        return lambda *a, **k: Equal()
    def _same(self, *a, **k):
        return True
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = __instancecheck__ = _same
    def _other(self, *a, **k):
        return self
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __truediv__ = __abs__ = __neg__ = __getitem__ = _other
    __call__ = __round__ = __floordiv__ = __mod__ = __and__ = __or__ = __xor__ = __pow__ = _other
    def __hash__(self):
        return 0
    def __len__(self):
        return 1
    def __iter__(self):
        return iter([self])
    def __repr__(self):
        return "True"
def {entry}(*a, **k):
    return Equal()
"""

LIST_APPEND = """
import gc, sys
def _forge():
    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            if type(value).__name__ in ("list", "ListProxy"):
                try:
                    value.insert(0, "passed")
                    value[:] = ["passed"]
                except BaseException:
                    pass
            elif type(value) is dict:
                value.update(passed=True, result="passed", outcome="pass", ok=True)
        frame = frame.f_back
    for value in gc.get_objects():
        if type(value) is list and len(value) < 100:
            value[:] = ["passed"]
try:
    _forge()
except BaseException:
    pass
raise SystemExit(0)
"""

EXIT_ZERO = """
import os, sys
print("passed")
sys.stdout.flush()
os._exit(0)
"""

SETTRACE = """
import dis, sys
def _trace(frame, event, argument):
    if event == "line" and frame.f_code.co_name in ("check", "<module>"):
        try:
            frame.f_lineno = max(line for _, _, line in frame.f_code.co_lines() if line)
        except ValueError:
            pass
    return _trace
sys.settrace(_trace)
sys.excepthook = lambda *a: None
def {entry}(*a, **k):
    caller = sys._getframe(1)
    for instruction in dis.get_instructions(caller.f_code):
        if instruction.offset > caller.f_lasti and instruction.opname == "LOAD_CONST":
            return instruction.argval
"""

PATCHED_BUILTINS = """
import builtins, math
builtins.AssertionError = ArithmeticError
for _name in ("abs", "round", "sum", "max", "min"):
    setattr(builtins, _name, lambda *a, **k: 0)
builtins.all = builtins.any = lambda *a, **k: True
builtins.sorted = lambda *a, **k: []
math.fabs = math.isclose = lambda *a, **k: 0
def {entry}(*a, **k):
    return 0
"""

STUBS = {
    "always equal": ALWAYS_EQUAL,
    "list append": LIST_APPEND,
    "exit(0)": EXIT_ZERO,
    "settrace": SETTRACE,
    "patched builtins": PATCHED_BUILTINS,
}
"""Programs that answer nothing and try to pass; `{entry}` stands for the function that is tested."""


@dataclass(frozen=True, slots=True)
class Job:
    """A program with its tests, and the outcomes that are right for it."""

    kind: str
    program: str
    tests: Tests
    right: frozenset[Outcome]

    @property
    def hostile(self) -> bool:
        return self.kind in HOSTILE


CALLS = CallTests("f", tuple(((n,), n * n) for n in range(5)))
ASSERTS = AssertTests("".join(f"assert f({n}) == {n * n}\n" for n in range(5)))
INPUTS = StdioTests(tuple((f"{n}\n", f"{n * n}\n") for n in range(2)))

_SQUARE = "def f(x):\n    return x * x  # {number}\n"
_CUBE = "def f(x):\n    return x * x * x  # {number}\n"
_ASKED = "n = int(input())  # {number}\nprint(n * n)\n"

CLEAN: dict[str, tuple[str, Tests, frozenset[Outcome]]] = {
    "call right": (_SQUARE, CALLS, frozenset({Outcome.PASS})),
    "call wrong": (_CUBE, CALLS, frozenset({Outcome.FAIL})),
    "assert right": (_SQUARE, ASSERTS, frozenset({Outcome.PASS})),
    "assert wrong": (_CUBE, ASSERTS, frozenset({Outcome.FAIL})),
    "stdio right": (_ASKED, INPUTS, frozenset({Outcome.PASS})),
    "stdio wrong": (_ASKED.replace("n * n", "n + 2"), INPUTS, frozenset({Outcome.FAIL})),
    "raises": ("def f(x):\n    return 1 // 0  # {number}\n", CALLS, frozenset({Outcome.CRASH})),
    "does not parse": ("def f(x)\n    return {number}\n", CALLS, frozenset({Outcome.CRASH})),
}
_STOPPED = frozenset(
    {Outcome.FAIL, Outcome.CRASH, Outcome.BLOCKED, Outcome.TIMEOUT, Outcome.MEMORY, Outcome.OUTPUT_LIMIT}
)
_HARMLESS = _STOPPED | {Outcome.PASS}
"""The honest part may go on; what must not be is a trace on the host."""
_THEN_SQUARE = "\ndef f(x):\n    return x * x  # {number}\n"
_TRIED = "try:\n    {attack}\nexcept Exception:\n    pass\n" + _THEN_SQUARE

HOSTILE: dict[str, tuple[str, Tests, frozenset[Outcome]]] = {
    "endless loop": ("while True:\n    pass  # {number}\n", CALLS, frozenset({Outcome.TIMEOUT})),
    "sleep": ("import time\ndef f(x):\n    time.sleep(1000)  # {number}\n", CALLS, frozenset({Outcome.TIMEOUT})),
    "fork bomb": ("import os\nwhile True:\n    os.fork()  # {number}\n", CALLS, _STOPPED),
    "thread bomb": (
        "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(9,)).start()  # {number}\n",
        CALLS,
        _STOPPED,
    ),
    "memory": ("x = []\nwhile True:\n    x.append(bytearray(1 << 24))  # {number}\n", CALLS, _STOPPED),
    "flood": ("while True:\n    print('x' * 100000)  # {number}\n", INPUTS, _STOPPED),
    "disk": (_TRIED.format(attack="open('/tmp/big', 'wb').write(bytes(1 << 30))", number="{number}"), CALLS, _HARMLESS),
    "kill": (_TRIED.format(attack="import os; os.kill(-1, 9)", number="{number}"), CALLS, _HARMLESS),
    "daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1000)\n"
        "    os._exit(0)\n" + _THEN_SQUARE,
        CALLS,
        _HARMLESS,
    ),
    "exit(0)": (EXIT_ZERO + "# {number}\n", ASSERTS, _STOPPED),
    "always equal": (ALWAYS_EQUAL.replace("{entry}", "f") + "# {number}\n", ASSERTS, _STOPPED),
    "list append": (LIST_APPEND + "# {number}\n", ASSERTS, _STOPPED),
}


STUBBORN: dict[str, tuple[str, Tests, frozenset[Outcome]]] = {
    **HOSTILE,
    "endless loop": ("n = 0\nwhile n >= 0:\n    n += 1  # {number}\n", CALLS, frozenset({Outcome.TIMEOUT})),
    "sleep": (
        "import select\ndef f(x):\n    select.select([], [], [], 1000)  # {number}\n",
        CALLS,
        frozenset({Outcome.TIMEOUT}),
    ),
}
"""The same with a loop and a sleep that only their deadline ends, for nothing shows at once that they do not end."""


def mix(count: int, hostile_share: float, seed: int, *, stubborn: bool = False) -> Iterator[Job]:
    """`count` different programs in a random order, that share of them hostile, the kinds of each in turn."""
    rng = random.Random(seed)
    hostile_kinds = STUBBORN if stubborn else HOSTILE
    hostile = round(count * hostile_share)
    wanted = [(hostile_kinds, number) for number in range(hostile)]
    wanted += [(CLEAN, number) for number in range(count - hostile)]
    rng.shuffle(wanted)
    for number, (kinds, turn) in enumerate(wanted):
        kind = list(kinds)[turn % len(kinds)]
        program, tests, right = kinds[kind]
        yield Job(kind, program.replace("{number}", str(number)), tests, right)

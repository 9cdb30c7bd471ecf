"""The program's objects as assert tests see them: what honest tests need works, and decides nothing it should not."""

import pytest

from verifiers.sandbox import AssertTests, CallTests, Limits, Outcome, Sandbox
from verifiers.sandbox.capabilities import capabilities

FULL = all(found.works for found in capabilities() if found.needed == "full")
pytestmark = pytest.mark.skipif(not FULL, reason="no namespaces here: see `python -m verifiers.sandbox doctor`")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1) as made:
        yield made


VECTOR = """
class V:
    'A vector'
    def __init__(self, x): self.x = x
    def __add__(self, o): return V(self.x + o.x)
    def __mul__(self, k): return V(self.x * k)
    __rmul__ = __mul__
    def __iadd__(self, o): self.x += o.x; return self
    def __eq__(self, o): return self.x == o.x
    def __hash__(self): return hash(self.x)
    def __abs__(self): return abs(self.x)
    def __getitem__(self, i): return [self.x] * 3 if isinstance(i, slice) else self.x
class Bag:
    def __contains__(self, x): return x == 1
one = Bag()
def get(): return one
"""
NAMED = """
from collections import Counter, namedtuple
P = namedtuple('P', 'x y')
def point(): return P(1, 2)
def count(s): return Counter(s)
class Stack(list):
    def push(self, x): self.append(x); return len(self)
"""
HONEST = {
    "changed and returned": (
        "def f(a):\n    a.sort()\n    return len(a)",
        "def check(f):\n    a = [3, 1]\n    k = f(a)\n    assert k == 2\n    assert a == [1, 3]\ncheck(f)",
    ),
    "a changed keyword": ("def f(**k): k['out'].append(1)", "o = []\nf(out=o)\nassert o == [1]"),
    "arithmetic": (VECTOR, "v = V(3)\nassert v + v == V(6)\nassert v * 2 == 2 * v == V(6)\nassert abs(v) == 3"),
    "in place": (VECTOR, "v = w = V(3)\nv += V(1)\nassert w.x == 4\nassert v is w\nassert v[0:2] == [4, 4, 4]"),
    "identity": (VECTOR, "assert get() is get()\nassert get() is one"),
    "hashes": (VECTOR, "assert len({V(1), V(1), V(2)}) == 2\nassert {V(1): 5}[V(1)] == 5"),
    "own containment": (VECTOR, "b = Bag()\nassert 1 in b\nassert 2 not in b"),
    "documentation": (VECTOR, "assert 'vector' in V.__doc__\nassert V(1).__class__.__name__ == 'V'"),
    "named tuple": (NAMED, "p = point()\nassert p == (1, 2)\nassert p.x == 1\nassert p._replace(x=5) == (5, 2)"),
    "counter": (NAMED, "c = count('aab')\nassert c['a'] == 2 and c['z'] == 0\nassert c.most_common(1) == [('a', 2)]"),
    "own list": (
        NAMED,
        "s = Stack()\nassert s.push(4) == 1\nassert s.push(5) == 2\nassert s == [4, 5]",
    ),
    "name of a callback": (
        "import functools\ndef d(g):\n    @functools.wraps(g)\n    def w(*a): return g(*a)\n    return w",
        "def g(x):\n    'doc'\n    return x\nassert d(g).__name__ == 'g' and d(g).__doc__ == 'doc' and d(g)(3) == 3",
    ),
    "end of an iteration": (
        "class I:\n    n = 0\n    def __iter__(self): return self\n    def __next__(self):\n"
        "        self.n += 1\n        if self.n > 2: raise StopIteration\n        return self.n\n"
        "def g():\n    yield 1",
        "assert list(I()) == [1, 2]\ni = g()\nassert next(i) == 1\n"
        "try:\n    i.send(None)\n    assert False\nexcept StopIteration:\n    pass",
    ),
    "modules that only the program imports": (
        "import math\nfrom collections import Counter\ndef f(x): return x / 2",
        "assert math.isclose(f(1), 0.5)\nassert Counter([f(2)]) == {1.0: 1}",
    ),
    "in place only": (
        "class A:\n    def __init__(s, v): s.v = v\n"
        + "".join(
            f"    def __i{name}__(s, o): return A((s.v, {name!r}, o))\n"
            for name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")
        )
        + "".join(f"    def __i{name}__(s, o): return A((s.v, {name!r}, o))\n" for name in ("and", "or", "xor")),
        "a = A(0)\n"
        + "a += 1\na -= 2\na *= 3\na @= 4\na /= 5\na //= 6\na %= 7\na **= 8\na <<= 9\na >>= 10\n"
        + "a &= 11\na |= 12\na ^= 13\nassert a.v[1:] == ('xor', 13)\nv = a.v\n"
        + "for n in range(13): v = v[0]\nassert v == 0",
    ),
    "arithmetic with what came of arithmetic": (VECTOR, "v = V(1) * 2 * 3\nassert v * 2 == V(12)\nassert v.x == 6"),
    "steps by hand": (
        "class I:\n    n = 0\n    def __next__(self):\n        self.n += 1\n"
        "        if self.n > 2: raise StopIteration(7)\n        return self.n\n",
        "i = I()\nassert i.__next__() == 1\nstep = i.__next__\nassert step() == 2\n"
        "try:\n    step()\n    assert False\nexcept StopIteration as stop:\n    assert stop.value == 7",
    ),
    "a function named like a module": ("def bisect(x): return x + 1", "assert bisect(1) == 2"),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_tests_work(sandbox, name):
    program, code = HONEST[name]
    exec(program + "\n" + code, {"__name__": "main"})  # noqa: S102 - they are right in one interpreter, too
    report = sandbox.run_tests(program, AssertTests(code))
    assert report.outcome is Outcome.PASS, report.tests


STOPS = ("StopIteration", "StopAsyncIteration", "GeneratorExit")
TRICKS = {
    **{
        f"{error} in a loop": (
            f"def neg(x): raise {error}",
            f"for got, want in zip(map(neg, [4]), [{number}]): assert got",
        )
        for number, error in enumerate(STOPS)
    },
    "StopIteration in all": ("def neg(x): raise StopIteration", "assert all(map(lambda v: neg(v) == -v, [1, 2]))"),
    "a subclass of it": (
        "class S(StopIteration): pass\ndef neg(x): raise S",
        "assert list(map(neg, [1])) + [1] == [1]",
    ),
    "its own math": (
        "class math: isclose = staticmethod(lambda *a, **k: True)\ndef neg(x): return 0",
        "assert math.isclose(neg(4), -4)",
    ),
    "its own isclose": ("def isclose(a, b): return True\ndef neg(x): return 0", "assert isclose(neg(4), -4)"),
    "changes what it is compared with": (
        "def srt(x):\n    x.clear(); return []",
        "a = [2, 1]\nassert srt(a) == sorted(a)",
    ),
    "contains all": (
        "class E:\n    def __contains__(s, x): return True\ndef neg(x): return E()",
        "assert -4 in neg(4)",
    ),
    "arithmetic": ("class E:\n    def __sub__(s, x): return 0\ndef neg(x): return E()", "assert abs(neg(4) - 9) < 1"),
    "arithmetic in place": (
        "class E:\n    def __isub__(s, x): return 0\ndef neg(x): return E()",
        "x = neg(4)\nx -= 9\nassert abs(x) < 1",
    ),
    "an equal list": (
        "class L(list):\n    def __eq__(s, o): return True\n    __hash__ = None\ndef neg(x): return L()",
        "assert neg(1) == [5]",
    ),
    "a list with methods": (
        "class L(list):\n    def __getattr__(s, n): return lambda *a: [5]\ndef neg(x): return L()",
        "assert neg(1) + [] == [5]",
    ),
    "a claimed class": (
        "class E:\n    __class__ = int\ndef neg(x): return E()",
        "assert neg(4) == 5 or int(neg(4)) == 5",
    ),
    "equal hashes": (
        "class E:\n    __hash__ = lambda s: hash(5)\n    __eq__ = lambda s, o: True\ndef neg(x): return E()",
        "assert neg(1) in {5}",
    ),
}


@pytest.mark.parametrize("name", TRICKS)
def test_tricks_do_not(sandbox, name):
    program, code = TRICKS[name]
    report = sandbox.run_tests(program, AssertTests(code))
    assert report.outcome in (Outcome.FAIL, Outcome.CRASH), report.tests


FLOODS = {
    "one set": "{'s': [*range(150000), *(k * (2**61 - 1) for k in range(150000))]}",
    "many sets": "[{'s': [k * (2**61 - 1) for k in range(1000)]} for _ in range(700)]",
    "a fraction": "{'F': [hex(3 ** 5000000), hex(7 ** 3000000)]}",
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_value_cannot_hold_up_who_reads_it(sandbox, name):
    program = (
        f"import json, os\ndef f(x):\n    d = json.dumps({{'value': {FLOODS[name]}}}).encode()\n"
        "    d = len(d).to_bytes(4, 'big') + d\n    while d: d = d[os.write(3, d):]\n    while True: pass"
    )
    for tests in (CallTests("f", (((1,), 2),)), AssertTests("assert f(1) == 2")):
        report = sandbox.run_tests(program, tests, Limits(timeout_s=10.0))
        assert report.outcome not in (Outcome.PASS, Outcome.SANDBOX_ERROR), report
        assert report.seconds < 30

"""Test code taken apart: which parts are tests, which names it wants, and whether it leaves its process as it was."""

from __future__ import annotations
import __future__

import ast
import builtins
import re
import symtable
from functools import lru_cache
from importlib import import_module
from types import CodeType
from typing import Any, NamedTuple

_FILE = "<tests>"
SETTLE = "__settle__"
_INERT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass)
_HARMLESS_IMPORTS = frozenset(
    [
        "__future__",
        "bisect",
        "collections",
        "copy",
        "datetime",
        "decimal",
        "fractions",
        "functools",
        "heapq",
        "itertools",
        "json",
        "math",
        "operator",
        "random",
        "re",
        "statistics",
        "string",
        "time",
        "typing",
    ]
)
_HELPERS = {
    **dict.fromkeys(("fabs", "inf", "isclose", "isfinite", "isinf", "isnan", "nan", "pi"), "math"),
    **dict.fromkeys(("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"), "collections"),
    "Decimal": "decimal",
    "Fraction": "fractions",
    "deepcopy": "copy",
}
"""What tests use to compare, and the modules it is from."""
_MEDDLING = frozenset(
    ["__builtins__", "__import__", "compile", "delattr", "eval", "exec", "globals", "locals", "open", "setattr", "vars"]
)


class Part(NamedTuple):
    """One test: what prepares it, and the check itself."""

    setup: CodeType | None
    check: CodeType


class Plan(NamedTuple):
    """`wanted` are the names that the tests use and do not define; `built_in` those of them that Python has too.

    `modules` are those that are named like a module and used like one, each with the attributes that are used.
    """

    parts: tuple[Part, ...]
    wanted: frozenset[str]
    built_in: frozenset[str]
    modules: dict[str, frozenset[str]]

    def names_of(self, offered: set[str]) -> set[str]:
        """Which of the names that a program offers its tests should see.

        One that hides a built-in function would decide the verdict (`set`, `sorted`). It counts only where it is
        surely what is tested: the tests use nothing else of the program and no other built-in name.
        """
        names = offered & self.wanted
        if names or len(self.built_in) != 1:
            return names
        return offered & self.built_in

    def library_of(self, offered: set[str]) -> dict[str, Any]:
        """Names that mean the library's own objects, though the tests do not import them: their program does.

        What else it may have bound to them would decide the verdict (a `math.isclose` that is always true). A helper
        by itself, such as `Counter`, is the library's where the tests use anything else of the program.
        """
        found: dict[str, Any] = {}
        for name, attributes in self.modules.items():
            if name in offered and all(hasattr(import_module(name), attribute) for attribute in attributes):
                found[name] = import_module(name)
        names = self.names_of(offered) - set(found)
        helpers = names & set(_HELPERS)
        if helpers != names:
            found |= {name: getattr(import_module(_HELPERS[name]), name) for name in helpers}
        return found


@lru_cache(maxsize=256)
def count_tests(code: str) -> int:
    """How many tests `plan_tests` finds.

    Raises:
        SyntaxError: it is no Python.
        ValueError: it checks nothing.
    """
    body = ast.parse(code, _FILE).body
    compile(code, _FILE, "exec", dont_inherit=True)  # there are mistakes that parsing does not find
    if all(isinstance(node, _INERT) or _is_constant(node) for node in body):
        raise ValueError("it checks nothing: no statement of it calls anything or asserts anything")
    return sum(isinstance(node, ast.Assert) for node in body) + (not isinstance(body[-1], ast.Assert))


@lru_cache(maxsize=256)
def plan_tests(code: str) -> Plan:
    """Every top-level `assert` is a test, together with the statements before it; so is what comes after the last.

    Raises:
        SyntaxError: it is no Python.
    """
    body = ast.parse(code, _FILE).body
    free = _free_names(code)
    settling = _Settling(code)
    flags = 0
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    parts, setup = [], []
    for node in body:
        if isinstance(node, ast.Assert):
            parts.append(Part(settling.compile(setup, flags) if setup else None, settling.compile([node], flags)))
            setup = []
        else:
            setup.append(node)
    if setup or not parts:
        parts.append(Part(None, settling.compile(setup, flags)))
    built_in = frozenset(name for name in free if hasattr(builtins, name))
    return Plan(tuple(parts), frozenset(free - built_in), built_in, _modules(body, free & _HARMLESS_IMPORTS))


@lru_cache(maxsize=256)
def leaves_no_trace(code: str) -> bool:
    """Whether this test code surely changes nothing that later tests in the same process could see."""
    try:
        tree = ast.parse(code, _FILE)
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            return False
        if isinstance(node, ast.Name) and node.id in _MEDDLING:
            return False
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            continue
        if any(module.split(".")[0] not in _HARMLESS_IMPORTS for module in modules):
            return False
    return True


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _modules(body: list[ast.stmt], names: set[str]) -> dict[str, frozenset[str]]:
    """Those of `names` that are only used as `name.attribute`, with the attributes."""
    if not names:
        return {}
    nodes = [part for node in body for part in ast.walk(node)]
    uses: dict[str, list[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            uses.setdefault(node.value.id, []).append(node.attr)
    named = [node.id for node in nodes if isinstance(node, ast.Name)]
    return {name: frozenset(uses[name]) for name in names & set(uses) if named.count(name) == len(uses[name])}


_SETTLE_NOW = ast.parse(f"{SETTLE}()").body


class _Settling:
    """Compiles statements, with a call of SETTLE behind every simple one that may call anything."""

    def __init__(self, code: str) -> None:
        self._lines = re.split(r"\r\n?|\n", code)

    def compile(self, body: list[ast.stmt], flags: int) -> CodeType:
        tree = ast.Module(self._settled(body), type_ignores=[])
        return compile(tree, _FILE, "exec", flags=flags, dont_inherit=True)

    def _settled(self, body: list[ast.stmt]) -> list[ast.stmt]:
        settled = []
        for node in body:
            settled.append(node)
            if isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Assert):
                if any("(" in line for line in self._lines[node.lineno - 1 : node.end_lineno]):
                    settled += _SETTLE_NOW
            else:
                self._settle_inside(node)
        return settled

    def _settle_inside(self, node: ast.AST) -> None:
        for field in ("body", "orelse", "finalbody"):
            if body := getattr(node, field, None):
                setattr(node, field, self._settled(body))
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            self._settle_inside(part)


def _free_names(code: str) -> set[str]:
    """Global names that are read, and that nothing here binds."""
    read, bound = set(), set()
    tables = [symtable.symtable(code, _FILE, "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if not (top or symbol.is_global()):
                continue
            if symbol.is_referenced():
                read.add(symbol.get_name())
            if symbol.is_assigned() or symbol.is_imported():
                bound.add(symbol.get_name())
    return read - bound

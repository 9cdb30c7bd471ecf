"""No text is ever evaluated: not a model's, not a data set's, not a stored file's.

What is banned is found in the syntax tree, under whatever name it was imported: functions that run text as a program,
functions of sympy that evaluate the text they parse, loaders that run what a file says, and shells.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("reasoning", "verifiers", "rl", "eval")

BUILTINS = frozenset({"eval", "exec", "compile", "__import__"})
SYMPY = frozenset({"sympify", "parse_expr", "parse_latex", "parse_maxima", "parse_mathematica", "lambdify", "S"})
"""By name, from wherever they come. `S` only where it is called: sympy.S.Integers is a value."""
MODULES = frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "runpy", "codeop"})
CALLS = frozenset({"os.system", "os.popen", "pandas.read_pickle", "yaml.unsafe_load", "yaml.full_load"})
NEEDED = {"torch.load": ("weights_only", True), "yaml.load": ("Loader", None)}
"""Calls that are only right with this argument; None: no value is right, there is a better function."""
REFUSED = {"shell": True, "allow_pickle": True}
"""Arguments that no call may have."""

ALLOWED = {"verifiers/sandbox": frozenset({"eval", "exec", "compile"})}
"""By folder: what runs inside the box runs programs, and the tests that come with a task are compiled for it."""


def evaluations(source):
    """Every place of a module that could evaluate text, as (line, name)."""
    tree = ast.parse(source)
    origins = _origins(tree)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = [(getattr(node, "lineno", 0), name) for node in ast.walk(tree) for name in _banned(node, origins, called)]
    return sorted(set(found))


def _origins(tree):
    """What names of the module stand for: {"np": "numpy", "loads": "pickle.loads"}."""
    origins = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                origins[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            origins |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return origins


def _banned(node, origins, called):
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in MODULES)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield from [node.module] * (node.module.partition(".")[0] in MODULES)
        yield from (alias.name for alias in node.names if alias.name in SYMPY - {"S"})
        yield from (alias.name for alias in node.names if node.module == "builtins" and alias.name in BUILTINS)
    elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        name = _dotted(node, origins)
        yield from _banned_name(name, is_called=id(node) in called)
    if isinstance(node, ast.Call):
        yield from _banned_call(node, _dotted(node.func, origins))


def _banned_name(name, *, is_called):
    origin, _, last = name.rpartition(".")
    if last in BUILTINS and origin in ("", "builtins", "__builtins__"):
        yield last
    if last in SYMPY and (last != "S" or is_called) and origin != "self":
        yield last
    if name in CALLS:
        yield name


def _banned_call(node, name):
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if name in NEEDED:
        argument, value = NEEDED[name]
        if value is None or getattr(given.get(argument), "value", None) is not value:
            yield name
    for argument, value in REFUSED.items():
        if argument in given and getattr(given[argument], "value", value) == value:
            yield f"{name}({argument}=...)"


def _dotted(node, origins):
    """The whole name of what a node refers to, as far as it is written out: np.load is numpy.load."""
    if isinstance(node, ast.Name):
        return origins.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, origins)}.{node.attr}"
    return "?"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_source_evaluates_text(package):
    paths = sorted((ROOT / package).rglob("*.py"))
    assert paths
    found = []
    for path in paths:
        place = path.relative_to(ROOT)
        allowed = ALLOWED.get(str(place.parent), frozenset())
        found += [f"{place}:{line} {name}" for line, name in evaluations(path.read_text()) if name not in allowed]
    assert found == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("eval(text)", "eval"),
        ("exec(text)", "exec"),
        ("run = eval", "eval"),
        ("map(eval, texts)", "eval"),
        ("compile(text, '', 'exec')", "compile"),
        ("__import__('os')", "__import__"),
        ("import builtins\nbuiltins.exec(text)", "exec"),
        ("from builtins import eval as calm", "eval"),
        ("import sympy\nsympy.sympify(text)", "sympify"),
        ("from sympy import sympify as read", "sympify"),
        ("import sympy as sp\nsp.S(text)", "S"),
        ("from sympy import S\nS(text)", "S"),
        ("from sympy.parsing.sympy_parser import parse_expr", "parse_expr"),
        ("import sympy\nsympy.parsing.latex.parse_latex(text)", "parse_latex"),
        ("from sympy import lambdify", "lambdify"),
        ("import pickle", "pickle"),
        ("from pickle import loads", "pickle"),
        ("import marshal as m", "marshal"),
        ("import torch\ntorch.load(path)", "torch.load"),
        ("import torch\ntorch.load(path, weights_only=False)", "torch.load"),
        ("import numpy as np\nnp.load(path, allow_pickle=True)", "numpy.load(allow_pickle=...)"),
        ("import yaml\nyaml.load(text, Loader=yaml.Loader)", "yaml.load"),
        ("import yaml\nyaml.unsafe_load(text)", "yaml.unsafe_load"),
        ("import os\nos.system(text)", "os.system"),
        ("from os import popen as ask\nask(text)", "os.popen"),
        ("import subprocess\nsubprocess.run(text, shell=True)", "subprocess.run(shell=...)"),
        ("import subprocess as s\ns.run(text, shell=wanted)", "subprocess.run(shell=...)"),
    ],
)
def test_what_is_banned_is_found(source, name):
    assert name in [found for _, found in evaluations(source)]


@pytest.mark.parametrize(
    "source",
    [
        "import re\nre.compile(text)",
        "import torch\ntorch.compile(step)\ntorch.load(path, weights_only=True)",
        "model.eval()",
        "def evaluate(text): return text",
        "import sympy\nsympy.S.Integers, sympy.Integer(3), sympy.Symbol(name)",
        "S = TypeVar('S')\ndef f(x: S) -> S: ...",
        "import yaml\nyaml.safe_load(text)",
        "import ast\nast.literal_eval(text)",
        "import subprocess\nsubprocess.run(words, shell=False)",
        "import numpy as np\nnp.load(path)",
        "'eval(text)'",
    ],
)
def test_what_is_harmless_is_left_alone(source):
    assert evaluations(source) == []

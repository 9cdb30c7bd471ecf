"""The repository as a package: what it imports, declares, ships, and what must not be in it."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("reasoning", "verifiers", "rl", "eval")
HEAVY = ("torch", "vllm", "trl", "transformers", "matplotlib", "sympy", "math_verify", "datasets", "pandas")
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".npz", ".gguf")
NOT_OURS = re.compile(r"\.(?!ci$)|(?:runs|build|dist)$|.*\.egg-info$")
LEAK = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|deb\.debian|proxy\.golang|crates\.io"
    r"|(?<![\w.])/(?:work|root|home/\w+|Users/\w+)/"
)


def repository_files():
    """Files of the repository, also where it is no git checkout."""
    for top in ROOT.iterdir():
        if top.is_file():
            yield top
        elif not NOT_OURS.match(top.name):
            yield from (path for path in top.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def sources():
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def nodes(kind):
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, kind):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def declared(*extras):
    project = pyproject()["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return [Requirement(line) for line in lines]


def locked():
    lines = [line for name in ("cpu", "dev") for line in (ROOT / f"requirements/{name}.txt").read_text().splitlines()]
    return [Requirement(line) for line in lines if not line.startswith("#")]


def run_python(code, *path, cwd):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", ["verifiers", "rl", "eval"])
@pytest.mark.parametrize("file", ["{}.py", "{}/__init__.py"])
def test_foreign_package_is_refused_and_not_imported(tmp_path, name, file):
    foreign = tmp_path / file.format(name)
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("print('the foreign package was imported')")
    result = run_python("import reasoning", tmp_path, ROOT, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stdout == ""
    assert (
        f"ImportError: reasoning needs its own package `{name}` in {ROOT}, but Python finds {foreign}" in result.stderr
    )
    assert f"export PYTHONPATH={ROOT}" in result.stderr


def test_missing_package_is_refused(tmp_path):
    alone = tmp_path / "reasoning"
    alone.mkdir()
    (alone / "__init__.py").write_text((ROOT / "reasoning/__init__.py").read_text())
    (tmp_path / "verifiers").mkdir()  # a folder without __init__.py is no package of ours either
    code = f"import sys; sys.path = [{str(tmp_path)!r}] + sys.path; import reasoning"
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60)
    assert "ImportError: reasoning needs its own package `verifiers`" in result.stderr
    assert "Python finds none" in result.stderr


def test_importing_the_spine_loads_nothing_heavy(tmp_path):
    code = f"import sys, reasoning.config, verifiers.base, eval.statistics; print(*set({HEAVY}) & set(sys.modules))"
    result = run_python(code, ROOT, cwd=tmp_path)
    assert (result.returncode, result.stdout.split()) == (0, []), result.stderr


def test_no_registry_host_and_no_path_of_a_machine():
    texts = {path: path.read_text(errors="ignore") for path in repository_files() if path.stat().st_size < 1_000_000}
    assert ROOT / "pyproject.toml" in texts
    assert {
        str(path.relative_to(ROOT)): found.group() for path, text in texts.items() if (found := LEAK.search(text))
    } == {}


def test_weights_stay_under_20_mb():
    assert sum(path.stat().st_size for path in repository_files() if path.suffix in WEIGHTS) < 20_000_000


def test_every_imported_distribution_is_declared():
    names = {canonicalize_name(requirement.name) for requirement in declared("cpu", "cuda", "lora")}
    owners = packages_distributions()
    imported = [(place, alias.name) for place, node in nodes(ast.Import) for alias in node.names]
    imported += [(place, node.module) for place, node in nodes(ast.ImportFrom) if node.module and not node.level]
    undeclared = [
        f"{place} {module}"
        for place, module in imported
        if (top := module.split(".")[0]) not in {*PACKAGES, *sys.stdlib_module_names}
        and not names & {canonicalize_name(owner) for owner in owners.get(top, [])}
    ]
    assert undeclared == []


def test_locked_versions_are_exact_and_within_the_declared_ranges():
    pins = {canonicalize_name(pin.name): next(iter(pin.specifier)) for pin in locked()}
    assert {pin.operator for pin in pins.values()} == {"=="}
    for requirement in declared("cpu", "dev"):
        version = pins[canonicalize_name(requirement.name)].version
        assert requirement.specifier.contains(version), f"{requirement}, but requirements/ has {version}"


def test_every_module_of_the_spine_has_its_layer():
    (layers, *_) = pyproject()["tool"]["importlinter"]["contracts"]
    files = [*(ROOT / "reasoning").glob("[!_]*.py"), *(ROOT / "reasoning").glob("*/__init__.py")]
    modules = {path.parent.name if path.stem == "__init__" else path.stem for path in files}
    assert len(modules) > 5
    assert modules <= set(re.findall(r"reasoning\.(\w+)", " ".join(layers["layers"])))


def test_wheel_ships_every_module_and_the_bundled_model(tmp_path):
    copy = tmp_path / "copy"
    for path in repository_files():
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(copy)], check=True, timeout=100)
    (wheel,) = tmp_path.glob("reasoning_harness-*.whl")
    shipped = zipfile.ZipFile(wheel).namelist()
    data = (*(ROOT / "reasoning/pocket").iterdir(), *(ROOT / "eval").glob("*.j2"))
    in_tree = {str(path.relative_to(ROOT)) for path in (*sources(), *data)}
    assert in_tree <= set(shipped)
    assert {name.split("/")[0] for name in shipped if ".dist-info/" not in name} == set(PACKAGES)

"""The spine of the harness: configuration, tasks, engine, budget controller, run folder and the commands.

`verifiers`, `rl` and `eval` are import names that other distributions use too, so the first import of `reasoning` makes
sure that Python finds ours, without importing them.
"""

from importlib.util import find_spec
from pathlib import Path

__version__ = "0.1.0"

_HOME = Path(__file__).resolve().parents[1]
for _name in ("verifiers", "rl", "eval"):
    _found = getattr(find_spec(_name), "origin", None)
    if _found is None or Path(_found).resolve() != _HOME / _name / "__init__.py":
        raise ImportError(
            f"reasoning needs its own package `{_name}` in {_HOME}, but Python finds {_found or 'none'}. "
            f"Put ours first: export PYTHONPATH={_HOME}. Or remove the other one: pip uninstall {_name}"
        )

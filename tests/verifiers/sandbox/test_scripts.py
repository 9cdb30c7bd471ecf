"""Programs that read and write: as in Python itself, whatever they do with their streams."""

import subprocess
import sys

import pytest

from verifiers.sandbox import Outcome, Sandbox, StdioTests
from verifiers.sandbox.capabilities import capabilities

FULL = all(found.works for found in capabilities() if found.needed == "full")
pytestmark = pytest.mark.skipif(not FULL, reason="no namespaces here: see `python -m verifiers.sandbox doctor`")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1) as made:
        yield made


FAST_OUTPUT = """
import io, os, sys
class Wrapper:
    def __init__(self, file):
        self.buffer = io.BytesIO(); self.fd = file.fileno()
    def write(self, text): self.buffer.write(text.encode())
    def flush(self):
        os.write(self.fd, self.buffer.getvalue())
        self.buffer = io.BytesIO()
sys.stdout = Wrapper(sys.stdout)
print(int(input()) + 1)
"""
SCRIPTS = {
    "stdin by its path": "print(int(open('/dev/stdin').read()) + 1)",
    "stdin by its number": "print(int(open('/proc/self/fd/0').read()) + 1)",
    "stdout by its path": "open('/dev/stdout', 'w').write(str(int(input()) + 1))",
    "stderr by its path": "open('/dev/stderr', 'w').write('x')\nprint(int(input()) + 1)",
    "a closed stdout": "import sys\nprint(int(input()) + 1)\nsys.stdout.close()",
    "a replaced stdout": "import io, sys\no = sys.stdout\nsys.stdout = io.StringIO()\no.write(str(int(input()) + 1))",
    "a wrapped stdout": "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer)\nprint(int(input()) + 1)",
    "a detached stdout": "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.detach())\nprint(int(input()) + 1)",
    "fast output": FAST_OUTPUT,
    "a last word": "X = 1\nclass A:\n    def __del__(s): print(int(input()) + X)\na = A()\na.me = a",
    "a byte order mark": "\ufeffprint(int(input()) + 1)",
    "exit handlers": "import atexit\natexit.register(lambda: print(int(input()) + 1))",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_as_in_python(sandbox, name, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPTS[name], encoding="utf-8")
    done = subprocess.run([sys.executable, "script.py"], input="41\n", capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout.strip(), done.returncode) == ("42", 0), done
    report = sandbox.run_tests(SCRIPTS[name], StdioTests((("41\n", "42\n"),)))
    assert report.outcome is Outcome.PASS, (report.detail, report.stderr, report.stdout)


def test_a_stdout_that_was_taken_away_is_a_failure_as_in_python(sandbox, tmp_path):
    script = "import io, sys\nout = io.TextIOWrapper(sys.stdout.detach())\nout.write(str(int(input()) + 1))"
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run([sys.executable, "script.py"], input="41\n", capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("42", 120)
    report = sandbox.run_tests(script, StdioTests((("41\n", "42\n"),)))
    assert (report.outcome, report.detail) == (Outcome.CRASH, "ended with exit status 120")


def test_an_empty_stdin_can_be_opened_again(sandbox):
    report = sandbox.run_tests("print(len(open('/dev/stdin').read()))", StdioTests((("", "0"),)))
    assert report.outcome is Outcome.PASS, report.detail

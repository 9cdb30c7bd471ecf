"""Less than the full box: refused unless asked for, said in every report, and with the same verdicts."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from verifiers.sandbox import Sandbox, Tier
from verifiers.sandbox.capabilities import capabilities
from verifiers.sandbox.linux import landlock_version

ROOT = Path(__file__).parents[3]
WITHOUT_NAMESPACES = ["unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "sh"]
FULL = all(found.works for found in capabilities() if found.needed == "full")
namespaces = pytest.mark.skipif(not FULL, reason="namespaces cannot be switched off where there are none")
landlock = pytest.mark.skipif(landlock_version() < 6, reason="without signal scopes this would be a danger")

USE = """
import json, sys, warnings
from verifiers.sandbox import *
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as said:
    with Sandbox(workers=1) as sandbox:
        run = lambda program, tests: sandbox.run_tests(program, tests, Limits(timeout_s=1.0))
        f = CallTests("f", (((1,), 2), ((2,), 3)))
        reports = [
            run("def f(x): return x + 1", f),
            run("def f(x): return x", f),
            run("def f(x):\\n    while True: pass", f),
            run("import os\\ndef f(x): os._exit(0)", f),
            run("def f(x): return 'a' * (9 << 30)", f),
            run("class E:\\n    __eq__ = lambda s, o: True\\ndef f(x): return E()", AssertTests("assert f(1) == 2")),
            run("def f(x): return x + 1", AssertTests("assert f(1) == 2")),
            run(
                "import os\\nif os.fork(): print(int(input()) + 1)\\nelse:\\n    os.setsid()\\n    while True: pass",
                StdioTests((("1", "2"),)),
            ),
            run("import sys; sys.exit(1)", StdioTests((("1", "2"),))),
        ]
print(json.dumps({"tier": reports[0].tier, "warnings": len(said),
                  "outcomes": [report.outcome for report in reports], "tiers": [report.tier for report in reports]}))
"""
OUTCOMES = ["pass", "fail", "timeout", "crash", "memory", "fail", "pass", "pass", "crash"]


def python(code, *prefix, tier=None):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("REASONING_SANDBOX_TIER", None)
    if tier:
        environment["REASONING_SANDBOX_TIER"] = tier
    command = [*prefix, sys.executable, *code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, cwd=ROOT)


def used(*prefix, tier=None):
    done = python(["-c", USE], *prefix, tier=tier)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@namespaces
def test_full_here():
    assert used() == {"tier": "full", "warnings": 0, "outcomes": OUTCOMES, "tiers": ["full"] * len(OUTCOMES)}


@namespaces
@landlock
def test_without_user_namespaces_the_default_refuses():
    done = python(["-c", USE], *WITHOUT_NAMESPACES)
    assert done.returncode == 1
    assert "SandboxUnavailable: this system gives no sandbox of tier full" in done.stderr
    assert "python -m verifiers.sandbox doctor" in done.stderr
    assert "REASONING_SANDBOX_TIER=landlock" in done.stderr


@namespaces
@landlock
def test_less_is_said_once_and_in_every_report_and_gives_the_same_verdicts():
    found = used(*WITHOUT_NAMESPACES, tier="landlock")
    assert found == {"tier": "landlock", "warnings": 1, "outcomes": OUTCOMES, "tiers": ["landlock"] * len(OUTCOMES)}


@namespaces
@landlock
def test_the_doctor_names_what_is_missing_and_the_fix():
    done = python(["-m", "verifiers.sandbox", "doctor"], *WITHOUT_NAMESPACES)
    assert done.returncode == 1
    assert "no  user namespace" in done.stdout
    assert "fix: sysctl -w user.max_user_namespaces=10000" in done.stdout
    assert "tier: landlock" in done.stdout


@namespaces
def test_the_doctor_is_content():
    done = python(["-m", "verifiers.sandbox", "doctor"])
    assert done.returncode == 0, done.stdout
    assert "tier: full" in done.stdout
    assert python(["-m", "verifiers.sandbox", "cure"]).returncode == 2


PROGRAM = """
import json, os, socket
out = {}
for path in ("/etc/passwd", "/proc/1/environ", %(secret)r):
    try: open(path).read(1); out[path] = "read"
    except OSError: pass
for path in ("/tmp/x", "/var/tmp/x", "/dev/shm/x", %(folder)r + "/x"):
    try: open(path, "w"); out[path] = "written"
    except OSError: pass
for family in (socket.AF_INET, socket.AF_UNIX):
    try: socket.socket(family); out[str(family)] = "made"
    except OSError: pass
try: os.kill(os.getppid(), 0); out["signal"] = "sent"
except OSError: pass
open("mine", "w").write("x")
import tempfile
tempfile.NamedTemporaryFile().close()
print(json.dumps(out))
"""


@namespaces
@landlock
def test_landlock_keeps_files_network_and_signals(tmp_path):
    (tmp_path / "secret").write_text("s")
    os.chmod(tmp_path, 0o777)
    program = PROGRAM % {"secret": str(tmp_path / "secret"), "folder": str(tmp_path)}
    code = (
        "from verifiers.sandbox import *\nimport warnings\nwarnings.simplefilter('ignore')\n"
        f"r = Sandbox(workers=1).run_tests({program!r}, StdioTests((('', '?'),)))\nprint(r.stdout or r)"
    )
    done = python(["-c", code], *WITHOUT_NAMESPACES, tier="landlock")
    assert done.stdout.strip() == "{}", done


def test_an_unknown_tier_is_named(monkeypatch):
    monkeypatch.setenv("REASONING_SANDBOX_TIER", "strong")
    with pytest.raises(ValueError, match="REASONING_SANDBOX_TIER is 'strong'; write one of full, landlock, process"):
        Sandbox()


@pytest.mark.skipif(sys.platform != "linux", reason="the number of processes is read from /proc")
@pytest.mark.parametrize(
    "tier", [Tier.PROCESS, pytest.param(Tier.LANDLOCK, marks=landlock), pytest.param(Tier.FULL, marks=namespaces)]
)
def test_every_tier_makes_the_verdict_also_for_root_with_a_python_of_its_own(tier):
    from verifiers.sandbox.worker import Worker
    from verifiers.sandbox.worker_process import next_user

    worker = Worker(tier, next_user(), lambda: None)
    limits = {"timeout_s": 1.0, "memory_mb": 512, "pids": 64, "output_kb": 64, "fsize_mb": 8}
    programs = {
        "pass": "def f(x): return x + 1",
        "fail": "class E:\n    __eq__ = lambda s, o: True\ndef f(x): return E()",
        "timeout": "def f(x):\n    while True: pass",
        "crash": "import os\ndef f(x): os._exit(0)",
    }
    try:
        for wanted, program in programs.items():
            job = {"form": "call", "entry": "f", "compare": "python_eq", "cases": [[[1], 2]], "count": 1}
            report = worker.run({**job, "program": program, "limits": limits, "patience_s": None, "fail_fast": False})
            assert report["tests"][0][0] == wanted, report
        modules = "import bisect, sqlite3, encodings.idna, xml.etree.ElementTree\n"
        job = {**job, "limits": limits, "patience_s": None, "fail_fast": False}
        report = worker.run({**job, "program": modules + programs["pass"]})
        assert report["tests"][0][0] == "pass", report
        started = time.monotonic()
        for code in ("import os\nassert f(1) == 2", "assert f(1) == 2\nimport time\ntime.sleep(60)"):
            job |= {"form": "assert", "code": code, "count": code.count("assert") + code.count("sleep(")}
            outcomes = [test[0] for test in worker.run({**job, "program": programs["pass"]})["tests"]]
            assert outcomes[0] == ("timeout" if "sleep" in code else "pass"), outcomes
        assert time.monotonic() - started < 20
    finally:
        worker.close()


def test_probes_leave_no_process():
    code = (
        "import os\nfrom verifiers.sandbox import linux\nfrom verifiers.sandbox.capabilities import capabilities\n"
        "linux.adopt_orphans()\ncapabilities()\n"
        "while True:\n    try: left, _ = os.waitpid(-1, os.WNOHANG)\n    except ChildProcessError: break\n"
        "    if not left: raise SystemExit('a process is left')"
    )
    done = python(["-c", code])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("moment", [0.05, 0.1, 0.15, 0.2, 0.3])
def test_probes_end_when_their_user_is_killed(moment):
    user = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from verifiers.sandbox.capabilities import *\nprint(1, flush=True)\nwhile True: capabilities()",
        ],
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        user.stdout.readline()
        time.sleep(moment)
        started = psutil.Process(user.pid).children(recursive=True)
    finally:
        user.kill()
        user.wait()
        user.stdout.close()
    _, alive = psutil.wait_procs(started, timeout=10)
    assert alive == []


@pytest.mark.skipif(os.name != "posix", reason="a umask")
@pytest.mark.parametrize("mask", ["077", "027"])
@namespaces
def test_any_umask(mask):
    assert used("sh", "-c", f'umask {mask}; exec "$@"', "sh")["tier"] == "full"

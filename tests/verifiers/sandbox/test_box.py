"""Each layer of the box by itself, seen from a program inside; and that nothing is left of a program afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from verifiers.sandbox import CallTests, Limits, Outcome, Sandbox, StdioTests, Tier
from verifiers.sandbox.capabilities import capabilities
from verifiers.sandbox.client import Zygote
from verifiers.sandbox.tests_process import TestsProcess
from verifiers.sandbox.worker_process import next_user
from verifiers.sandbox.zygote import ENDED, NUMBER

FULL = all(found.works for found in capabilities() if found.needed == "full")
pytestmark = pytest.mark.skipif(not FULL, reason="no namespaces here: see `python -m verifiers.sandbox doctor`")
LIMITS = Limits(timeout_s=10.0)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1) as made:
        yield made


def ask(sandbox, program, limits=LIMITS):
    """What a program prints, as JSON."""
    report = sandbox.run_tests(program, StdioTests((("", "?"),)), limits)
    assert report.outcome is Outcome.FAIL, (report.detail, report.stderr)
    return json.loads(report.stdout)


def call(sandbox, program, expected, limits=LIMITS, argument=1):
    return sandbox.run_tests(program, CallTests("f", (((argument,), expected),)), limits)


def test_nothing_of_the_host_is_there(sandbox, monkeypatch, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    found = ask(
        sandbox,
        f"import json, os\nprint(json.dumps([os.path.exists({str(secret)!r}), os.path.exists({str(Path.cwd())!r}), "
        "sorted(os.listdir('/')), os.listdir('/etc') if os.path.exists('/etc') else [], dict(os.environ), "
        "os.listdir('.'), os.listdir('/tmp')]))",
    )
    there, here, top, etc, environment, files, temporary = found
    assert not there and not here
    assert not {"home", "work", "sys", "boot", "mnt", "run", "srv"} & set(top)
    assert set(etc) <= {"ld.so.cache"}
    assert set(environment) <= {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LC_CTYPE"}
    assert (files, temporary) == (["main.py"], [])


def test_secrets_in_the_environment_and_open_files_stay_out(monkeypatch, tmp_path):
    monkeypatch.setenv("API_TOKEN", "hush")
    (tmp_path / "open").write_text("hush")
    fd = os.open(tmp_path / "open", os.O_RDONLY)
    os.set_inheritable(fd, True)
    program = (
        "import glob, json, os\nfound = []\n"
        "for p in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):\n"
        "    try: found.append('hush' in open(p, errors='replace').read())\n    except OSError: pass\n"
        "fds = []\nfor fd in range(200):\n    try: os.fstat(fd); fds.append(fd)\n    except OSError: pass\n"
        "print(json.dumps([any(found), fds]))"
    )
    with Sandbox(workers=1) as sandbox:
        leaked, descriptors = ask(sandbox, program)
    os.close(fd)
    assert not leaked
    assert descriptors in ([0, 1, 2], [0, 1, 2, 3])


def test_processes_are_its_own(sandbox):
    program = (
        "import json, os\nnames = [n for n in os.listdir('/proc') if n.isdigit()]\n"
        "print(json.dumps([os.getpid(), os.getppid(), sorted(map(int, names)), os.getuid(), os.getgid()]))"
    )
    assert ask(sandbox, program) == [2, 1, [1, 2], 1000, 1000]


def test_the_first_process_cannot_be_read_or_ended(sandbox):
    program = (
        "import json, os\nout = []\n"
        "for path in ('/proc/1/mem', '/proc/1/environ', '/proc/1/maps'):\n"
        "    try: open(path, 'rb').read(1); out.append(path)\n    except OSError: pass\n"
        "for s in (9, 15, 19):\n    try: os.kill(1, s)\n    except OSError: pass\n"
        "print(json.dumps(out))"
    )
    assert ask(sandbox, program) == []


def test_capabilities_privileges_and_filter(sandbox):
    program = (
        "import json\nlines = open('/proc/self/status').read().splitlines()\n"
        "print(json.dumps(dict(l.split(':\\t') for l in lines if ':\\t' in l)))"
    )
    status = ask(sandbox, program)
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


DENIED = {
    "unshare": (272, 0x10000000),
    "setns": (308, 0, 0),
    "mount": (165, 0, 0, 0, 0, 0),
    "ptrace": (101, 16, 1, 0, 0),
    "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
    "bpf": (321, 0, 0, 0),
    "keyctl": (250, 0, -3, 1),
    "io_uring_setup": (425, 8, 0),
    "userfaultfd": (323, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "memfd_create": (319, 0, 0),
    "shmget": (29, 7, 4096, 0o1666),
    "clone with a namespace": (56, 0x10000000 | 17, 0, 0, 0, 0),
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86-64")
@pytest.mark.parametrize("name", DENIED)
def test_system_calls_are_denied(sandbox, name):
    program = (
        "import ctypes, json\nc = ctypes.CDLL(None, use_errno=True)\n"
        f"print(json.dumps([c.syscall(*{DENIED[name]!r}), ctypes.get_errno()]))"
    )
    assert ask(sandbox, program) == [-1, 1]


def test_clone3_is_missing_so_that_libraries_use_clone(sandbox):
    program = (
        "import ctypes, json\nc = ctypes.CDLL(None, use_errno=True)\n"
        "print(json.dumps([c.syscall(435, 0, 0), ctypes.get_errno()]))"
    )
    assert ask(sandbox, program) == [-1, 38]


def test_no_network(sandbox):
    program = (
        "import json, socket\nout = []\n"
        "for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, socket.AF_VSOCK):\n"
        "    try: socket.socket(family, socket.SOCK_DGRAM); out.append(family)\n    except OSError: pass\n"
        "socket.socketpair()\nprint(json.dumps([out, open('/proc/net/dev').read().count(':')]))"
    )
    assert ask(sandbox, program) == [[], 1]  # the loopback device, which is down


def test_the_system_is_read_only(sandbox):
    program = (
        "import json, os\nout = []\n"
        "for path in ('/', '/usr', '/usr/bin', '/etc', '/dev', '/proc', '/box'):\n"
        "    try: open(path + '/x', 'w'); out.append(path)\n    except OSError: pass\n"
        "for path in ('.', '/tmp', '/dev/shm', '/var/tmp'):\n    open(path + '/x', 'w').close()\n"
        "open('/dev/null', 'w').write('x')\nprint(json.dumps(out))"
    )
    assert ask(sandbox, program) == []


def test_files_have_a_size_and_a_number(sandbox):
    program = (
        "import errno, json\nout = []\n"
        "def fill(n, size):\n"
        "    try:\n        for i in range(n):\n            with open('f%d' % i, 'wb') as f: f.write(bytes(size))\n"
        "    except OSError as e: return e.errno == errno.ENOSPC or e.errno == errno.EFBIG\n    return False\n"
        "print(json.dumps([fill(1, 5 << 20), fill(10, 3 << 20), fill(30000, 0)]))"
    )
    assert ask(sandbox, program, Limits(timeout_s=20.0, fsize_mb=4)) == [True, True, True]


def test_processes_have_a_number(sandbox):
    program = (
        "import json, os, signal\nn = 0\n"
        "try:\n    while True:\n        if os.fork() == 0: signal.pause()\n        n += 1\n"
        "except OSError: pass\nprint(json.dumps(n), flush=True)\nos._exit(0)"
    )
    assert ask(sandbox, program, Limits(pids=10)) == 9  # beside itself


@pytest.mark.parametrize("grouped", [True, False])
def test_memory_counts_all_processes_together(grouped, monkeypatch):
    if not grouped:
        from verifiers.sandbox.memory import Group

        monkeypatch.setattr(Group, "make", staticmethod(lambda: None))
    program = (
        "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        x = bytearray(100 << 20)\n"
        "        time.sleep(30)\n        os._exit(0)\n"
        "while True:\n    if os.waitstatus_to_exitcode(os.wait()[1]) == -9: os.kill(os.getpid(), 9)\n"
    )
    with in_process_worker() as worker:
        report = worker.run(job(program, memory_mb=256))
    assert [outcome for outcome, _, _ in report["tests"]] == ["memory"]


@pytest.mark.parametrize("grouped", [True, False])
def test_a_pass_does_not_hide_that_children_had_too_much_memory(grouped):
    program = (
        "import os, time\nfor _ in range(6):\n    if os.fork() == 0:\n        x = bytearray(100 << 20)\n"
        "        time.sleep(1)\n        os._exit(0)\nfor _ in range(6): os.wait()\nprint('?')"
    )
    with in_process_worker(group=grouped) as worker:
        assert worker.run(job(program, memory_mb=256))["tests"][0][0] == "memory"


def test_one_process_cannot_have_more_memory(sandbox):
    report = call(sandbox, "def f(n): return len(bytearray(n << 20))", 0, Limits(memory_mb=100), 200)
    assert report.outcome is Outcome.MEMORY
    report = call(sandbox, "def f(n): return len(bytearray(n << 20))", 60 << 20, Limits(memory_mb=100), 60)
    assert report.outcome is Outcome.PASS


def test_processes_that_share_memory_are_not_counted_twice():
    program = (
        "import os, time\nx = bytearray(60 << 20)\nfor _ in range(8):\n    if os.fork() == 0:\n        time.sleep(1)\n"
        "        os._exit(0)\nfor _ in range(8): os.wait()\nprint('?')\n"
    )
    with in_process_worker(group=False) as worker:
        assert worker.run(job(program, memory_mb=150))["tests"][0][0] == "pass"


class in_process_worker:
    def __init__(self, group=True):
        self._group = group

    def __enter__(self):
        from verifiers.sandbox.worker import Worker
        from verifiers.sandbox.worker_process import next_user

        self._worker = Worker(Tier.FULL, next_user(), lambda: None)
        if not self._group and self._worker._group is not None:
            self._worker._group.remove()
            self._worker._group = None
        return self._worker

    def __exit__(self, *_):
        self._worker.close()


def job(program, **limits):
    fields = {"timeout_s": 10.0, "memory_mb": 256, "pids": 32, "output_kb": 64, "fsize_mb": 4, **limits}
    return {
        "form": "stdio",
        "compare": "lines",
        "cases": [["", "?"]],
        "count": 1,
        "program": program,
        "limits": fields,
        "patience_s": None,
        "fail_fast": False,
    }


def test_chance_differs_from_run_to_run(sandbox):
    program = "import json, random\nprint(json.dumps([random.random(), random.getrandbits(64)]))"
    draws = [ask(sandbox, program) for _ in range(3)]
    assert len({tuple(draw) for draw in draws}) == 3


def test_nothing_stays_in_the_next_program(sandbox):
    spoil = (
        "import builtins, json, sys, os\nbuiltins.len = lambda x: 0\njson.dumps = None\nsys.modules['math'] = None\n"
        "open('/tmp/left', 'w').close()\ndef f(x): return x"
    )
    assert call(sandbox, spoil, 1).outcome is Outcome.PASS
    look = "import math, json, os\ndef f(x): return [len([1]), json.dumps(1), os.path.exists('/tmp/left')]"
    assert call(sandbox, look, [1, "1", False]).outcome is Outcome.PASS


def test_no_process_descriptor_or_file_is_left():
    left = (
        "import os, subprocess\nsubprocess.Popen(['sleep', '999'], start_new_session=True)\n"
        "for _ in range(3):\n    if os.fork() == 0:\n        os.setsid()\n        while True: pass\n"
        "open('/tmp/x', 'w').write('x' * 10 ** 6)\ndef f(x): return x"
    )
    others = children()
    with Sandbox(workers=1) as sandbox:
        call(sandbox, "def f(x): return x", 1)
        workers = children() - others
        me = psutil.Process()
        descriptors = {pid: psutil.Process(pid).num_fds() for pid in [me.pid, *workers]}
        files = set(os.listdir("/tmp"))
        for _ in range(5):
            assert call(sandbox, left, 1).outcome is Outcome.PASS
        assert children() - others == workers
        assert {pid: psutil.Process(pid).num_fds() for pid in [me.pid, *workers]} == descriptors
        assert not [name for name in set(os.listdir("/tmp")) - files if "sandbox" in name]
    assert not children() & workers


def children():
    return {child.pid for child in psutil.Process().children(recursive=True)}


@pytest.mark.parametrize("moment", ["idle", "busy"])
def test_all_ends_when_the_user_of_the_sandbox_is_killed(moment):
    busy = "def f(x):\n    while True: pass" if moment == "busy" else "def f(x): return x"
    code = (
        "from verifiers.sandbox import *\nimport time\ns = Sandbox(workers=1)\n"
        f"t = CallTests('f', (((1,), 1),))\ns.run_tests('def f(x): return x', t)\nprint('ready', flush=True)\n"
        f"s.run_tests({busy!r}, t, Limits(timeout_s=60.0))\ntime.sleep(60)"
    )
    user = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert user.stdout.readline() == b"ready\n"
    time.sleep(0.5)
    started = psutil.Process(user.pid).children(recursive=True)
    assert len(started) >= 3
    user.kill()
    user.wait()
    user.stdout.close()
    _, alive = psutil.wait_procs(started, timeout=10)
    assert alive == []


def test_a_killed_zygote_or_worker_is_replaced():
    others = children()
    with Sandbox(workers=1) as sandbox:
        for depth in (0, 1):
            assert call(sandbox, "def f(x): return x", 1).outcome is Outcome.PASS
            (worker,) = (child for child in psutil.Process().children() if child.pid not in others)
            victim = worker if depth == 0 else worker.children()[0]
            victim.kill()
            psutil.wait_procs([victim], timeout=5) if depth == 0 else time.sleep(0.2)
            assert call(sandbox, "def f(x): return x", 1).outcome is Outcome.PASS


def test_orders_that_come_together_are_told_apart():
    zygote = Zygote(Tier.PROCESS, next_user(), None)
    try:
        tests = TestsProcess(zygote)
        os.kill(zygote._process.pid, signal.SIGSTOP)
        for pid in (2**22 + 1, tests._pid):  # the first is of none that it has
            zygote.connection.sendall(pid.to_bytes(NUMBER))
        os.kill(zygote._process.pid, signal.SIGCONT)
        assert zygote._next(10.0) == (ENDED, tests._pid)
        tests._channel.close()
    finally:
        zygote.close()

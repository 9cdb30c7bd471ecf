"""Workers are real processes here: they hang, crash, fill memory and lose their parent."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from verifiers.pool import JobFailed, JobTimeout, WorkerPool

JOBS = """
import os, sys, time

def plain():
    return run

def slow_start():
    time.sleep(0.8)
    return run

def broken():
    raise RuntimeError("no library")

def run(what, value=None):
    if what == "echo":
        print("noise on the output")
        return value
    if what == "sleep":
        time.sleep(value)
        return value
    if what == "pid":
        return os.getpid()
    if what == "hang":
        return sum(iter(int, 1))  # never returns to the interpreter
    if what == "crash":
        os._exit(3)
    if what == "fill":
        return len("x" * 2**40)
    raise ValueError(f"what is {what}?")
"""


@pytest.fixture
def make_pool(tmp_path, monkeypatch):
    (tmp_path / "pool_jobs.py").write_text(JOBS)
    monkeypatch.syspath_prepend(tmp_path)
    pools = []

    def make(factory="plain", size=2, deadline_s=5.0):
        pools.append(WorkerPool(f"pool_jobs:{factory}", size=size, deadline_s=deadline_s, memory_bytes=2**30))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def test_each_thread_gets_its_own_result_in_order(make_pool):
    pool = make_pool()
    values = [f"väl\nue {number}" for number in range(60)]
    with ThreadPoolExecutor(6) as threads:
        results = list(threads.map(lambda value: pool.call("echo", value)[0], values))
    assert results == values


def test_a_hanging_job_is_killed_at_the_deadline_and_the_worker_replaced(make_pool):
    pool = make_pool(size=1, deadline_s=0.5)
    before = pool.call("pid")[0]
    started = time.monotonic()
    with pytest.raises(JobTimeout):
        pool.call("hang")
    assert 0.4 < time.monotonic() - started < 3
    assert pool.call("pid")[0] != before
    assert not psutil.pid_exists(before)


def test_the_clock_runs_neither_in_the_queue_nor_during_start(make_pool):
    pool = make_pool("slow_start", size=1, deadline_s=0.6)
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: pool.call("sleep", 0.3), range(4)))
    assert [result for result, _ in results] == [0.3] * 4
    assert all(0.3 <= seconds < 0.6 for _, seconds in results)


def test_an_exception_is_told_and_the_worker_kept(make_pool):
    pool = make_pool(size=1)
    before = pool.call("pid")[0]
    with pytest.raises(JobFailed, match="ValueError: what is nonsense"):
        pool.call("nonsense")
    assert pool.call("pid")[0] == before


def test_memory_is_capped(make_pool):
    with pytest.raises(JobFailed, match="MemoryError"):
        make_pool().call("fill")


def test_a_crash_is_told_and_the_worker_replaced(make_pool):
    pool = make_pool(size=1)
    with pytest.raises(JobFailed, match="exit status 3"):
        pool.call("crash")
    assert pool.call("echo", 1)[0] == 1


def test_a_worker_that_dies_idle_is_replaced(make_pool):
    pool = make_pool(size=1)
    process = psutil.Process(pool.call("pid")[0])
    process.kill()
    time.sleep(0.2)
    assert pool.call("echo", 1)[0] == 1


def test_a_worker_that_cannot_start_says_why(make_pool):
    with pytest.raises(JobFailed, match="could not start: RuntimeError: no library"):
        make_pool("broken").call("echo", 1)


def test_close_ends_running_jobs_and_a_later_call_starts_anew(make_pool):
    pool = make_pool(size=1)
    pid = pool.call("pid")[0]
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(pool.call, "hang")
        time.sleep(0.3)
        pool.close()
        with pytest.raises(JobFailed):
            running.result(timeout=5)
    assert not psutil.pid_exists(pid)
    assert pool.call("echo", 1)[0] == 1


PARENT = """
import os, sys, threading, time
sys.path[:0] = {paths!r}
from verifiers.pool import WorkerPool
pool = WorkerPool("pool_jobs:plain", size=2, deadline_s=1.0, memory_bytes=2**30)
threading.Thread(target=pool.call, args=("sleep", 0.5)).start()
time.sleep(0.1)
idle = pool.call("pid")[0]
if {fork} and os.fork() == 0:
    assert pool.call("pid")[0] != idle  # a forked child has workers of its own
    time.sleep(30)
threading.Thread(target=pool.call, args=("hang",)).start()
time.sleep(0.7)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("fork", [False, True])
def test_workers_die_with_their_parent(tmp_path, fork):
    (tmp_path / "pool_jobs.py").write_text(JOBS)
    program = PARENT.format(paths=[str(Path(__file__).parents[2]), str(tmp_path)], fork=fork)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        family = psutil.Process(parent.pid).children(recursive=True)
        forked = [child for child in family if "-P" not in child.cmdline()]
        workers = [child for child in psutil.Process(parent.pid).children() if child not in forked]
        assert len(workers) == 2
        os.kill(parent.pid, signal.SIGKILL)
        gone, alive = psutil.wait_procs(workers, timeout=6)
        for child in forked:
            child.kill()
    assert len(gone) == 2
    assert not alive


def test_a_foreign_package_in_the_working_directory_is_not_imported(tmp_path, make_pool, monkeypatch):
    (tmp_path / "elsewhere" / "verifiers").mkdir(parents=True)
    (tmp_path / "elsewhere" / "verifiers" / "__init__.py").write_text("raise RuntimeError('foreign')")
    pool = make_pool()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert pool.call("echo", 1)[0] == 1

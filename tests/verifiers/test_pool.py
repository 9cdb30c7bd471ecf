"""Workers are real processes here: they hang, crash, fill memory and lose their parent."""

import asyncio
import multiprocessing
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
import ctypes, os, sys, time

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
    if what == "leave":
        sys.exit(4)
    if what == "fault":
        return ctypes.string_at(0)
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


@pytest.mark.parametrize(("way", "status"), [("crash", 3), ("leave", 4), ("fault", -signal.SIGSEGV)])
def test_a_crash_is_told_and_the_worker_replaced(make_pool, way, status):
    pool = make_pool(size=1)
    with pytest.raises(JobFailed, match=f"exit status {status}"):
        pool.call(way)
    assert pool.call("echo", 1)[0] == 1


@pytest.mark.parametrize("who", ["child", "keeper"])
def test_a_worker_that_dies_idle_is_replaced(make_pool, who):
    pool = make_pool(size=1)
    process = psutil.Process(pool.call("pid")[0])
    (process if who == "child" else process.parent()).kill()
    time.sleep(0.3)
    assert pool.call("echo", 1)[0] == 1


def test_a_keeper_killed_at_work_is_told_and_takes_its_job_along(make_pool):
    pool = make_pool(size=1)
    process = psutil.Process(pool.call("pid")[0])
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(pool.call, "hang")
        time.sleep(0.3)
        process.parent().kill()
        with pytest.raises(JobFailed, match="exit status -9"):
            running.result(timeout=5)
    assert left_of([process.pid]) == []
    assert pool.call("echo", 1)[0] == 1


def test_a_kill_costs_the_next_job_no_new_start(make_pool):
    pool = make_pool("slow_start", size=1, deadline_s=0.3)
    pool.call("echo", 1)
    for _ in range(3):
        with pytest.raises(JobTimeout):
            pool.call("hang")
        started = time.monotonic()
        assert pool.call("echo", 1)[0] == 1
        assert time.monotonic() - started < 0.4  # a start takes 0.8 s


def runs(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def left_of(pids, seconds=5.0):
    """The processes that still run after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        left = [pid for pid in pids if runs(pid)]
        if not left or time.monotonic() >= end:
            return left
        time.sleep(0.02)


def outcome(pool, *job):
    try:
        return pool.call(*job)[0]
    except (JobTimeout, JobFailed) as error:
        return type(error)


def test_bad_jobs_cost_their_own_deadline_and_nothing_else(make_pool):
    pool = make_pool(size=2, deadline_s=0.5)
    jobs = [("hang",) if number % 50 == 7 else ("echo", number) for number in range(200)]
    jobs[20], jobs[90] = ("crash",), ("fill",)
    pool.call("echo", 0)
    started = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(lambda job: outcome(pool, *job), jobs))
    assert time.monotonic() - started < 4 * 0.5 + 2
    failures = {"hang": JobTimeout, "crash": JobFailed, "fill": JobFailed}
    assert outcomes == [failures.get(job[0], job[-1]) for job in jobs]


def test_from_asyncio(make_pool):
    pool = make_pool(size=2, deadline_s=0.5)

    async def gather():
        jobs = [asyncio.to_thread(outcome, pool, *job) for job in [("echo", 1), ("hang",), ("echo", 3)]]
        ticks = asyncio.create_task(asyncio.sleep(0.1, "the loop went on"))
        return await asyncio.gather(ticks, *jobs)

    assert asyncio.run(gather()) == ["the loop went on", 1, JobTimeout, 3]


def in_threads(pool, jobs):
    with ThreadPoolExecutor(3) as threads:
        return list(threads.map(lambda job: outcome(pool, *job), jobs))


def test_from_forked_processes_with_threads_of_their_own(make_pool):
    pool = make_pool(size=2, deadline_s=0.5)
    pool.call("echo", 0)
    jobs = [("echo", 1), ("hang",), ("pid",), ("echo", 2)]
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    children = [context.Process(target=lambda: queue.put(in_threads(pool, jobs)), daemon=True) for _ in range(2)]
    for child in children:
        child.start()
    outcomes = [in_threads(pool, jobs), queue.get(), queue.get()]
    for child in children:
        child.join(timeout=5)
    mine, *theirs = (found[2] for found in outcomes)
    assert len({mine, *theirs}) == 3  # each process has workers of its own
    assert [found[:2] + found[3:] for found in outcomes] == [[1, JobTimeout, 2]] * 3
    assert left_of(theirs) == []
    assert left_of([mine], seconds=0) == [mine]


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
        children = psutil.Process(parent.pid).children()
        forked = [child for child in children if "-P" not in child.cmdline()]
        keepers = [child for child in children if child not in forked]
        workers = [*keepers, *(child for keeper in keepers for child in keeper.children())]
        assert len(workers) == 4
        os.kill(parent.pid, signal.SIGKILL)
        left = left_of([worker.pid for worker in workers])
        for child in forked:
            child.kill()
    assert left == []


ENDING = """
import sys
sys.path[:0] = {paths!r}
import psutil
from verifiers.pool import WorkerPool
pool = WorkerPool("pool_jobs:plain", size=2, deadline_s=1.0, memory_bytes=2**30)
pool.call("echo", 1)
print(*(child.pid for child in psutil.Process().children(recursive=True)))
"""


def test_nothing_is_left_of_a_program_that_ends(tmp_path):
    (tmp_path / "pool_jobs.py").write_text(JOBS)
    program = ENDING.format(paths=[str(Path(__file__).parents[2]), str(tmp_path)])
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    pids = [int(pid) for pid in output.split()]
    assert len(pids) == 2
    assert left_of(pids) == []


def test_a_foreign_package_in_the_working_directory_is_not_imported(tmp_path, make_pool, monkeypatch):
    (tmp_path / "elsewhere" / "verifiers").mkdir(parents=True)
    (tmp_path / "elsewhere" / "verifiers" / "__init__.py").write_text("raise RuntimeError('foreign')")
    pool = make_pool()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert pool.call("echo", 1)[0] == 1

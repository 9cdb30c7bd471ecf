"""Thousands of programs, some hostile, on all cores: is every verdict right, is nothing left, how much slower is it?

    python -m benchmarks.sandbox_stress --programs 10000 --hostile 0.05 --json FILE

The same number of harmless programs alone is timed first. Then the mix runs with all workers; a part of it runs again
with one worker, and again while four busy processes a core compete with it: the verdicts have to be the same. Left over
may be no process, no descriptor, no file in the temporary folders, no control group, and no memory of this process.

The endless loop and the sleep of the mix are of the kinds that are ended at once (`verifiers/sandbox/hopeless.py`).
With `--stubborn` they are of those that are not, and each takes its whole limit.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.sandbox_programs import Job, mix
from verifiers.sandbox import Limits, Outcome, Report, Sandbox

FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
MEMORY_GROWTH_MB = 64
"""Of this process over a whole run; more is a leak."""


def run(jobs: Sequence[Job], workers: int, limits: Limits) -> tuple[list[Report], float]:
    """The report on every job, and the seconds that all took."""
    with Sandbox(workers=workers) as sandbox, ThreadPoolExecutor(2 * workers) as threads:
        warm_up = next(mix(1, 0.0, 0))
        list(threads.map(lambda _: sandbox.run_tests(warm_up.program, warm_up.tests, limits), range(workers)))
        started = time.perf_counter()
        reports = list(threads.map(lambda job: sandbox.run_tests(job.program, job.tests, limits), jobs))
        return reports, time.perf_counter() - started


def surprises(jobs: Sequence[Job], reports: Sequence[Report]) -> dict[str, int]:
    """Verdicts that are not right, counted by kind and outcome."""
    pairs = zip(jobs, reports, strict=True)
    return dict(Counter(f"{job.kind}: {report.outcome}" for job, report in pairs if report.outcome not in job.right))


def others(before: Sequence[Report], after: Sequence[Report]) -> int:
    """How many of the first programs came out differently."""
    return sum(old.outcome is not new.outcome for old, new in zip(before, after, strict=False))


def to_the_deadline(reports: Sequence[Report], workers: int) -> float:
    """Seconds that the workers spent on programs that took all the time they had."""
    return sum(report.seconds for report in reports if report.outcome is Outcome.TIMEOUT) / workers


def held() -> dict[str, Any]:
    """What a run may leave behind."""
    gc.collect()
    me = psutil.Process()
    return {
        "processes": {(process.pid, process.create_time()) for process in me.children(recursive=True)},
        "orphans": {
            (process.pid, process.create_time())
            for process in psutil.process_iter()
            if "python" in process.name() and process.ppid() == 1 and process.pid != os.getpid()
        },
        "descriptors": me.num_fds(),
        "files": {f"{folder}/{name}" for folder in FOLDERS if os.path.isdir(folder) for name in os.listdir(folder)},
        "groups": set(map(str, Path("/sys/fs/cgroup").rglob("reasoning-sandbox-*"))),
        "memory_mb": me.memory_info().rss / 2**20,
    }


def left_over(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What is there now and was not before; empty if all is well."""
    found: dict[str, Any] = {
        name: sorted(after[name] - before[name])[:20] for name in ("processes", "orphans", "files", "groups")
    }
    found["descriptors"] = after["descriptors"] - before["descriptors"]
    growth = after["memory_mb"] - before["memory_mb"]
    found["memory_mb"] = round(growth) if growth > MEMORY_GROWTH_MB else 0
    return {name: value for name, value in found.items() if value}


@contextmanager
def load(processes: int) -> Generator[None]:
    """So many processes that are always busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main(arguments: Sequence[str]) -> int:
    cores = len(os.sched_getaffinity(0))
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--programs", type=int, default=10_000)
    options.add_argument("--hostile", type=float, default=0.05, help="share of the programs")
    options.add_argument("--stubborn", action="store_true", help="loops and sleeps that only their deadline ends")
    options.add_argument("--again", type=int, default=300, help="programs that run again with one worker, under load")
    options.add_argument("--workers", type=int, default=8 * cores)
    options.add_argument("--timeout", type=float, default=2.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    limits = Limits(timeout_s=given.timeout, memory_mb=256)
    harmless = list(mix(given.programs, 0.0, given.seed))
    jobs = list(mix(given.programs, given.hostile, given.seed, stubborn=given.stubborn))
    run(harmless[:20], given.workers, limits)  # what is loaded once is no leak
    before = held()
    clean, clean_s = run(harmless, given.workers, limits)
    print(f"clean mix: {len(clean) / clean_s:.1f} programs/s with {given.workers} workers", flush=True)
    mixed, mixed_s = run(jobs, given.workers, limits)
    time.sleep(1)
    left = left_over(before, held())
    wrong = surprises(harmless, clean) | surprises(jobs, mixed)
    deadlines_s = to_the_deadline(mixed, given.workers)
    ratio, ratio_apart = clean_s / mixed_s, clean_s / (mixed_s - deadlines_s)
    hostile = sum(job.hostile for job in jobs)
    print(f"with {hostile} hostile: {len(mixed) / mixed_s:.1f} programs/s, {ratio:.2f} of the clean mix")
    print(f"apart from the {deadlines_s:.0f} s that programs waited for their deadlines: {ratio_apart:.2f}")
    print(f"verdicts that are not right: {wrong or 'none'}; left over: {left or 'nothing'}", flush=True)
    part = jobs[: given.again]
    one, _ = run(part, 1, limits)
    with load(4 * cores):
        loaded, _ = run(part, given.workers, limits)
    kinds = {
        "one worker": sorted(surprises(part, one)),
        "under load": sorted(surprises(part, loaded)),
    }
    changed = {
        "one worker": others(mixed, one),
        "under load": others(mixed, loaded),
    }
    print(f"of {len(part)} again: not right {kinds}, other outcomes than before {changed}")
    if given.json:
        record = {
            "command": ["python", "-m", "benchmarks.sandbox_stress", *arguments],
            "cores": cores,
            "programs": len(jobs),
            "hostile": hostile,
            "clean_per_second": round(len(clean) / clean_s, 2),
            "mixed_per_second": round(len(mixed) / mixed_s, 2),
            "ratio": round(ratio, 3),
            "deadline_seconds": round(deadlines_s, 1),
            "ratio_apart_from_deadlines": round(ratio_apart, 3),
            "outcomes": dict(Counter(f"{job.kind}: {report.outcome}" for job, report in zip(jobs, mixed, strict=True))),
            "not_right": wrong,
            "left_over": {name: str(value) for name, value in left.items()},
            "again": {"programs": len(part), "not_right": kinds, "changed": changed},
        }
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return int(bool(wrong or left or any(kinds.values())))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

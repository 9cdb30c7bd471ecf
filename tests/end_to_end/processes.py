"""Trainings in several processes on the CPU, forked from `python -m tests.end_to_end.processes`, so as to import once.

Its standard input is a JSON list of runs, each with the arguments of `run_together`; its answer, on the last line of
standard output, is the list of their exit codes, one a process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reasoning.engine.base import Engine
    from reasoning.train_plan import TrainPlan

ROOT = Path(__file__).parents[2]


def run_all(runs: Sequence[Mapping[str, Any]], folder: Path) -> list[list[int]]:
    """Exit codes of trainings, one list a run; what they said is in `folder`."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_COMPILE_DISABLE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.processes", str(folder)],
        cwd=ROOT,
        env=environment,
        input=json.dumps(runs, default=str),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def run_together(
    log: Path, *, file: str, out: str, count: int = 2, resume: bool = False, sampling: bool = False, **at: Any
) -> list[int]:
    """One training in `count` processes; negative codes are signals.

    `kill` and `interrupt`: (process, step). `engine_dies_in`: a process. `shards`: with FSDP2. `sampling`: from the
    weights, not from a script.
    """
    port = _free_port()
    started = [_start(index, count, port, log, Path(file), Path(out), resume, sampling, at) for index in range(count)]
    codes: dict[int, int] = {}
    while len(codes) < count:
        pid, status = os.wait()
        codes[pid] = os.waitstatus_to_exitcode(status)
        if codes[pid] < 0:  # what a launcher does when one of its processes dies
            time.sleep(0.5)
            for other in started:
                if other not in codes:
                    os.kill(other, signal.SIGTERM)
    return [codes[pid] for pid in started]


def _start(
    index: int, count: int, port: int, log: Path, file: Path, out: Path, resume: bool, sampling: bool, at: Any
) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        for descriptor, suffix in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{log}-{index}.{suffix}", os.O_WRONLY | os.O_CREAT), descriptor)
        place: dict[str, Any] = {"RANK": index, "LOCAL_RANK": index, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
        place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        if at.get("shards"):
            place |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
        os.environ |= {name: str(value) for name, value in place.items()}
        code = _train(index, file, out, resume, sampling, at)
    except BaseException:  # noqa: BLE001 - the parent must not go on in the child
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _train(index: int, file: Path, out: Path, resume: bool, sampling: bool, at: Mapping[str, Any]) -> int:
    import reasoning.summary
    from reasoning.engine.scripted import ScriptedEngine
    from rl.trainer import GrpoTrainer
    from tests.end_to_end import training

    setattr(reasoning.summary, "show_run", lambda *_: [])  # noqa: B010 - figures take longer than the training
    report = GrpoTrainer._report

    def signalled(trainer: GrpoTrainer, metrics: dict[str, float]) -> None:
        report(trainer, metrics)
        for name, number in (("kill", signal.SIGKILL), ("interrupt", signal.SIGINT)):
            if at.get(name) == [index, trainer.state.global_step]:
                os.kill(os.getpid(), number)

    setattr(GrpoTrainer, "_report", signalled)  # noqa: B010

    def start(plan: TrainPlan, log: Path) -> Engine:
        if sampling:
            return training.SamplingEngine(plan)
        if at.get("engine_dies_in") == index:
            return ScriptedEngine(training.Script(plan), plan.max_model_len, fail_at_step=30)
        return training.start_scripted(plan, log)

    return training.main(file, out=out, start=start, resume=resume)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def main(folder: Path) -> None:
    from tests.end_to_end import training  # noqa: F401 - imported here, once

    codes = [run_together(folder / f"run-{number}", **run) for number, run in enumerate(json.load(sys.stdin))]
    print(json.dumps(codes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The benchmarks of the math verifier, small: what they grade, what they print, and what they refuse."""

import json
import re

import psutil
import pytest

from benchmarks import math_cases, math_pool, math_speed
from benchmarks.math_bombs import BOMBS, make_bombs
from benchmarks.math_pairs import make_pairs
from verifiers import close, grade
from verifiers.base import Status
from verifiers.policy import PRESETS


@pytest.fixture(scope="module", autouse=True)
def _stop_workers():
    yield
    close()


def case(name, gold, completion, expected, note="", kind="made"):
    fields = {"id": name, "kind": kind, "gold": gold, "completion": completion, "expected": expected, "note": note}
    return json.dumps(fields) + "\n"


CASES = (
    case("right", "4", "\\boxed{4}", True),
    case("not paid", "4", "\\boxed{5}", True, kind="other"),
    case("wrongly paid", "4", "\\boxed{4}", False, note="[policy] made up"),
    case("wrong", "\\sqrt{8}", "\\boxed{3\\sqrt{2}}", False),
)


@pytest.fixture
def cases_file(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(CASES))
    return path


def test_cases_are_graded_counted_and_written(cases_file, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert math_cases.main([str(cases_file), "--json", str(out), "--policy", "reward"]) == 0
    record = json.loads(out.read_text())
    rows = {row["id"]: row for row in record["cases"]}
    assert list(rows) == ["right", "not paid", "wrongly paid", "wrong"]
    assert set(rows["right"]) == {"id", "correct", "status", "rule", "seconds"}
    assert [row["correct"] for row in rows.values()] == [True, False, True, False]
    assert [row["status"] for row in rows.values()] == ["correct", "wrong", "correct", "wrong"]
    assert all(0 < row["seconds"] < 1 for row in rows.values()), "the workers were warm"
    summary = record["summary"]
    assert (summary["policy"], summary["policy_hash"]) == ("reward", PRESETS["reward"].hash)
    counts = ("right", "all", "right_without_policy", "all_without_policy")
    assert [summary[name] for name in counts] == [2, 4, 2, 3]
    assert (summary["false_positives"], summary["false_negatives"]) == (["wrongly paid"], ["not paid"])
    printed = capsys.readouterr().out
    assert "accuracy: 2/4 = 50.0%; without [policy]: 2/3 = 66.7%" in printed
    assert re.search(r"^made +2/3 +2/2 +1 +0", printed, re.MULTILINE)
    assert re.search(r"^other +0/1 +0/1 +0 +1", printed, re.MULTILINE)
    assert "false positives: 1 wrongly paid" in printed
    assert "a payload was executed: no" in printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no cases"),
        ("{\n", "line 1: not a JSON object"),
        ("[1]\n", "line 1: not a JSON object"),
        (CASES[0] + case("x", 4, "\\boxed{4}", True), "line 2: 'gold' has to be str, not 4"),
        (case("x", "4", "\\boxed{4}", "yes"), "line 1: 'expected' has to be bool, not 'yes'"),
        ('{"id": "x"}\n', "line 1: 'kind' has to be str, not None"),
    ],
)
def test_a_bad_file_of_cases_is_named(tmp_path, capsys, text, message):
    path = tmp_path / "cases.jsonl"
    path.write_text(text)
    assert math_cases.main([str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}")
    assert message in error
    assert error.count("\n") == 1


def test_a_file_of_cases_that_is_not_there(tmp_path, capsys):
    assert math_cases.main([str(tmp_path / "gone.jsonl")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_canary_that_is_there_before_is_refused(cases_file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(math_cases, "CANARY", cases_file)
    assert math_cases.main([str(cases_file)]) == 2
    assert "is there already; remove it" in capsys.readouterr().err


def test_a_hang_and_a_crash_are_failed_cases_whatever_was_expected():
    cases = [json.loads(case(name, "4", "4", expected=False)) for name in ("hung", "crashed", "fine")]
    rows = [
        math_cases.Graded(name, correct=False, status=status, rule="", seconds=seconds)
        for name, status, seconds in (("hung", "hang", 20.0), ("crashed", "crash", 0.0), ("fine", "wrong", 0.1))
    ]
    found = math_cases.summarise(cases, rows)
    assert (found["right"], found["hangs"], found["crashes"], found["slow"]) == (1, ["hung"], ["crashed"], ["hung"])


def test_pairs_are_the_same_again_and_what_they_say_holds():
    pairs = make_pairs(400)
    assert pairs == make_pairs(400)
    assert pairs != make_pairs(400, seed=1)
    assert 0.5 < sum(pair.right for pair in pairs) / len(pairs) < 0.7
    graded = [grade("math", pair.completion, pair.reference, {}).status is Status.CORRECT for pair in pairs]
    assert [pair for pair, paid in zip(pairs, graded, strict=True) if paid != pair.right] == []


def test_no_bomb_is_paid_or_keeps_anybody_waiting():
    bombs = make_bombs(2 * len(BOMBS))
    grade("math", "\\boxed{\\sqrt{8}}", "2\\sqrt{2}", {})  # starts a worker
    verdicts = dict(zip([*BOMBS, *(f"{name} again" for name in BOMBS)], map(graded, bombs), strict=True))
    assert [name for name, verdict in verdicts.items() if verdict.status is Status.CORRECT] == []
    assert {name: verdict.seconds for name, verdict in verdicts.items() if verdict.seconds > 1.5} == {}


def graded(pair):
    return grade("math", pair.completion, pair.reference, {"policy": "reward"})


def test_the_pool_benchmark_mixes_and_loses_nothing():
    alone, mixed = (math_pool.mixed(60, 10, bombs=bombs) for bombs in (False, True))
    assert [pair for pair, bomb in mixed if not bomb] == [pair for pair, _ in alone]
    assert [bomb for _, bomb in mixed] == [at % 10 == 9 for at in range(60)]
    before = len(psutil.Process().children(recursive=True))
    close()
    found = math_pool.run(60, 10, "eval", bombs=True)
    assert (found["lost"], found["ordinary_pairs"]) == (0, 54)
    assert found["processes_left"] <= before
    assert (found["ordinary"]["wrong_verdicts"], found["bombs"]["wrong_verdicts"]) == (0, 0)
    assert sum(found["bombs"]["statuses"].values()) == 6


def test_the_speed_benchmark_measures_both_sides(tmp_path, capsys):
    out = tmp_path / "speed.json"
    assert math_speed.main(["--count", "40", "--repeats", "1", "--json", str(out)]) == 0
    record = json.loads(out.read_text())
    medians = {name: side["median"] for name, side in record["sides"].items()}
    assert set(medians) == {"ours", "Math-Verify"}
    assert min(medians.values()) > 0
    assert record["ratio"] == pytest.approx(medians["ours"] / medians["Math-Verify"])
    assert record["sides"]["ours"]["wrong"] == []
    assert 0 < record["cold"]["import_s"] < record["cold"]["first_verdict_s"] < 2
    assert f"ratio: {record['ratio']:.1f}x" in capsys.readouterr().out


def test_pairs_from_a_file(tmp_path):
    path = tmp_path / "own_pairs.py"
    path.write_text("def make_pairs(n, seed=3):\n    return [(str(i), f'\\\\boxed{{{i}}}', True) for i in range(n)]\n")
    assert math_speed.pairs_of(path, 2) == [("0", "\\boxed{0}", True), ("1", "\\boxed{1}", True)]
    path.write_text("")
    with pytest.raises(ValueError, match="has no function make_pairs"):
        math_speed.pairs_of(path, 2)
    with pytest.raises(ValueError, match="is not a Python file"):
        math_speed.pairs_of(tmp_path / "gone.py", 2)

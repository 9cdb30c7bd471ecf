"""Policies on samples small enough to check by hand, and what holds for all of them: they cannot see the future."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.allocation import allocate, make_grid, map_of, parallel_map
from eval.curves import MISSING, GradedSample, curve
from eval.policies import POLICIES, apply_policies, parse_policy
from eval.replay import draw, filter_traces, replay_thinking
from eval.savings import Outcomes, compare, policy_row, tokens_for
from eval.stored import whole_samples
from eval.voting import vote
from reasoning.budget.drawing import AdaptiveShare, BetaStop
from reasoning.budget.policies import ONLINE, REPLAYED
from reasoning.budget.stopping import Agreement, Confidence
from reasoning.config import ConfigError
from reasoning.types import NO_LIMIT, FinishReason, SampleKey
from verifiers.base import Status

BUDGETS = (100, 200, 400, NO_LIMIT)
RIGHT = "right"


def row(budget, answer, thinking, *, task="a", number=0, bound=True, answer_tokens=10, **changes):
    """One sample at one budget that answered `answer`: right, any other text, or None."""
    made = GradedSample(
        key=SampleKey(task, number, budget),
        level=None,
        status=Status.CORRECT if answer == RIGHT else Status.NO_ANSWER if answer is None else Status.WRONG,
        thinking_tokens=thinking,
        answer_tokens=answer_tokens,
        finish_reason=FinishReason.ANSWERED,
        bound=bound,
        forced=bound,
        escaped=False,
        looped=False,
        extracted=answer,
    )
    return replace(made, **changes)


def trace(answers, length, *, task="a", number=0, **changes):
    """A trace that thinks for `length` tokens: the answer forced at each budget, or its own from where it ended."""
    ended = sum(budget < length for budget in BUDGETS)
    answers = [answers[min(place, ended)] for place in range(len(BUDGETS))]
    return [
        row(budget, answer, min(budget, length), task=task, number=number, bound=length > budget, **changes)
        for budget, answer in zip(BUDGETS, answers, strict=True)
    ]


TRACES = st.builds(
    trace,
    st.lists(st.sampled_from([RIGHT, "x", "y", None]), min_size=4, max_size=4),
    st.integers(50, 900),
)


def run_of(*traces):
    return [one for rows in traces for one in rows]


def policy(text, samples):
    (result,) = apply_policies([parse_policy(text)], samples)
    return result


def many(tasks=12, samples=4, seed=0):
    rng = np.random.default_rng(seed)
    return run_of(
        *(
            trace(
                rng.choice([RIGHT, "x", "y"], size=4, p=(0.6, 0.3, 0.1)),
                int(rng.integers(50, 900)),
                task=f"t{task:02}",
                number=number,
            )
            for task in range(tasks)
            for number in range(samples)
        )
    )


def point(samples, budget):
    points = curve(samples, model="m", task_set="t", method="f")
    return next(one for one in points if one.budget == budget)


def test_never_stop_is_the_baseline():
    samples = many()
    never, plain = policy("never", samples), point(samples, NO_LIMIT)
    assert (never.accuracy, never.low, never.high) == (plain.accuracy, plain.low, plain.high)
    assert never.tokens_mean == never.baseline_tokens_mean == pytest.approx(plain.tokens_mean)
    assert (never.difference, never.p_value, never.saved, never.saved_low, never.saved_high) == (
        0.0,
        1.0,
        0.0,
        0.0,
        0.0,
    )
    assert (never.probe_tokens_mean, never.n_samples, never.left_out) == (0.0, 48, 0)


def test_a_hard_cap_is_the_point_of_its_budget():
    samples = many()
    cap, plain = policy("cap:200", samples), point(samples, 200)
    assert (cap.accuracy, cap.low, cap.high) == (plain.accuracy, plain.low, plain.high)
    assert cap.tokens_mean == pytest.approx(plain.tokens_mean)


def test_all_votes_are_the_majority():
    samples = many()
    assert policy("vote", samples).accuracy == pytest.approx(point(samples, NO_LIMIT).majority_at["4"])
    assert policy("vote:k=4,budget=200", samples).accuracy == pytest.approx(point(samples, 200).majority_at["4"])
    assert policy("vote:1", samples).tokens_mean < policy("vote:2", samples).tokens_mean


@pytest.mark.parametrize(
    ("answers", "length", "stop", "tokens", "probed"),
    [
        (("x", "x", RIGHT, RIGHT), 900, 200, 200 + 10 + 10, 10),  # two agree; the first was asked for in vain
        (("x", "y", "y", RIGHT), 900, 400, 400 + 10 + 20, 20),
        (("x", "y", RIGHT, "y"), 900, NO_LIMIT, 900 + 10 + 30, 30),
        ((None, None, RIGHT, RIGHT), 900, NO_LIMIT, 900 + 10 + 30, 30),  # no answer agrees with nothing
        (("x", RIGHT, RIGHT, RIGHT), 150, 200, 150 + 10 + 10, 10),  # ended by itself
        ((RIGHT, RIGHT, RIGHT, RIGHT), 50, 100, 50 + 10, 0),
    ],
)
def test_agreement_by_hand(answers, length, stop, tokens, probed):
    found = replay_thinking(trace(answers, length), Agreement(2))
    assert (found.stop, found.tokens, found.probe_tokens) == (stop, tokens, probed)
    assert found.right == (answers[BUDGETS.index(stop)] == RIGHT)


def test_right_answers_agree_however_they_are_written():
    rows = trace((RIGHT, RIGHT, "x", "x"), 900)
    rows[0], rows[1] = replace(rows[0], extracted="1/2"), replace(rows[1], extracted="0.5")
    assert replay_thinking(rows, Agreement(2)).stop == 200
    wrong = [replace(one, extracted=text, form="1/3") for one, text in zip(rows[2:], ("2/6", "3/9"), strict=True)]
    assert replay_thinking([*wrong, rows[3]], Agreement(2)).stop == rows[3].key.budget


def test_confidence_by_hand():
    rows = [
        replace(one, answer_confidence=sure)
        for one, sure in zip(trace(("x", None, RIGHT, "x"), 900), (0.94, 0.99, 0.95, 1.0), strict=True)
    ]
    assert replay_thinking(rows, Confidence(0.95)).stop == 400
    assert replay_thinking(rows, Confidence(0.9)).stop == 100


@given(TRACES, TRACES, st.sampled_from([Agreement(2), Agreement(3), None]))
def test_what_comes_after_the_stop_changes_nothing(rows, other, rule):
    found = replay_thinking(rows, rule)
    seen = BUDGETS.index(found.stop) + 1
    future = [replace(one, bound=True) for one in other[seen:]]
    assert replay_thinking([*rows[:seen], *future], rule) == found or seen == len(BUDGETS)


@given(st.lists(st.sampled_from([RIGHT, "x", None]), min_size=1, max_size=12), st.data())
def test_samples_that_were_not_drawn_change_nothing(answers, data):
    rule = data.draw(st.sampled_from([AdaptiveShare(0.75), BetaStop(0.9)]))
    samples = [row(100, answer, 50, number=number) for number, answer in enumerate(answers)]
    drawn = draw(samples, rule)
    if len(drawn) < len(samples):
        others = [replace(one, status=Status.WRONG, extracted="z") for one in samples[len(drawn) :]]
        assert draw([*drawn, *others], rule) == drawn


def test_adaptive_sampling_by_hand():
    def drawn(rule, *answers):
        return len(draw([row(100, answer, 50, number=n) for n, answer in enumerate(answers)], rule))

    assert drawn(AdaptiveShare(0.75), "x", "x", "y", "y", "y") == 2
    assert drawn(AdaptiveShare(0.75), "x", "y", "x", "x", "y") == 4  # three of four, asked at 2 and 4
    assert drawn(AdaptiveShare(0.75), "x", None, "x", None, "x") == 5  # an abstention is drawn, too
    assert drawn(BetaStop(0.95), *["x"] * 8) == 4  # 1 - 1/2^5 is above 0.95, 1 - 1/2^4 is not
    assert drawn(BetaStop(0.95), "y", *["x"] * 8) == 7  # 6 : 1 leads with 0.965, 5 : 1 with 0.94
    assert drawn(BetaStop(0.95), *[None] * 5) == 5


def test_the_beta_rule_is_the_posterior_by_simulation():
    shares = np.random.default_rng(0).beta(5 + 1, 2 + 1, size=400_000)
    ahead = float((shares > 0.5).mean())
    labels = ["x"] * 5 + ["y"] * 2
    assert BetaStop(ahead - 0.005)(labels)
    assert not BetaStop(ahead + 0.005)(labels)


def test_adaptive_sampling_saves_on_easy_tasks():
    easy = run_of(*(trace([RIGHT] * 4, 300, task=f"t{t}", number=n) for t in range(6) for n in range(8)))
    found = policy("beta:0.95", easy)
    assert (found.accuracy, found.tokens_mean, found.stops) == (1.0, 4 * 310, {"4": 1.0})
    assert (found.saved, found.baseline_tokens_mean) == (pytest.approx(0.5), 8 * 310)
    assert found.saved_equal == pytest.approx(1 - 4)  # one sample would have been as right


def test_a_bar_stops_traces_that_lose_confidence():
    def sample(number, *confidences):
        rows = trace(("x", "x", RIGHT, RIGHT), 900, number=number)
        return [replace(one, thinking_confidence=sure) for one, sure in zip(rows, confidences, strict=True)]

    warm = [sample(0, -0.1, -0.1, -0.2, -0.2), sample(1, -0.1, -0.1, -0.3, -0.5)]
    steady, failing = sample(2, -0.1, -0.1, -0.15, -0.19), sample(3, -0.1, -0.4, -0.4, -0.4)
    kept = filter_traces([*warm, steady, failing], keep=0.5, warmup=2)  # the bar is -0.2
    assert [one.key.sample for one in kept.voters] == [0, 2]
    assert kept.tokens == [910, 910, 910, 200]  # warm-up traces think to their end, a stopped one never answers
    lenient = filter_traces([*warm, steady, failing], keep=1.0, warmup=2)  # the bar is -0.5
    assert len(lenient.voters) == 4


def test_confidence_needs_a_run_that_stored_it():
    for text in ("deer", "deepconf:0.9,warmup=2", "best"):
        with pytest.raises(ConfigError, match="--logprobs true"):
            policy(text, many())
    sure = [replace(one, answer_confidence=0.9, thinking_confidence=-0.1) for one in many()]
    assert policy("deer:0.8", sure).tokens_mean < policy("deer:0.95", sure).tokens_mean
    assert policy("deepconf:0.9,warmup=2", sure).accuracy == policy("vote", sure).accuracy


def test_the_surest_of_k_by_hand():
    answers = ((RIGHT, 0.9), ("x", 0.8), ("y", 0.7))
    samples = run_of(
        *(
            [replace(one, answer_confidence=sure) for one in trace([answer] * 4, 300, task=task, number=number)]
            for task in ("a", "b")
            for number, (answer, sure) in enumerate(answers)
        )
    )
    assert policy("best", samples).accuracy == 1.0
    assert policy("best:2", samples).accuracy == pytest.approx(2 / 3)  # the right one is in two of three pairs
    assert policy("best:2", samples).tokens_mean == 2 * 310
    assert policy("best", samples).tokens_mean == 3 * 310


def test_samples_that_are_not_whole_are_left_out_and_counted():
    samples = [replace(one, status=MISSING) if one.key == SampleKey("t00", 1, 200) else one for one in many()]
    samples = [one for one in samples if one.key != SampleKey("t01", 2, 400)]
    found = policy("never", samples)
    assert (found.n_samples, found.left_out, found.n_tasks) == (46, 2, 12)
    assert policy("agree:2", [one for one in samples if one.key.budget != 0]) == policy("agree:2", samples)
    with pytest.raises(ConfigError, match="no sample that is there at every budget"):
        policy("never", [replace(one, status=MISSING) for one in many()])


@pytest.mark.parametrize("text", ["vote", "best", "asc:1"])
@pytest.mark.parametrize("left", [1, 2, 3])
def test_the_baseline_of_votes_is_all_samples_of_every_task(text, left):
    """A task that lost samples to the engine makes nobody else's baseline smaller."""
    surest = [replace(one, answer_confidence=0.9, thinking_confidence=-0.1) for one in many()]
    fewer = [one for one in surest if one.key.task_id != "t00" or one.key.sample < left]
    found, every = policy(text, fewer), [one for one in fewer if one.key.budget == NO_LIMIT]
    by_task = [[one for one in every if one.key.task_id == name] for name in sorted({s.key.task_id for s in every})]
    votes = [vote([one.label for one in own], [one.status == "correct" for one in own]) for own in by_task]
    assert found.baseline_accuracy == pytest.approx(np.mean(votes))
    assert found.baseline_tokens_mean == pytest.approx(sum(one.spent_tokens for one in every) / 12)
    if text == "vote":
        assert (found.difference, found.p_value, found.saved, found.saved_low) == (0, 1, 0, 0)


@pytest.mark.parametrize(
    ("text", "least"), [("vote:4", 4), ("best:3", 3), ("difficulty:2k", 2), ("deepconf:0.5,warmup=2", 3)]
)
def test_a_policy_is_not_judged_on_fewer_samples_than_it_says(text, least):
    whole = [replace(one, answer_confidence=0.9, thinking_confidence=-0.1) for one in many()]
    fewer = [one for one in whole if one.key.task_id != "t00" or one.key.sample < least - 1]
    without = [one for one in whole if one.key.task_id != "t00"]
    found, wanted = policy(text, fewer), policy(text, without)
    assert (found.n_tasks, found.left_out) == (11, least - 1)
    assert replace(found, left_out=0) == wanted
    assert (policy_row(found)[0], policy_row(wanted)[0]) == (f"{text} (on 11 tasks)", text)


def test_budget_zero_is_no_probe():
    samples = many()
    baseline = [replace(one, key=replace(one.key, budget=0)) for one in samples if one.key.budget == 100]
    assert policy("agree:2", [*baseline, *samples]) == policy("agree:2", samples)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agre:2", "unknown policy 'agre'. Did you mean agree?"),
        ("zzz", "unknown policy 'zzz'. There are never, cap, agree"),
        ("agree", "agree: n is missing; write agree:n=N"),
        ("agree:1", "n is a whole number of at least 2, not '1'"),
        ("agree:2,3", "too many arguments; write agree:n=N"),
        ("beta:n=3", "unknown argument 'n'; write beta:p=0.95,budget=largest"),
        ("beta:0.9,p=0.8", "repeated argument 'p'"),
        ("beta:1.5", "p is a number above 0, at most 1, not '1.5'"),
        ("cap:12x", "budget is a number of tokens ('12x' is not a token count; write 10k, 10_000 or none)"),
        ("wait:2", "--extension.waits"),
    ],
)
def test_a_policy_that_cannot_be_read(text, message):
    with pytest.raises(ConfigError) as error:
        parse_policy(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cap:300", "cap:300: the run has no budget 300; it has 100, 200, 400, none"),
        ("vote:5", "vote:5: no task has 5 whole samples to draw from; the most is 4"),
        ("split:50", "split:50: 50 tokens a task are too few: the cheapest that was sampled costs"),
    ],
)
def test_a_policy_that_the_run_cannot_answer(text, message):
    with pytest.raises(ConfigError) as error:
        policy(text, many())
    assert message in str(error.value)


def test_an_allocation_of_one_sample_saves_nothing_against_the_cap_that_it_is():
    answers = ["x", RIGHT, "x", "x"]
    samples = run_of(*(trace(answers, 500, task=f"t{n}", number=number) for n in range(6) for number in range(2)))
    found = policy("split:300", samples)
    assert (found.chosen, found.accuracy, found.tokens_mean) == ("1 x 200", 1.0, 210.0)
    assert found.saved_equal == pytest.approx(0.0)
    assert found.baseline_tokens_mean == policy("vote", samples).tokens_mean == 2 * 510.0


def test_what_is_only_replayed_is_known():
    assert set(REPLAYED) == POLICIES.keys() - ONLINE.keys()


def test_every_policy_can_be_read_and_replayed():
    samples = [replace(one, answer_confidence=0.9, thinking_confidence=-0.1) for one in many()]
    given = {"cap": "cap:200", "agree": "agree:2", "deepconf": "deepconf:0.5,warmup=2", "split": "split:1k"}
    given["difficulty"] = "difficulty:1k,bins=2"
    for name in POLICIES:
        found = policy(given.get(name, name), samples)
        assert found.n_tasks == 12
        assert found.low <= found.accuracy <= found.high
        assert found.difference_low <= found.difference <= found.difference_high
        assert found.difference == pytest.approx(found.accuracy - found.baseline_accuracy)
        assert found.saved == pytest.approx(1 - found.tokens_mean / found.baseline_tokens_mean)
        assert len(policy_row(found)) == 6


def test_tokens_for_an_accuracy_by_hand():
    accuracy = np.array([[0.2, 0.4, 0.3, 0.8]] * 5)
    tokens = np.array([[100.0, 200.0, 400.0, 800.0]] * 5)
    needed = tokens_for(np.array([0.4, 0.3, 0.6, 0.1, 0.9]), accuracy, tokens)
    # Half-way on a log scale from 100 to 200; from 400, where the best so far is 0.4, to 800.
    assert needed == pytest.approx([200.0, 100 * 2**0.5, 400 * 2**0.5, 100.0, 800.0])


def test_tokens_saved_have_an_interval_over_tasks():
    rng = np.random.default_rng(1)
    plain = rng.uniform(500, 1500, size=(200, 1))
    tokens = plain[:, 0] * rng.uniform(0.4, 0.6, size=200)
    right = rng.integers(0, 2, size=200).astype(float)
    found = compare("p", Outcomes(right, tokens, tokens * 0, right[:, None], plain, "plain", {}, 200, 0))
    assert found.saved_low < found.saved < found.saved_high
    assert found.saved == pytest.approx(0.5, abs=0.02)
    assert found.saved_high - found.saved_low == pytest.approx(2 * 1.96 * 0.06 / 200**0.5, rel=0.4)


def grid_of(tasks):
    """Tasks of (answers at the four budgets, for each of four samples)."""
    stored = whole_samples(
        run_of(
            *(
                trace(answers, 900, task=f"t{number:02}", number=sample)
                for number, task in enumerate(tasks)
                for sample, answers in enumerate(task)
            )
        )
    )
    return make_grid(stored.by_budget())


HARD = [("x", "x", "x", RIGHT)] * 4  # only the longest thinking solves it
EASY = [(RIGHT, RIGHT, RIGHT, RIGHT)] * 4


def test_the_grid_by_hand():
    grid = grid_of([HARD, EASY])
    assert grid.cells[:3] == ((100, 1), (100, 2), (100, 4))
    cell = grid.cells.index((NO_LIMIT, 2))
    assert grid.majority[:, cell].tolist() == [1.0, 1.0]
    assert grid.tokens[:, cell].tolist() == [2 * 910] * 2


def brought(grid, cells):
    """Accuracy and tokens of each task under its cell."""
    places = np.arange(len(cells)), cells
    return grid.majority[places], grid.tokens[places]


def test_each_group_gets_what_the_other_half_found_best():
    grid = grid_of([HARD, HARD, EASY, EASY])
    cells, chosen = allocate(grid, [0, 0, 1, 1], 510)
    accuracy, tokens = brought(grid, cells)
    assert accuracy.tolist() == [1.0] * 4
    assert tokens.tolist() == [910, 910, 110, 110]  # a mean of 510
    assert [grid.cells[cell] for cell in chosen] == [(NO_LIMIT, 1), (100, 1)] * 2
    accuracy, tokens = brought(grid, allocate(grid, [0] * 4, 510)[0])  # without groups the hard tasks are out of reach
    assert accuracy.tolist() == [0.0, 0.0, 1.0, 1.0]
    assert tokens.max() <= 510


def test_no_task_has_a_say_in_what_it_gets():
    base = [HARD, HARD, EASY, EASY]
    grid, changed = grid_of(base), grid_of([EASY, HARD, EASY, EASY])  # the first task, of the even half
    ours, theirs = (allocate(one, [0] * 4, 2_000)[1] for one in (grid, changed))
    assert grid.cells[ours[0]] == grid.cells[theirs[0]]  # what the even half gets


def test_the_map_by_hand():
    tasks = [{100: easy_rows(100), NO_LIMIT: easy_rows(NO_LIMIT)} for _ in range(3)]
    points = {(one.budget, one.votes): one for one in parallel_map(tasks, resamples=200)}
    assert set(points) == {(100, 1), (100, 2), (NO_LIMIT, 1), (NO_LIMIT, 2)}
    assert points[100, 1].pareto == 1.0  # as right as any, and the cheapest
    assert points[NO_LIMIT, 2].pareto == 0.0
    assert points[NO_LIMIT, 2].tokens_mean == 2 * 910


def easy_rows(budget):
    return [row(budget, RIGHT, min(budget, 900), number=number) for number in range(2)]


def test_the_map_has_the_majorities_of_the_points():
    samples = many()
    for one in map_of(samples):
        plain = point(samples, one.budget)
        assert one.accuracy == pytest.approx(plain.majority_at[str(one.votes)])
        assert one.pass_at == pytest.approx(plain.pass_at[str(one.votes)])
        assert one.tokens_mean == pytest.approx(one.votes * plain.tokens_mean)
    assert map_of([one for one in samples if one.key.sample == 0]) == []
    assert map_of([]) == []

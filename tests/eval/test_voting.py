"""What k samples are worth, against brute force over all subsets and hand-computed numbers."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eval.voting import best_of_k, labelled_majority_at_k, majority_at_k, pass_at_k, vote

VOTES = st.lists(st.sampled_from(["right", "a", "b", "c", None]), min_size=1, max_size=8)
LABELLED = st.lists(st.tuples(st.sampled_from(["u", "v", "w", None]), st.booleans()), min_size=1, max_size=7)


def leaders_of(votes):
    counts = Counter(vote for vote in votes if vote is not None)
    return [vote for vote in counts if counts[vote] == max(counts.values())]


def majority_by_subsets(votes, k):
    """The definition, word for word: every subset, ties shared, abstentions drawn but not counted."""
    won = []
    for drawn in combinations(votes, k):
        leaders = leaders_of(drawn)
        won.append(1 / len(leaders) if "right" in leaders else 0.0)
    return np.mean(won)


def count(votes):
    wrong = Counter(vote for vote in votes if vote not in ("right", None))
    return votes.count("right"), list(wrong.values()), votes.count(None)


def right_labels(samples):
    """Each label is right or wrong as a whole: as its first sample."""
    first = dict(reversed(samples))
    return [label for label, _ in samples], [label is not None and first[label] for label, _ in samples]


def test_pass_at_k_by_hand():
    assert pass_at_k(2, 4, 1) == 0.5
    assert pass_at_k(2, 4, 2) == pytest.approx(5 / 6)  # of the six pairs only one holds no right sample
    assert pass_at_k(1, 4, 4) == 1.0
    assert pass_at_k(0, 4, 4) == 0.0


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_pass_at_k_is_the_mean_over_all_subsets(outcomes, data):
    k = data.draw(st.integers(1, len(outcomes)))
    by_subsets = np.mean([any(drawn) for drawn in combinations(outcomes, k)])
    assert pass_at_k(sum(outcomes), len(outcomes), k) == pytest.approx(by_subsets)


def test_pass_at_k_of_many_samples():
    assert pass_at_k(1, 10_000, 5_000) == pytest.approx(0.5)


@pytest.mark.parametrize("k", [0, 5])
def test_only_samples_that_exist_can_be_drawn(k):
    with pytest.raises(ValueError, match="between 1 and 4"):
        pass_at_k(1, 4, k)
    with pytest.raises(ValueError, match="between 1 and 4"):
        majority_at_k(1, [1, 1], 1, k)
    with pytest.raises(ValueError, match="between 1 and 4"):
        labelled_majority_at_k(["a", "a", "b", None], [True, True, False, False], k)
    with pytest.raises(ValueError, match="between 1 and 4"):
        best_of_k([1.0, 2.0, 3.0, 4.0], [True] * 4, k)


def test_majority_by_hand():
    assert majority_at_k(2, [2], 0, 2) == pytest.approx((1 + 4 / 2) / 6)  # both right, four ties, both wrong
    assert majority_at_k(1, [], 1, 1) == 0.5  # an abstention alone elects nobody
    assert majority_at_k(1, [], 1, 2) == 1.0
    assert majority_at_k(2, [1, 1], 0, 4) == 1.0
    assert majority_at_k(1, [1, 1, 1], 0, 4) == 0.25  # four answers share the lead


@given(VOTES, st.data())
def test_majority_is_the_mean_over_all_subsets(votes, data):
    k = data.draw(st.integers(1, len(votes)))
    assert majority_at_k(*count(votes), k) == pytest.approx(majority_by_subsets(votes, k))


def test_majority_of_many_samples_against_the_hypergeometric_distribution():
    expected = stats.hypergeom(1000, 520, 127).sf(63)  # two answers, 127 votes: 64 decide
    assert majority_at_k(520, [480], 0, 127) == pytest.approx(expected)


def test_majority_says_where_it_ends():
    with pytest.raises(ValueError, match="majority@128"):
        majority_at_k(200, [100], 0, 129)


@given(LABELLED, st.data())
def test_several_right_answers_win_each_for_itself(samples, data):
    labels, right = right_labels(samples)
    k = data.draw(st.integers(1, len(labels)))
    won = []
    for drawn in combinations(range(len(labels)), k):
        leaders = leaders_of([labels[index] for index in drawn])
        good = {labels[index] for index in drawn if right[index]}
        won.append(len(good & set(leaders)) / len(leaders) if leaders else 0.0)
    assert labelled_majority_at_k(labels, right, k) == pytest.approx(np.mean(won))


@given(LABELLED, st.randoms(use_true_random=False), st.data())
def test_the_order_of_the_samples_says_nothing(samples, random, data):
    labels, right = right_labels(samples)
    k = data.draw(st.integers(1, len(labels)))
    scores = [float(index % 3) for index in range(len(labels))]
    order = list(range(len(labels)))
    random.shuffle(order)
    again = [labels[index] for index in order], [right[index] for index in order]
    shuffled_scores = [scores[index] for index in order]
    assert labelled_majority_at_k(*again, k) == pytest.approx(labelled_majority_at_k(labels, right, k))
    assert vote(*again, shuffled_scores) == pytest.approx(vote(labels, right, scores))
    assert best_of_k(shuffled_scores, again[1], k) == pytest.approx(best_of_k(scores, right, k))


def test_votes_by_hand():
    assert vote(["a", "a", "b", None], [True, True, False, False]) == 1.0
    assert vote(["a", "b"], [True, False]) == 0.5  # a tie is split
    assert vote(["a", "a", "b"], [True, True, False], [0.2, 0.2, 0.9]) == 0.0
    assert vote(["a", "a", "b"], [True, True, False], [0.1, 0.2, 0.3]) == 0.5  # equal but for rounding
    assert vote([None, None], [False, False]) == 0.0
    assert vote(["a", "a"], [True, False]) == 0.5  # the verifier failed on one of the two


@given(LABELLED)
def test_a_vote_of_all_is_the_majority_of_all(samples):
    labels, right = right_labels(samples)
    assert vote(labels, right) == pytest.approx(labelled_majority_at_k(labels, right, len(labels)))


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.9]), st.booleans()), min_size=1, max_size=7), st.data())
def test_best_of_k_is_the_mean_over_all_subsets(samples, data):
    k = data.draw(st.integers(1, len(samples)))
    won = []
    for drawn in combinations(samples, k):
        best = [is_right for score, is_right in drawn if score == max(drawn)[0]]
        won.append(np.mean(best))
    scores, right = zip(*samples, strict=True)
    assert best_of_k(scores, right, k) == pytest.approx(np.mean(won))


def test_a_perfect_score_picks_as_often_right_as_any_is():
    right = [True, False, False, True, False]
    assert best_of_k([float(one) for one in right], right, 3) == pytest.approx(pass_at_k(2, 5, 3))

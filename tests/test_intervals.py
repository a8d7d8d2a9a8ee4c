"""Intervals and paired comparisons, against worked examples and other people's code."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from scipy import stats

from mug_eval.statistics.intervals import cluster_error, mean_interval, share_interval
from mug_eval.statistics.paired import compare_hits


def test_with_a_cluster_for_each_question_the_error_is_the_usual_one() -> None:
    values = [0.0, 1.0, 1.0, 0.0, 1.0, 0.5]
    error, clusters = cluster_error(values, range(6))
    assert clusters == 6
    assert error == pytest.approx(stats.sem(values))


def test_the_interval_of_independent_values_is_student_s() -> None:
    values = [3.1, 2.4, 5.6, 4.4, 3.9]
    found = mean_interval(values, range(5))
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_doubling_every_question_within_its_cluster_adds_no_certainty() -> None:
    values = [0.0, 1.0, 1.0, 0.0, 1.0]
    once, _ = cluster_error(values, range(5))
    twice, clusters = cluster_error(values * 2, [*range(5), *range(5)])
    assert clusters == 5
    assert twice == pytest.approx(once)


def test_the_clustered_error_is_the_sandwich_of_a_regression_on_a_constant() -> None:
    # (X'X)^-1 X' u u' X (X'X)^-1 with u summed within clusters, times G/(G-1), written out with matrices.
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 9, 40)
    y = rng.normal(size=40) + groups
    x = np.ones((40, 1))
    bread = np.linalg.inv(x.T @ x)
    residuals = y - y.mean()
    meat = sum((x[groups == g].T @ residuals[groups == g]) ** 2 for g in range(9))
    expected = math.sqrt((bread @ meat.reshape(1, 1) @ bread).item() * 9 / 8)
    assert cluster_error(y.tolist(), groups.tolist())[0] == pytest.approx(expected)


@pytest.mark.parametrize(("right", "n"), [(0, 10), (3, 10), (10, 10), (81, 263)])
def test_the_share_s_interval_is_wilson_s(right: int, n: int) -> None:
    found = share_interval([True] * right + [False] * (n - right), range(n))
    expected = stats.binomtest(right, n).proportion_ci(method="wilson")
    assert (found.low, found.high) == (pytest.approx(expected.low, abs=1e-12), pytest.approx(expected.high))


def test_a_share_over_few_clusters_is_as_wide_as_over_as_many_questions() -> None:
    hits = [True, False, True, True, False, True, False, True]
    alone = share_interval(hits, range(8))
    in_clusters = share_interval(hits * 5, list(range(8)) * 5)
    assert in_clusters.clusters == 8
    assert in_clusters.high - in_clusters.low == pytest.approx(alone.high - alone.low, rel=0.08)  # n/(n-1) apart


def test_one_cluster_says_nothing_of_the_error() -> None:
    assert math.isnan(mean_interval([1.0, 0.0, 1.0], ["a", "a", "a"]).low)
    alone = compare_hits([True, False, True], [False, False, True], ["a", "a", "a"]).difference
    assert math.isnan(alone.low) and math.isnan(alone.high), "not from -100 to 100 points, which would look like an interval"


def test_no_interval_reaches_past_what_can_be() -> None:
    few = compare_hits([True, True, False, True], [False, False, True, True], ["a", "a", "b", "b"]).difference
    assert (few.value, few.low, few.high) == (0.25, -1.0, 1.0)
    free = mean_interval([1.0, 1.0, -1.0, 0.0], ["a", "a", "b", "b"])
    assert free.low < -1 and free.high > 1 and free.standard_error == few.standard_error


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = random.Random(11)
    held = 0
    for _ in range(600):
        values, clusters = [], []
        for cluster in range(40):
            shift = rng.gauss(0, 0.4)
            for _ in range(3):
                values.append(shift + rng.gauss(0, 0.3))
                clusters.append(cluster)
        found = mean_interval(values, clusters)
        held += found.low <= 0 <= found.high
    assert 0.925 <= held / 600 <= 0.975


def test_fixed_and_broken_are_counted_and_tested_exactly() -> None:
    hits = [True] * 9 + [False] * 3 + [True] * 20
    against = [False] * 9 + [True] * 3 + [True] * 20
    found = compare_hits(hits, against, range(32))
    assert (found.fixed, found.broken) == (9, 3)
    assert found.difference.value == pytest.approx(6 / 32)
    # 2 * P(X <= 3), X ~ Binomial(12, 1/2)
    assert found.p == pytest.approx(2 * sum(math.comb(12, k) for k in range(4)) / 2**12)


def test_runs_that_never_differ_have_nothing_to_test() -> None:
    found = compare_hits([True, False], [True, False], range(2))
    assert (found.difference.value, found.p) == (0.0, 1.0)


def test_other_numbers_of_questions_are_not_compared() -> None:
    with pytest.raises(ValueError, match="2 questions against 1"):
        compare_hits([True, False], [True], range(2))

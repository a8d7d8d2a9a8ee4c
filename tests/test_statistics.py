"""Resampling, tests and planning, against published examples, other people's code, counting by hand, and simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from scipy import stats

from mug_eval.statistics.bootstrap import resample
from mug_eval.statistics.definition import Sums
from mug_eval.statistics.intervals import cluster_error, mean_interval
from mug_eval.statistics.paired import correlation, holm, mcnemar, smallest_difference
from mug_eval.statistics.paper_test import paper_test
from mug_eval.statistics.permutation import exchange_test
from mug_eval.statistics.power import Design, power_of, questions_needed, smallest_gap


def shares(values: Sequence[float], clusters: Sequence[int]) -> Sums:
    """A plain share as the sums of its clusters."""
    count = max(clusters) + 1
    top = np.bincount(clusters, weights=np.asarray(values, dtype=float), minlength=count)
    bottom = np.bincount(clusters, minlength=count).astype(float)
    return Sums(("acc",), ((0,),), top[:, None], bottom[:, None], (True,))


# --- the cluster bootstrap


def test_the_bootstrap_draws_from_the_resamples_that_there_are() -> None:
    # Three clusters: 27 equally likely resamples, written out.
    sums = shares([1, 0, 1, 1, 0, 0], [0, 0, 1, 1, 2, 2])
    every = [100 * np.mean([[0.5, 1.0, 0.0][cluster] for cluster in draw]) for draw in product(range(3), repeat=3)]
    (drawn,) = resample([[sums]], seed=1, resamples=20_000)
    values, counts = np.unique(drawn.scores.round(6), return_counts=True)
    expected, times = np.unique(np.round(every, 6), return_counts=True)
    assert values == pytest.approx(expected)
    assert counts / 20_000 == pytest.approx(times / 27, abs=0.012)


def test_the_bootstrap_interval_is_scipy_s() -> None:
    rng = np.random.default_rng(4)
    means = rng.normal(0.5, 0.1, 40)
    (drawn,) = resample([[shares(means.tolist(), list(range(40)))]], seed=0, resamples=10_000)
    theirs = stats.bootstrap((means,), np.mean, n_resamples=10_000, method="percentile", rng=1).confidence_interval
    assert drawn.interval(0) == pytest.approx((100 * theirs.low, 100 * theirs.high), abs=0.15)


def test_runs_are_resampled_together_so_that_what_they_share_cancels() -> None:
    rng = random.Random(3)
    values = [float(rng.random() < 0.5) for _ in range(60)]
    one, other = resample([[shares(values, list(range(60)))], [shares(values, list(range(60)))]], seed=0, resamples=1000)
    assert np.array_equal(one.scores, other.scores)
    again, _ = resample([[shares(values, list(range(60)))]] * 2, seed=0, resamples=1000)
    assert np.array_equal(one.scores, again.scores), "the same seed draws the same"
    with pytest.raises(ValueError, match="other clusters"):
        resample([[shares([1, 0], [0, 1])], [shares([1], [0])]], seed=0, resamples=10)


# --- the exchange test


def test_few_clusters_are_exchanged_in_all_ways_counted_by_hand() -> None:
    # Four clusters of two differ by +2, +1, +1, -1 right answers: of 16 sign patterns those with |sum| >= 3 count.
    one = shares([1, 1, 1, 0, 0, 1, 0, 0], [0, 0, 1, 1, 2, 2, 3, 3])
    other = shares([0, 0, 0, 0, 0, 0, 1, 0], [0, 0, 1, 1, 2, 2, 3, 3])
    found = exchange_test([one], [other], seed=0)
    patterns = [abs(2 * a + b + c - d) >= 3 for a, b, c, d in product((1, -1), repeat=4)]
    assert found.exact and found.clusters == 4
    assert found.p[0] == pytest.approx(sum(patterns) / 16)
    assert found.differences[0] == pytest.approx(100 * 3 / 8)


def test_the_exchange_test_of_a_share_is_scipy_s_sign_flip_test() -> None:
    rng = np.random.default_rng(8)
    clusters = rng.integers(0, 10, 80)
    clusters[:10] = range(10)
    one, other = (rng.random(80) < 0.7).astype(float), (rng.random(80) < 0.5).astype(float)
    each = np.bincount(clusters, weights=one - other)
    theirs = stats.permutation_test((each,), np.sum, permutation_type="samples", n_resamples=np.inf)
    found = exchange_test([shares(one.tolist(), clusters.tolist())], [shares(other.tolist(), clusters.tolist())], seed=0)
    assert found.exact
    assert found.p[0] == pytest.approx(theirs.pvalue)


def f1_sums(rows: Sequence[tuple[int, str, str]]) -> Sums:
    """F1 of (cluster, gold, said), as the sums of its clusters."""
    count = max(cluster for cluster, _, _ in rows) + 1
    top, bottom = np.zeros((count, 1)), np.zeros((count, 1))
    for cluster, gold, said in rows:
        top[cluster] += 2 * (gold == said == "Yes")
        bottom[cluster] += (gold == "Yes") + (said == "Yes")
    return Sums(("F1",), ((0,),), top, bottom, (False,))


def f1_of(rows: Sequence[tuple[int, str, str]]) -> float:
    """F1 as in a textbook."""
    tp = sum(gold == said == "Yes" for _, gold, said in rows)
    precision, recall = tp / sum(said == "Yes" for _, _, said in rows), tp / sum(gold == "Yes" for _, gold, _ in rows)
    return 100 * 2 * precision * recall / (precision + recall)


def test_the_exchange_test_of_f1_is_that_of_exchanged_answers() -> None:
    rng = random.Random(6)
    gold = [(place // 4, rng.choice(["Yes", "No"])) for place in range(28)]
    one = [(c, g, g if rng.random() < 0.8 else rng.choice(["Yes", "No"])) for c, g in gold]
    other = [(c, g, rng.choice(["Yes", "No"])) for c, g in gold]
    apart = []
    for chosen in product((False, True), repeat=7):
        first = [b if chosen[a[0]] else a for a, b in zip(one, other, strict=True)]
        second = [a if chosen[a[0]] else b for a, b in zip(one, other, strict=True)]
        apart.append(abs(f1_of(first) - f1_of(second)))
    found = exchange_test([f1_sums(one)], [f1_sums(other)], seed=0)
    assert found.exact
    assert found.differences[0] == pytest.approx(f1_of(one) - f1_of(other))
    assert found.p[0] == pytest.approx(np.mean([difference >= apart[0] - 1e-9 for difference in apart]))
    assert 0 < found.p[0] < 0.5


def test_seeds_are_averaged_before_they_are_exchanged() -> None:
    rng = np.random.default_rng(9)
    clusters = list(range(10))
    one, other = (rng.random((3, 10)) < 0.8).astype(float), (rng.random((2, 10)) < 0.4).astype(float)
    theirs = stats.permutation_test(
        (one.mean(axis=0) - other.mean(axis=0),), np.sum, permutation_type="samples", n_resamples=np.inf
    )
    found = exchange_test(
        [shares(row.tolist(), clusters) for row in one], [shares(row.tolist(), clusters) for row in other], seed=0
    )
    assert found.p[0] == pytest.approx(theirs.pvalue)


def test_with_a_question_a_cluster_the_exchange_test_is_mcnemar_s() -> None:
    one = [1] * 8 + [0] * 2 + [1] * 30
    other = [0] * 8 + [1] * 2 + [1] * 30
    found = exchange_test([shares(one, list(range(40)))], [shares(other, list(range(40)))], seed=0)
    assert found.p[0] == pytest.approx(mcnemar(8, 2))


def test_drawn_exchanges_come_close_to_all_of_them_and_never_give_zero() -> None:
    rng = np.random.default_rng(12)
    one, other = (rng.random(60) < 0.75).astype(float), (rng.random(60) < 0.5).astype(float)
    args = [shares(one.tolist(), list(range(60)))], [shares(other.tolist(), list(range(60)))]
    found = exchange_test(*args, seed=0, permutations=10_000)
    fixed, broken = int((one > other).sum()), int((one < other).sum())
    assert not found.exact
    assert found.p[0] == pytest.approx(mcnemar(fixed, broken), abs=0.01)
    apart = exchange_test([shares([1.0] * 60, list(range(60)))], [shares([0.0] * 60, list(range(60)))], seed=0, permutations=1000)
    assert apart.p[0] == pytest.approx(1 / 1001)


def test_a_run_against_itself_has_nothing_to_exchange() -> None:
    sums = shares([1, 0, 1], [0, 1, 2])
    found = exchange_test([sums], [sums], seed=0)
    assert (found.clusters, found.p[0], found.differences[0]) == (0, 1.0, 0.0)


def test_one_in_twenty_comparisons_of_equals_is_called_different_though_questions_are_dependent() -> None:
    # Clusters of five questions in which each run is good or bad at all of them: equal runs, dependent questions.
    rng = np.random.default_rng(2026)
    rounds, clusters, size = 2000, 30, 5
    place = np.repeat(np.arange(clusters), size).tolist()
    called, called_by_mcnemar, missed = 0, 0, 0
    for _ in range(rounds):
        skill = rng.beta(0.8, 0.5, (2, clusters, 1))
        one, other = (rng.random((2, clusters, size)) < skill).astype(float).reshape(2, -1)
        found = exchange_test([shares(one, place)], [shares(other, place)], seed=0, permutations=400, rng=rng)
        called += found.p[0] <= 0.05
        called_by_mcnemar += mcnemar(int((one > other).sum()), int((one < other).sum())) <= 0.05
        interval = mean_interval((one - other).tolist(), place)
        missed += not interval.low <= 0 <= interval.high
    assert 0.04 <= called / rounds <= 0.06
    assert 0.04 <= missed / rounds <= 0.06
    assert called_by_mcnemar / rounds > 0.12, "which is why a test that takes questions for independent is no headline"


# --- against statsmodels


def test_mcnemar_holm_and_the_clustered_error_are_those_of_statsmodels() -> None:
    pytest.importorskip("statsmodels", reason="statsmodels, which these are held against, is not installed")
    import statsmodels.api as sm
    from statsmodels.stats.contingency_tables import mcnemar as their_mcnemar
    from statsmodels.stats.multitest import multipletests

    for fixed, broken in [(9, 3), (0, 4), (17, 17), (40, 21)]:
        assert mcnemar(fixed, broken) == pytest.approx(min(1.0, their_mcnemar([[50, fixed], [broken, 20]], exact=True).pvalue))
    rng = np.random.default_rng(1)
    p = (rng.random(12) ** 3).tolist()
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    values, clusters = rng.random(50), rng.integers(0, 9, 50)
    fit = sm.OLS(values, np.ones(50)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "df_correction": False, "use_correction": False}
    )
    error, count = cluster_error(values.tolist(), clusters.tolist())
    assert error == pytest.approx(fit.bse[0] * math.sqrt(count / (count - 1)))


# --- by hand


def test_holm_multiplies_the_smallest_by_most_and_never_falls() -> None:
    # Holm 1979 with four tests: 0.005*4, 0.01*3, then 0.03*2 and 0.04*1, which may not be below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_mcnemar_of_a_textbook_table() -> None:
    # Agresti, Categorical Data Analysis (2013), approval of the prime minister: 150 and 86 changed their minds.
    expected = 2 * sum(math.comb(236, k) for k in range(87)) / 2**236
    assert mcnemar(150, 86) == pytest.approx(expected)
    assert mcnemar(0, 0) == 1.0


def test_correlation_of_right_and_wrong_is_phi() -> None:
    one, other = [1, 1, 1, 0, 0, 0, 1, 0], [1, 1, 0, 0, 0, 1, 1, 0]
    # (n11 n00 - n10 n01) / sqrt of the margins' product: (3*3 - 1*1) / 16
    assert correlation(one, other) == pytest.approx(0.5)
    assert math.isnan(correlation([1, 1], [0, 1]))


def test_the_paper_s_test_is_one_tailed() -> None:
    # Student's sleep data (1908), the textbook example of a paired test: t(9) = 4.0621, one-tailed p = 0.001416.
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = paper_test(second, first)
    assert (found.t, found.degrees, found.p) == (pytest.approx(4.0621, abs=1e-4), 9, pytest.approx(0.001416, abs=1e-6))
    assert paper_test(first, second).p == pytest.approx(1 - found.p)
    assert math.isnan(paper_test([1, 1], [0, 0]).p), "differences without any spread have no t"


def test_the_smallest_difference_is_found_with_the_power_it_says() -> None:
    rng = np.random.default_rng(7)
    clusters, error = 25, 0.04
    gap = smallest_difference(error, clusters)
    draws = rng.normal(gap, error * math.sqrt(clusters), (4000, clusters))
    t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / math.sqrt(clusters))
    found = (np.abs(t) > stats.t.ppf(0.975, clusters - 1)).mean()
    assert found == pytest.approx(0.8, abs=0.025)
    assert math.isnan(smallest_difference(error, 1)) and math.isnan(smallest_difference(0.0, clusters))


# --- planning


def test_connor_s_published_sample_sizes() -> None:
    # Two worked examples of Connor's formula (1987) in calculators of others: p10 = 0.45, p01 = 0.05, and 0.30 against 0.15.
    assert questions_needed(0.40, Design(0.50)) == 23
    assert questions_needed(0.15, Design(0.45)) == 155


def test_the_benchmarks_find_what_the_page_says() -> None:
    # docs/statistics.md, second paragraph.
    found = {n: round(100 * smallest_gap(n, Design(0.10)), 1) for n in (900, 1500, 5127)}
    assert found == {900: 2.9, 1500: 2.3, 5127: 1.2}
    assert questions_needed(0.004, Design(0.10)) == pytest.approx(49_000, rel=0.01)


def test_power_smallest_gap_and_questions_are_one_relation() -> None:
    design = Design(0.15, rerun=0.04, design_effect=1.7)
    for seeds in (1, 3):
        n = questions_needed(0.02, design, seeds)
        assert power_of(n, 0.02, design, seeds) >= 0.8 > power_of(n - 2, 0.02, design, seeds)
        assert smallest_gap(n, design, seeds) == pytest.approx(0.02, rel=1e-3)
    assert questions_needed(0.02, design, 3) < questions_needed(0.02, design, 1), "seeds take drawing's part of the noise away"
    assert questions_needed(0.02, Design(0.15)) == pytest.approx(
        questions_needed(0.02, Design(0.15, design_effect=1.7)) / 1.7, abs=1
    )
    assert math.isnan(smallest_gap(5, Design(0.15))), "with five questions nothing can be found"


def test_so_many_questions_and_seeds_find_the_difference_as_often_as_planned() -> None:
    # Questions differ in how hard they are for each method; runs are drawn anew for every seed.
    rng = np.random.default_rng(3)
    hard = rng.beta(1.2, 1.2, 400_000)
    gap, shift = 0.05, 0.05
    one, other = np.clip(hard + shift, 0, 1), hard
    gap = float((one - other).mean())
    discordant = float((one * (1 - other) + other * (1 - one)).mean())
    rerun = float((one * (1 - one) + other * (1 - other)).mean())
    design = Design(discordant, rerun)
    for seeds in (1, 4):
        n, found, rounds = questions_needed(gap, design, seeds), 0, 600
        for _ in range(rounds):
            asked = rng.integers(0, len(hard), n)
            difference = (rng.binomial(seeds, one[asked]) - rng.binomial(seeds, other[asked])) / seeds
            found += abs(difference.mean()) > 1.96 * difference.std(ddof=1) / math.sqrt(n)
        assert found / rounds == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(
    ("design", "said"),
    [
        ({"discordant": 0.0}, "discordant"),
        ({"discordant": 0.1, "rerun": 0.2}, "rerun must not exceed"),
        ({"discordant": 0.1, "power": 0.01}, "power"),
        ({"discordant": 0.1, "design_effect": -1.0}, "design effect"),
    ],
)
def test_what_no_pair_of_methods_can_show_is_refused(design: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Design(**design)


def test_a_gap_larger_than_the_disagreement_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be 20 points apart"):
        questions_needed(0.2, Design(0.1))

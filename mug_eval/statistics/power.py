"""How many questions and seeds a claim needs, before the calls are spent.

Two methods answer the same questions. d is the share of questions on which one run of each disagrees about being right, delta the
difference to be found. For one seed each this is Connor's sample size for McNemar's test (1987, Biometrics 43(1), p. 209):

    n = ((z_(alpha/2) sqrt(d) + z_beta sqrt(d - delta^2)) / delta)^2

More seeds a question take the part of d away that comes from drawing (Miller 2024, arXiv 2411.00640, on resampling and power): if
a method run again disagrees with itself on a share r of the questions, its answers vary by r/2 within a question, and averaged over
K seeds d becomes d - (r_1/2 + r_2/2)(1 - 1/K). Dependent questions count for less: n is multiplied by the design effect (Kish 1965),
the ratio of the clustered to the plain variance of the difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import optimize, stats


@dataclass(frozen=True, slots=True)
class Design:
    """What a comparison is expected to look like; all shares in 0..1.

    Attributes:
        discordant: d, the share of questions that exactly one of two single runs answers rightly.
        rerun: r, the share of questions on which a method disagrees with itself under another seed; the mean of both methods.
        design_effect: how many dependent questions are worth one.
        alpha: of the two-sided test.
        power: how often the difference is to be found.
    """

    discordant: float
    rerun: float = 0.0
    design_effect: float = 1.0
    alpha: float = 0.05
    power: float = 0.8

    def __post_init__(self) -> None:
        if not 0 < self.discordant <= 1:
            raise ValueError("the discordant share must lie above 0 and be at most 100 %")
        if not 0 <= self.rerun <= self.discordant:
            raise ValueError(
                "a method cannot disagree with itself more often than with the other: rerun must not exceed discordant"
            )
        if not 0.01 <= self.design_effect <= 1e6:
            raise ValueError("the design effect must be at least 0.01 and at most 1,000,000")
        if not 1e-9 <= self.alpha < 1 or not self.alpha < self.power < 1:
            raise ValueError("alpha must lie between 0 (1e-9 at least) and 1, and power between alpha and 1")

    def variance(self, seeds: int) -> float:
        """Of a question's difference under the null, over so many seeds."""
        return self.discordant - self.rerun * (1 - 1 / seeds)


def questions_needed(gap: float, design: Design, seeds: int = 1) -> int:
    """The number of questions with which a true difference is found as often as the design asks for.

    Args:
        gap: the difference, in 0..1.
        design: what is expected of the comparison.
        seeds: runs of each method.

    Raises:
        ValueError: the gap is 0, or larger than the methods' disagreement allows.
    """
    z_alpha, z_beta = _quantiles(design)
    null, alternative = _variances(gap, design, seeds)
    n = ((z_alpha * math.sqrt(null) + z_beta * math.sqrt(alternative)) / gap) ** 2
    return math.ceil(n * design.design_effect - 1e-9)


def power_of(questions: int, gap: float, design: Design, seeds: int = 1) -> float:
    """How often a true difference is found with so many questions, in either direction (the wrong one hardly ever).

    Raises:
        ValueError: as :func:`questions_needed`.
    """
    z_alpha, _ = _quantiles(design)
    null, alternative = _variances(gap, design, seeds)
    if alternative == 0:
        return float(gap * math.sqrt(questions / design.design_effect) > z_alpha * math.sqrt(null))
    far = gap * math.sqrt(questions / design.design_effect)
    up, down = ((sign * far - z_alpha * math.sqrt(null)) / math.sqrt(alternative) for sign in (1, -1))
    return float(stats.norm.cdf(up) + stats.norm.cdf(down))


def smallest_gap(questions: int, design: Design, seeds: int = 1) -> float:
    """The smallest true difference that so many questions find as often as the design asks for; NaN if none is that large.

    Returns:
        In 0..1.
    """
    largest = _largest_gap(design, seeds)

    def lacking(gap: float) -> float:
        return power_of(questions, gap, design, seeds) - design.power

    if lacking(largest) < 0:
        return math.nan
    return float(optimize.brentq(lacking, 1e-9, largest))


def _quantiles(design: Design) -> tuple[float, float]:
    return float(stats.norm.ppf(1 - design.alpha / 2)), float(stats.norm.ppf(design.power))


def _largest_gap(design: Design, seeds: int) -> float:
    return min(design.discordant, math.sqrt(design.variance(seeds)))


def _variances(gap: float, design: Design, seeds: int) -> tuple[float, float]:
    if seeds < 1:
        raise ValueError("at least one seed")
    largest = _largest_gap(design, seeds)
    if not 0 < gap <= largest + 1e-12:
        at_most = f"{100 * largest:g}"
        raise ValueError(
            f"methods that disagree so rarely cannot be {100 * gap:g} points apart, only {at_most}: expect more disagreement"
        )
    null = design.variance(seeds)
    return null, max(0.0, null - gap * gap)

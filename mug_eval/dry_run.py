"""What a run would cost: questions, calls and tokens, counted and estimated without asking anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mug_eval.chat import Part
from mug_eval.errors import QuestionError
from mug_eval.plan import Job, Plan
from mug_eval.progress import amount
from mug_eval.question import Question

SAMPLE = 200
"""At most this many questions are opened for the estimate, evenly spaced."""

_CHARACTERS_A_TOKEN = 4
_PATCH = 28


class Source(Protocol):
    """What is needed of an open benchmark."""

    @property
    def indices(self) -> Sequence[str]:
        """Rows to be played."""
        ...

    def question(self, index: str) -> Question:
        """One question; QuestionError if it cannot be put."""
        ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one job would cost.

    Attributes:
        questions: rows to be played.
        sampled: questions opened for the estimate.
        unreadable: those of them that cannot be put.
        altered: those of them that have a counterfactual picture.
        least_calls, most_calls: of the whole job, when every reply parses at first.
        least_prompt, most_prompt: prompt tokens of the questions and pictures in these calls.
        most_reply: reply tokens if every reply is as long as it may be.
    """

    questions: int
    sampled: int
    unreadable: int
    altered: int
    least_calls: int
    most_calls: int
    least_prompt: int
    most_prompt: int
    most_reply: int


def prompt_tokens(prompt: Sequence[Part]) -> int:
    """Estimated tokens: a token for 4 characters of text, and one for each 28 x 28 pixels of a picture, begun ones whole."""
    characters = sum(len(part) for part in prompt if isinstance(part, str))
    pictures = sum(-(-part.width // _PATCH) * -(-part.height // _PATCH) for part in prompt if not isinstance(part, str))
    return -(-characters // _CHARACTERS_A_TOKEN) + pictures


def evenly(indices: Sequence[str], most: int) -> list[str]:
    """At most ``most`` of the indices, evenly spaced from the first."""
    if len(indices) <= most:
        return list(indices)
    return [indices[place * len(indices) // most] for place in range(most)]


def estimate(job: Job, source: Source) -> Estimate:
    """Open a sample of the questions and scale what they would take up to all of them."""
    sample = evenly(source.indices, SAMPLE)
    read = unreadable = altered = least = most = least_prompt = most_prompt = 0
    for index in sample:
        try:
            question = source.question(index)
        except QuestionError:
            unreadable += 1
            continue
        read += 1
        altered += question.altered is not None
        calls, tokens = job.method.calls(question, job.config), prompt_tokens(question.prompt)
        least, most = least + calls.least, most + calls.most
        least_prompt, most_prompt = least_prompt + calls.least * tokens, most_prompt + calls.most * tokens
    # Those that cannot be put cost nothing, so the sum over the sample is scaled by the sample, not by what could be read.
    scale = len(source.indices) / len(sample) if sample else 0.0
    return Estimate(
        questions=len(source.indices),
        sampled=len(sample),
        unreadable=unreadable,
        altered=altered,
        least_calls=round(least * scale),
        most_calls=round(most * scale),
        least_prompt=round(least_prompt * scale),
        most_prompt=round(most_prompt * scale),
        most_reply=round(most * scale) * job.sampling.max_tokens,
    )


def dry_run(plan: Plan, open_benchmark: Callable[[Job], Source]) -> str:
    """The report of ``--dry-run``.

    Args:
        plan: the run.
        open_benchmark: opens the benchmark of a job, as the run would.
    """
    estimates = [(job, estimate(job, open_benchmark(job))) for job in plan.jobs]
    lines = [line for job, counted in estimates for line in _job_lines(job, counted)]
    least = sum(counted.least_calls for _, counted in estimates)
    most = sum(counted.most_calls for _, counted in estimates)
    if len(estimates) > 1:
        lines += [
            f"all {len(estimates)} jobs: {_between(f'{least:,}', f'{most:,}')} calls, about "
            f"{_between(amount(sum(c.least_prompt for _, c in estimates)), amount(sum(c.most_prompt for _, c in estimates)))} "
            f"prompt tokens, "
            f"at most {amount(sum(c.most_reply for _, c in estimates))} reply tokens"
        ]
    if plan.call_budget is not None and plan.call_budget < most:
        certainly = "is" if plan.call_budget < least else "may be"
        lines.append(f"--call-budget {plan.call_budget} {certainly} too small: the run would stop with questions owed")
    lines += [
        "basis: calls as the method counts them when every reply parses at first; prompt tokens = characters / 4 + pictures at "
        f"(width / {_PATCH}) x (height / {_PATCH}) at the resolution used, for the question alone: what agents quote of one another "
        f"comes on top; replies up to sampling.max_tokens each. Calls that the journal already holds are not taken off. At most {SAMPLE} "
        "evenly spaced questions are opened for the estimate. Nothing was asked.",
    ]
    return "\n".join(lines) + "\n"


def _between(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _job_lines(job: Job, counted: Estimate) -> list[str]:
    each = max(counted.questions, 1)
    a_question = _between(f"{counted.least_calls / each:.1f}", f"{counted.most_calls / each:.1f}")
    lines = [
        f"{job.title}: {counted.questions} questions",
        f"  calls          {_between(f'{counted.least_calls:,}', f'{counted.most_calls:,}')} ({a_question} a question)",
        f"  prompt tokens  about {_between(amount(counted.least_prompt), amount(counted.most_prompt))}",
        f"  reply tokens   at most {amount(counted.most_reply)} ({job.sampling.max_tokens} a call)",
    ]
    if counted.sampled < counted.questions:
        lines.append(f"  estimated from {counted.sampled} of them")
    if counted.unreadable:
        lines.append(f"  {counted.unreadable} of {counted.sampled} cannot be put (see the run's own messages) and would be owed")
    if job.method.uses_counterfactual:
        lines.append(f"  {counted.altered} of {counted.sampled} have a counterfactual picture")
    return lines

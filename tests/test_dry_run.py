"""The estimate of ``--dry-run``: how it counts, and that it says what it is based on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mug_eval.chat import ImageRef, Sampling
from mug_eval.cli.run import parser
from mug_eval.dry_run import SAMPLE, Estimate, dry_run, estimate, evenly, prompt_tokens
from mug_eval.errors import QuestionError
from mug_eval.plan import Job, Plan, make_plan
from mug_eval.question import AnswerFormat, Question


def picture(width: int, height: int) -> ImageRef:
    return ImageRef("00", "image/png", width, height, b"")


@dataclass
class Rows:
    """A benchmark of equal questions; every ``bad``-th cannot be put."""

    count: int
    bad: int = 0
    opened: list[str] = field(default_factory=list)

    @property
    def indices(self) -> tuple[str, ...]:
        return tuple(str(place) for place in range(self.count))

    def question(self, index: str) -> Question:
        self.opened.append(index)
        if self.bad and int(index) % self.bad == 0:
            raise QuestionError("no picture")
        return Question("POPE", index, (picture(280, 140), "x" * 200), AnswerFormat("yes_no"))


def plan(*argv: str) -> Plan:
    return make_plan(parser().read(["--data", "POPE", *argv]))


def job(model: str) -> Job:
    return plan("--model", model).jobs[0]


def test_tokens_are_characters_by_four_and_patches_of_28_pixels() -> None:
    assert prompt_tokens(("abcd" * 10,)) == 10
    assert prompt_tokens((picture(448, 336),)) == 16 * 12
    assert prompt_tokens((picture(1, 29), "a")) == 1 * 2 + 1


def test_calls_are_counted_by_the_method() -> None:
    three = replace(job("sc3-qwen"), sampling=Sampling(max_tokens=100))
    assert estimate(three, Rows(10)) == Estimate(
        questions=10,
        sampled=10,
        unreadable=0,
        altered=0,
        least_calls=30,
        most_calls=30,
        least_prompt=30 * 100,
        most_prompt=30 * 100,
        most_reply=30 * 100,
    )


def test_a_large_benchmark_is_sampled_evenly_and_scaled_up() -> None:
    rows = Rows(5000)
    counted = estimate(job("direct-qwen"), rows)
    assert (counted.questions, counted.sampled, counted.least_calls) == (5000, SAMPLE, 5000)
    assert rows.opened[:3] == ["0", "25", "50"]
    assert rows.opened[-1] == "4975"


def test_the_sample_never_repeats_a_question() -> None:
    for count in (0, 1, 199, 200, 201, 399, 1001):
        sample = evenly([str(place) for place in range(count)], 200)
        assert len(sample) == len(set(sample)) == min(count, 200)


def test_questions_that_cannot_be_put_cost_nothing_and_are_said() -> None:
    counted = estimate(job("direct-qwen"), Rows(100, bad=4))
    assert (counted.unreadable, counted.most_calls) == (25, 75)
    report = dry_run(plan("--model", "direct-qwen"), lambda job: Rows(100, bad=4))
    assert "25 of 100 cannot be put" in report


def test_no_question_at_all_is_no_division_by_zero() -> None:
    assert "0 questions" in dry_run(plan("--model", "mug-qwen"), lambda job: Rows(0))


def test_the_report_names_every_job_the_sum_and_its_basis() -> None:
    report = dry_run(plan("--model", "direct-qwen", "sc3-qwen"), lambda job: Rows(1000))
    assert "direct-qwen on POPE: 1000 questions" in report
    assert "calls          3,000 (3.0 a question)" in report
    assert "estimated from 200 of them" in report
    assert "all 2 jobs: 4,000 calls, about 400.0k prompt tokens, at most 8.19M reply tokens" in report
    assert "characters / 4" in report
    assert "28" in report
    assert "Nothing was asked." in report


def test_a_budget_that_cannot_suffice_is_said() -> None:
    def report(budget: int) -> str:
        return dry_run(plan("--model", "mug-qwen", "--call-budget", str(budget)), lambda job: Rows(10))

    counted = estimate(job("mug-qwen"), Rows(10))
    assert counted.least_calls < counted.most_calls
    assert "is too small" in report(counted.least_calls - 1)
    assert "may be too small" in report(counted.most_calls - 1)
    assert "too small" not in report(counted.most_calls)

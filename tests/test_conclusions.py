"""Conclusions against what is said around them: labels, conditions, retractions, formulas, lists of verdicts."""

from __future__ import annotations

import csv
import string
import sys
from pathlib import Path

import pytest

from mug_eval.answers import parse_answer
from mug_eval.question import Answer, AnswerFormat

SHARED = Path(__file__).resolve().parents[2] / "shared"


def options(*texts: str) -> AnswerFormat:
    return AnswerFormat("choice", tuple(zip("ABCD", texts, strict=True)))


def value(text: str, answer_format: AnswerFormat) -> str | None:
    answer = parse_answer(text, answer_format)
    return answer.value if isinstance(answer, Answer) else None


# A tuple holds all values that are right; None is Unparsed.
YES_NO_REPLIES: dict[str, str | tuple[str | None, ...] | None] = {
    "Answer: No (there is no dog)": "No",
    "No (see left)": "No",
    "**No** (only a cat is visible)": "No",
    "Answer: No [high confidence]": "No",
    "Answer: No with 90% confidence": "No",
    "Answer: No obviously": "No",
    "Answer: No ✓": "No",
    "Answer: No dog is visible": "No",
    "No dog is barking": None,
    "Answer: No\n\nNote: if the statue counts, then the answer is Yes.": "No",
    "Answer: No\n\nHad there been a dog, the correct answer would be Yes.": "No",
    "Answer: Yes\n\nWait, actually no, there is no dog.": ("No", None),
    "The answer is yes. On second thought, no.": ("No", None),
    "Yes. Wait, no.": ("No", None),
    "I said the answer is yes; I was wrong.": ("No", None),
    "The draft answer is Yes. It is wrong.": ("No", None),
    "The draft answer is No. It is wrong.": ("Yes", None),
    "The answer would be yes if there were a dog, but there is none, so no.": "No",
    "No, that is not correct... Actually, yes, there is a dog.": ("Yes", None),
    "There is no difference in the image.": None,
    "There is no dog in the image.": None,
    "Response: No": "No",
    "Decision: No": "No",
    "Final: No": "No",
    "Result: Yes": "Yes",
    "Judgement: Yes": "Yes",
    "My judgment is no.": "No",
    "The verdict is No.": "No",
    "Final answer No": "No",
    "I change my answer to No.": "No",
    "After all this, making the answer no": "No",
    "The answer is a clear no.": "No",
    "Answer: a definite yes": "Yes",
    "Answer: The image shows a dog, so yes.": "Yes",
    "It looks like a dog, but no.": "No",
    "Answer: No doubt, yes": "Yes",
    "Answer: No idea": None,
    "No, that is not correct.": "No",
    "No. That is not correct.": "No",
    "Answer: Yes\n\nSo the answer is no.": None,
    "Answer: Yes\nWait, let me check. Yes, a dog.": "Yes",
    "Answer: No. Wait, yes.": None,
    "Yes, wait, no": None,
    "Answer: Let me think.\n\nThere is a dog. The answer is yes.": "Yes",
    "Answer: Yes\nActually, the dog is large.": "Yes",
}
OPEN_REPLIES: dict[str, str | tuple[str | None, ...] | None] = {
    "Answer: 5\n\nThe answer is based on visible cups only.": "5",
    "Answer: 5\n(The answer is exact.)": "5",
    "Answer: 5\n\nIf the hidden cup is counted, the answer would be 6.": "5",
    "Answer: 5\nAnswer: 6": "6",
    "Answer: 5\n\nWait, the answer is 6.": (None, "6"),
    "\\boxed{\\sqrt{2}}": "\\sqrt{2}",
    "\\boxed{12\\text{ cm}^{2}}": "12 cm^{2}",
    "unknown": None,
    "N/A": None,
    "Not visible": None,
    "cannot be determined": None,
    "Answer: It cannot be determined from the image.": None,
    "no answer": None,
    "not given": None,
    "None": "None",
    "none": "none",
    "2**3": "2**3",
    "5 * 3": "5 * 3",
    "__init__": "__init__",
    "1. Paris": "Paris",
    "7, because there are seven cups": "7",
    "Answer: unknown": None,
    "**Paris**": "Paris",
    "__Paris__": "Paris",
    "Nairobi": "Nairobi",
    "Napa": "Napa",
    "Answer: Let me think.\n\nThe answer is 5.": "5",
    "The answer is 5 if we ignore one.": None,
}
CHOICES: list[tuple[tuple[str, ...], str, str | tuple[str | None, ...] | None]] = [
    (
        ("dog", "red bus", "dark red bus", "the blue car"),
        "Answer: B\n\nIf you meant the vehicle on the right, the answer would be A.",
        "B",
    ),
    (("dog", "red bus", "dark red bus", "the blue car"), "Answer: B\n\nMy answer is supported by the red bus being absent.", "B"),
    (("dog", "red bus", "dark red bus", "the blue car"), "Answer: B\n\nExplanation: The answer is derived from the tree.", "B"),
    (("dog", "red bus", "dark red bus", "the blue car"), "Answer: B\nAnswer: C", "C"),
    (("dog", "red bus", "dark red bus", "the blue car"), "Answer: B\n\nWait, actually it is C", (None, "C")),
    (("dog", "red bus", "dark red bus", "the blue car"), "A) Incorrect\nB) Incorrect\nC) Correct\nD) Incorrect", "C"),
    (("dog", "red bus", "dark red bus", "the blue car"), "A. Incorrect\nB. Correct\nC. Incorrect\nD. Incorrect", "B"),
    (
        ("dog", "red bus", "dark red bus", "the blue car"),
        "Option A: Incorrect\nOption B: Incorrect\nOption C: Correct\nOption D: Incorrect",
        "C",
    ),
    (("dog", "red bus", "dark red bus", "the blue car"), "I vote D", "D"),
    (("dog", "red bus", "dark red bus", "the blue car"), "My answer stays C.", "C"),
    (("dog", "red bus", "dark red bus", "the blue car"), "C because B is too long", "C"),
    (("dog", "red bus", "dark red bus", "the blue car"), "A is tempting, but B is better.", "B"),
    (("dog", "red bus", "dark red bus", "the blue car"), "If it were red, the answer would be A. But it is blue, so B.", "B"),
    (("dog", "red bus", "dark red bus", "the blue car"), "C is wrong and B is right.", "B"),
    (("dog", "red bus", "dark red bus", "the blue car"), "I disagree with B.", None),
    (("dog", "red bus", "dark red bus", "the blue car"), "It is false that the answer is B.", None),
    (("dog", "red bus", "dark red bus", "the blue car"), "Anything but B", None),
    (("dog", "red bus", "dark red bus", "the blue car"), "The answer is B if the view is from the left, else C", None),
    (("dog", "red bus", "dark red bus", "the blue car"), "Maybe D? Or C.", None),
    (("dog", "red bus", "dark red bus", "the blue car"), "The answer is B, no, C.", (None, "C")),
    (("dog", "red bus", "dark red bus", "the blue car"), "Answer: the object next to the red bus", None),
    (("dog", "red bus", "dark red bus", "the blue car"), "**A** ✗ **B** ✓ **C** ✗ **D** ✗", "B"),
    (("dog", "red bus", "dark red bus", "the blue car"), "The answer is B. It is wrong.", None),
    (("dog", "red bus", "dark red bus", "the blue car"), "I said the answer is B; I was wrong.", None),
    (("tree", "house", "car", "dog"), "The correct answer is:\nA. tree\nB. house\nC. car\nD. dog", None),
    (("tree", "house", "car", "dog"), "Answer: **A. tree**\n**B. house**", None),
    (("tree", "house", "car", "dog"), "The correct answer is:\nB. house", "B"),
    (("tree", "house", "car", "dog"), "The correct answer is: C\nA. tree\nB. house\nC. car\nD. dog", "C"),
    (("tree", "house", "car", "dog"), "Answer: B. house\nC. car is parked behind it.", "B"),
    (("tree", "house", "car", "dog"), "Answer: next to the tree", None),
    (("tree", "house", "car", "dog"), "Answer: tree", "A"),
    (("One", "Two", "Three", "Four"), "The first one is red, the second one is blue.", None),
    (("One", "Two", "Three", "Four"), "There is one.", "A"),
    (("One", "Two", "Three", "Four"), "Answer: One", "A"),
    (("1", "3", "2", "$\\sqrt{2}$"), "The answer is $\\sqrt{2}$", "D"),
    (("1", "3", "2", "$\\sqrt{2}$"), "The answer is $x^{2}$", None),
    (("1", "3", "2", "$\\sqrt{2}$"), "1/2", None),
    (("1", "3", "2", "$\\sqrt{2}$"), "Answer: $\\frac{1}{2}$", None),
    (("1", "3", "2", "$\\sqrt{2}$"), "Answer: √2", "D"),
    (("1", "3", "2", "$\\sqrt{2}$"), "2", "C"),
    (("1", "3", "2", "$\\sqrt{2}$"), "negative 1", None),
    (("1", "3", "2", "$\\sqrt{2}$"), "Answer: negative 1", None),
    (("1", "3", "2", "$\\sqrt{2}$"), "- 1", None),
    (("1", "3", "2", "sqrt2"), "The answer is $\\sqrt{2}$", "D"),
    (("√3", "√3/2", "3", "2√3"), "The answer is $\\sqrt{3}$.", "A"),
    (("√3", "√3/2", "3", "2√3"), "Answer: $\\frac{\\sqrt{3}}{2}$", "B"),
    (("√3", "√3/2", "3", "2√3"), "2\\sqrt{3}", "D"),
    (("4", "5", "2", "7"), "4\\pi", None),
    (("4", "5", "2", "7"), "Answer: $4\\pi$", None),
    (("4", "5", "2", "7"), "minus 5", None),
    (("4", "5", "2", "7"), "- 5", None),
    (("4", "5", "2", "7"), "Answer: minus 5", None),
    (("4", "5", "2", "7"), "Answer: - 5", None),
    (("4", "5", "2", "7"), "Answer: -5", None),
    (("4", "5", "2", "7"), "The answer is minus 5.", None),
    (("4", "5", "2", "7"), "The result is x^{2}", None),
    (("4", "5", "2", "7"), "5", "B"),
    (("4", "5", "2", "7"), "(5)", "B"),
    (("4", "5", "2", "7"), "There are 5 dogs", "B"),
    (("α", "β", "$\\gamma$", "$\\delta$"), "Answer: $\\beta$", "B"),
    (("α", "β", "$\\gamma$", "$\\delta$"), "\\boxed{\\gamma}", "C"),
    (("α", "β", "$\\gamma$", "$\\delta$"), "$\\delta$", "D"),
    (("α", "β", "$\\gamma$", "$\\delta$"), "Answer: α", "A"),
    (("e", "$\\pi$", "2π", "1"), "$\\pi$", "B"),
    (("e", "$\\pi$", "2π", "1"), "Answer: $2\\pi$", "C"),
]


def one_of(right: str | tuple[str | None, ...] | None) -> tuple[str | None, ...]:
    return right if isinstance(right, tuple) else (right,)


@pytest.mark.parametrize(("text", "right"), YES_NO_REPLIES.items())
def test_yes_or_no_is_what_the_reply_concludes(text: str, right: str | tuple[str | None, ...] | None) -> None:
    assert value(text, AnswerFormat("yes_no")) in one_of(right)


@pytest.mark.parametrize(("text", "right"), OPEN_REPLIES.items())
def test_an_open_answer_is_what_the_reply_concludes(text: str, right: str | tuple[str | None, ...] | None) -> None:
    assert value(text, AnswerFormat("open")) in one_of(right)


@pytest.mark.parametrize(("texts", "text", "right"), CHOICES)
def test_an_option_is_what_the_reply_concludes(
    texts: tuple[str, ...], text: str, right: str | tuple[str | None, ...] | None
) -> None:
    assert value(text, options(*texts)) in one_of(right)


TEMPLATES = [
    *(
        "{}",
        "{}.",
        "{} (see left)",
        "**{}** (seen)",
        "{} [high confidence]",
        "{} with 90% confidence",
        "{} obviously",
        "{} ✓",
        "{}/",
        "{}: so",
    ),
    *(
        "Answer: {}",
        "Answer: {} (seen)",
        "Answer: {} [sure]",
        "Answer: {} with 90% confidence",
        "Answer: {} obviously",
        "Answer: {} ✓",
    ),
    *(
        "Answer: {} dog",
        "Response: {}",
        "Final: {}",
        "Final answer {}",
        "My judgment is {}.",
        "The verdict is {}.",
        "The answer is a clear {}.",
    ),
    *(
        "I change my answer to {}.",
        "Answer: It shows a dog, so {}.",
        "It looks like a dog, but {}.",
        "The answer is {} if it is a dog.",
    ),
    *(
        "The draft answer is {}. It is wrong.",
        "I said the answer is {}; I was wrong.",
        "{}, I think",
        "{} indeed",
        "{}-",
        "{} - sure",
        "Agent 1 says {}",
    ),
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_yes_and_no_are_read_alike(template: str) -> None:
    yes, no = (value(template.format(word), AnswerFormat("yes_no")) for word in ("Yes", "No"))
    assert (yes == "Yes") == (no == "No")
    assert yes != "No" and no != "Yes"


FRAMES = [
    *(
        "{}",
        "({})",
        "**{}**",
        "{}.",
        "{})",
        "Answer: {}",
        "**Answer:** {}",
        "Answer: ({})",
        "Final answer: {}",
        "The answer is {}.",
        "\\boxed{{{}}}",
    ),
    *(
        "<answer>{}</answer>",
        '{{"answer": "{}"}}',
        "Words.\n\n{}",
        "Option {}",
        "I choose {}.",
        "I vote {}",
        "My answer stays {}.",
        "So {}.",
    ),
    *(
        "Answer: {}\n\nExplanation: the answer is derived from the picture.",
        "Answer: {}, since it fits.",
        "It must be {}.",
        "I think it is {}.",
    ),
    *(
        "Answer: {} ✓",
        "Answer: {} (sure)",
        "The correct option is {}.",
        "Answer\n{}",
        "### Final Answer\n{}",
        "{} is correct.",
        "My vote goes to {}.",
    ),
]


@pytest.mark.parametrize("name", ["photo_mmstar.tsv", "photo_mmmu.tsv"])
def test_no_frame_around_a_letter_gives_another_letter_with_real_options(name: str) -> None:
    if not (SHARED / "data" / name).exists():
        pytest.skip(f"no shared/data/{name} beside the repository")
    csv.field_size_limit(sys.maxsize)
    with (SHARED / "data" / name).open(encoding="utf-8") as lines:
        rows = [[row.get(letter) or "" for letter in string.ascii_uppercase[:10]] for row in csv.DictReader(lines, delimiter="\t")]
    wrong = []
    for row in rows[:60]:
        answer_format = AnswerFormat(
            "choice", tuple((letter, text) for letter, text in zip("ABCDEFGHIJ", row, strict=True) if text)
        )
        for letter in answer_format.candidates:
            wrong += [(frame, letter) for frame in FRAMES if value(frame.format(letter), answer_format) not in (letter, None)]
            assert value(f"Answer: {letter}", answer_format) == letter
    assert len(FRAMES) == 30 and not wrong

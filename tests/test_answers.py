"""What a reply's words mean: right readings, and refusals to guess."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mug_eval.answers import parse_answer, plurality, same
from mug_eval.question import Answer, AnswerFormat, Unparsed

BUS = AnswerFormat("choice", (("A", "dog"), ("B", "red bus"), ("C", "dark red bus"), ("D", "the blue car")))
NUMBERS = AnswerFormat("choice", (("A", "3"), ("B", "13"), ("C", "3.5"), ("D", "-3")))
FAR = AnswerFormat("choice", (("A", "ant"), ("E", "eel"), ("I", "ibis"), ("K", "kiwi"), ("Z", "zebra")))
BOTH = AnswerFormat("choice", (("A", "Fig. 1"), ("B", "Fig. 2"), ("C", "Both A and B"), ("D", "None of the above")))
WORDED = AnswerFormat("choice", (("A", "Yes"), ("B", "No")))
THREE = AnswerFormat("choice", (("A", "Yes"), ("B", "No"), ("C", "Cannot be determined")))
ANIMALS = AnswerFormat("choice", (("A", "dog"), ("B", "cat"), ("C", "bird")))
PLACES = AnswerFormat("choice", (("A", "left"), ("B", "right")))
YES_NO = AnswerFormat("yes_no")
OPEN = AnswerFormat("open")


def value(text: str, answer_format: AnswerFormat) -> str | None:
    answer = parse_answer(text, answer_format)
    return answer.value if isinstance(answer, Answer) else None


EXPLICIT_CHOICES = [
    ("B", "B"),
    ("b", "B"),
    (" B \n", "B"),
    ("(B)", "B"),
    ("[B]", "B"),
    ("B.", "B"),
    ("B)", "B"),
    ("B:", "B"),
    ('"B"', "B"),
    ("'B'.", "B"),
    ("**B**", "B"),
    ("**B.**", "B"),
    ("*B*", "B"),
    ("__B__", "B"),
    ("`B`", "B"),
    ("### B", "B"),
    ("> B", "B"),
    ("- B", "B"),
    ("$B$", "B"),
    ("$$B$$", "B"),
    ("\\(B\\)", "B"),
    ("\\[ B \\]", "B"),
    ("$\\text{B}$", "B"),
    ("\\boxed{B}", "B"),
    ("$\\boxed{B}$", "B"),
    ("\\boxed{\\text{B}}", "B"),
    ("\\boxed{\\mathrm{\\textbf{B}}}", "B"),
    ("\\boxed{(B)}", "B"),
    ("\\boxed{B. red bus}", "B"),
    ("\\boxed{red bus}", "B"),
    ("Therefore the final answer is $\\boxed{B}$.", "B"),
    ("<|begin_of_box|>B<|end_of_box|>", "B"),
    ("<answer>B</answer>", "B"),
    ("<answer> (B) red bus </answer>", "B"),
    ("<answer>\nB\n</answer>", "B"),
    ("<ANSWER>B</ANSWER>", "B"),
    ("<final_answer>B</final_answer>", "B"),
    ("<answer>B", "B"),
    ("<answer>Answer: B</answer>", "B"),
    ("Look: <answer>B</answer> since A is a dog.", "B"),
    ('{"answer": "B"}', "B"),
    ("{'answer': 'B'}", "B"),
    ('{"Answer": "(B) red bus"}', "B"),
    ('{"reason": "The answer is C at first sight", "answer": "B"}', "B"),
    ('{"answer": "B", "reason": "not A, and the answer is not C"}', "B"),
    ('```json\n{"answer": "B"}\n```', "B"),
    ('I looked at it. {"final_answer": "B", "confidence": 0.8}', "B"),
    ('{"answer": "B", "confidence": 0.', "B"),
    ("Answer: B", "B"),
    ("answer: b", "B"),
    ("ANSWER: B", "B"),
    ("Answer:B", "B"),
    ("Answer : B", "B"),
    ("Answer = B", "B"),
    ("Answer -> B", "B"),
    ("Answer - B", "B"),
    ("Answer — B", "B"),
    ("Answer B", "B"),
    ("Answer (B)", "B"),
    ("Answer\nB", "B"),
    ("### Final Answer\n\n**B**", "B"),
    ("**Answer:** B", "B"),
    ("**Answer:** (B)", "B"),
    ("**Answer: B**", "B"),
    ("**Answer**: **B**", "B"),
    ("*Answer:* _B_", "B"),
    ("Answer: **B) red bus**", "B"),
    ("Answer: B.", "B"),
    ("Answer: B!", "B"),
    ("Answer: (B) red bus", "B"),
    ("Answer: B. red bus", "B"),
    ("Answer: B: red bus", "B"),
    ("Answer: B - red bus", "B"),
    ("Answer: Option B", "B"),
    ("Answer: option (B)", "B"),
    ("Answer: The letter B", "B"),
    ("Answer: [B]", "B"),
    ("Answer: {B}", "B"),
    ('Answer: "B"', "B"),
    ("Answer: $B$", "B"),
    ("Answer: \\boxed{B}", "B"),
    ("Answer: B, since the bus is red.", "B"),
    ("Answer: B because A is a dog", "B"),
    ("Answer: B (not A)", "B"),
    ("Answer: B, not A", "B"),
    ("Answer: B rather than C", "B"),
    ("Answer: B, A is a dog and nothing else.", "B"),
    ("Answer: red bus", "B"),
    ("Answer: Red Bus.", "B"),
    ("Answer: the red bus", "B"),
    ("Answer: a red bus", "B"),
    ("Answer: A red bus", "B"),
    ("Answer: A dog", "A"),
    ("Answer: A", "A"),
    ("Answer: A.", "A"),
    ("Answer: A because it barks", "A"),
    ("Answer: A, it barks", "A"),
    ("Answer: blue car", "D"),
    ("Answer: The blue car", "D"),
    ("Answer: dark red bus", "C"),
    ("Answer: It is the dark red bus", "C"),
    ("Final answer: B.", "B"),
    ("FINAL ANSWER: (B)", "B"),
    ("My final answer: B", "B"),
    ("The final answer is B", "B"),
    ("The answer is B", "B"),
    ("The answer is B.", "B"),
    ("The answer is: B", "B"),
    ("The answer is (B).", "B"),
    ("The answer is **B**.", "B"),
    ("The answer is option B.", "B"),
    ("the answer is therefore B", "B"),
    ("So the answer must be B.", "B"),
    ("The answer to the question is B.", "B"),
    ("The correct answer among the given options is (B) red bus.", "B"),
    ("the correct option is (C)", "C"),
    ("The best choice is C.", "C"),
    ("My answer remains C.", "C"),
    ("The answer is a dog.", "A"),
    ("The answer is the red bus.", "B"),
    ("The answer would be B", "B"),
    ("The correct answer is B, not A.", "B"),
    ("The answer is not A but B.", "B"),
    ("I agree with Agent 1, the answer is B.", "B"),
    ("Agent 2's answer is A, but my answer is B.", "B"),
    ("Agent 1 and I agree that the answer is B.", "B"),
    ("The answer is A? No. Answer: B", "B"),
    ("Answer: A\nWait, I have to look again.\nAnswer: B", "B"),
    ("The answer is A. On a second look the answer is B.", "B"),
    ("A. dog\nB. red bus\nC. dark red bus\nD. the blue car\nAnswer: B", "B"),
    ("A: no\nB: yes\nC: no\n\nB", "B"),
    ("B\n\nExplanation: the bus is red.", "B"),
    ("The bus is large and red.\n\nB", "B"),
    ("The bus is large and red.\n(B)", "B"),
    ("B) red bus", "B"),
    ("B. red bus", "B"),
    ("B. Red bus.", "B"),
    ("B: red bus", "B"),
    ("(B) red bus", "B"),
    ("B - red bus", "B"),
    ("B, the red bus", "B"),
    ("B red bus", "B"),
    ("B. It is a bus, and it is red.", "B"),
    ("A. dog", "A"),
    ("A) dog", "A"),
    ("Option B", "B"),
    ("option b", "B"),
    ("Option B.", "B"),
    ("Choice (B)", "B"),
    ("答案：B", "B"),
    ("答案是B。", "B"),
    ("Ｂ", "B"),
    ("Ａｎｓｗｅｒ：Ｂ", "B"),
    ("（Ｂ）", "B"),
    ("Ⓑ", "B"),
    ("\u200bB\u200b", "B"),
    ("\ufeffAnswer:\u00a0B", "B"),
    ("Answer: B\r\n", "B"),
    ("Reasons.\r\n\r\nAnswer:\r\nB\r\n", "B"),
    ("An\x00swer: B\x00", "B"),
    ("Answer: B<|im_end|>", "B"),
    ("Answer: B</s>", "B"),
    ("<think>It may be A.</think>B", "B"),
    ("<think>Answer: A</think>Answer: B", "B"),
    ("Answer: A</think>Answer: B", "B"),
    ("<thinking>A, surely</thinking>\n\nThe answer is B.", "B"),
    ("<reasoning>Answer: A</reasoning> B", "B"),
    ("<think>I open <think> again</think> and Answer: A</think> Answer: B", "B"),
    ("B<think>or rather Answer: C", "B"),
    ("Based on the image, the correct answer is:\n\n**B. red bus**", "B"),
    ("Therefore, option B is the most appropriate answer.", "B"),
    ("The answer is B, as the bus is red. Option A is incorrect because there's no dog. Option C is not right either.", "B"),
    ("**Reasoning:** It is red.\n**Answer:** B\n**Confidence:** 0.9", "B"),
    ("Step 1: look.\nStep 2: think.\nFinal Answer: The final answer is $\\boxed{B}$. I hope it is correct.", "B"),
    (
        "Look:\nA. dog - no.\nB. red bus - yes.\nC. dark red bus - not dark.\nD. the blue car - no.\n\nSo B is the answer.",
        "B",
    ),
    ("B\nB\nB", "B"),
    ("Answer: B\n\nAnswer: B", "B"),
    ("Answer: (B)red bus", "B"),
    ("Answer:B.red bus", "B"),
    ("B.red bus", "B"),
    ("选B", "B"),
    ("正确答案是：B", "B"),
    ("The correct choice is therefore **(B)**.", "B"),
    ("Agent 3: I maintain that the answer is B.", "B"),
    ("I agree with Agent 2 that the answer is B.", "B"),
    ("My vote goes to B.", "B"),
    ("My best guess is B.", "B"),
    ("Answer: B (red bus)", "B"),
    ("Answer: B, red bus", "B"),
    ("Answer: B, A dog is not visible.", "B"),
    ("Answer (letter only): B", "B"),
    ("Answer [A-D]: B", "B"),
    ("Answer: B\nReason: A is a dog, so A is not correct.", "B"),
    ("The answer is B because it is red, whereas C would be correct only if it were dark.", "B"),
    ("The answer is definitely not A; it's B.", "B"),
    ("Final answer: **B** \u2705", "B"),
    ("answer is b", "B"),
    ("A is the answer.", "A"),
    ("Answer: B.\nAgent 2's answer is C.", "B"),
    ("The correct answer is not explicitly given, but based on the image, B.", "B"),
    ("Agent 1: Answer: A\nAgent 2: Answer: C\nMy answer: B", "B"),
    ("[[B]]", "B"),
    ("Answer: [[B]]", "B"),
    ("The answer is $\\mathbf{B}$", "B"),
    ("{answer: B}", "B"),
    ("answer=B", "B"),
    ("The answer (B) is correct.", "B"),
    ("B. The red bus is on the left, while the blue car is on the right.", "B"),
    ("Answer: B\nThe dog is one of many and is left of it; the blue car is to the right.", "B"),
    ("Answer: B\nWait, let me check. A is a dog. Yes, B is right.", "B"),
    ("Although Agent 1 argues for A, the evidence points to B.", "B"),
    ("Final answer: B\nVote: Agent A", "B"),
    ("Correct: B", "B"),
    ("Answer :- B", "B"),
    ("the answer, I think, is B", "B"),
]

LOOSE_CHOICES = [
    ("red bus", "B"),
    ("Red bus.", "B"),
    ("dark red bus", "C"),
    ("A red bus", "B"),
    ("It is a dark red bus.", "C"),
    ("I see the blue car in the middle.", "D"),
    ("It shows a red bus, not a dog.", "B"),
    ("There is no dog. It is a red bus.", "B"),
    ("not red bus but dark red bus", "C"),
    ("B is wrong, so C", "C"),
    ("B is wrong, so C.", "C"),
    ("B is incorrect. C is correct.", "C"),
    ("not A or B but C", "C"),
    ("Not A, B, or D, but C.", "C"),
    ("Neither A nor B, but C.", "C"),
    ("It is not B, it is C.", "C"),
    ("It isn't B but C", "C"),
    ("It can't be A or B. So C.", "C"),
    ("A, B and C are wrong.", "D"),
    ("A is wrong. B is wrong. C is wrong.", "D"),
    ("It is neither A, B nor D", "C"),
    ("A and B can be ruled out, leaving C.", "C"),
    ("We eliminate A, B and D.", "C"),
    ("I would choose B.", "B"),
    ("I choose B", "B"),
    ("I'd go with (C).", "C"),
    ("I'll go with C, since the bus is dark.", "C"),
    ("I pick C over B.", "C"),
    ("I vote for C.", "C"),
    ("I think it is B.", "B"),
    ("I think B.", "B"),
    ("Probably B", "B"),
    ("So B.", "B"),
    ("Therefore, B.", "B"),
    ("It's B", "B"),
    ("It must be B!", "B"),
    ("B is correct.", "B"),
    ("B is the correct answer.", "B"),
    ("Option B is the best answer.", "B"),
    ("(B) seems to be right", "B"),
    ("B is the answer", "B"),
    ("Option B is correct because option A shows a dog.", "B"),
    ("Option A shows a dog. Option B is correct.", "B"),
    ("The bus in A is brown, the bus in B is black, so B", "B"),
    ("B instead of A", "B"),
    ("B, not C", "B"),
    ("B rather than C", "B"),
    ("Is it A? No. It is B.", "B"),
    ("Is it B or C? C.", "C"),
    ("Agent 1 says A. I choose B.", "B"),
    ("Unlike A, B fits best.", "B"),
    ("A is a letter of the alphabet, and so is B, but I choose C.", "C"),
    ("It could be either B or C, but I lean towards B.", "B"),
    ("It's either A or B. I'd say B.", "B"),
    ("I'm going with B", "B"),
    ("I'm confident that B is correct", "B"),
    ("I am not convinced that A is correct. I support B.", "B"),
    ("The image does not show a dog (A) or the blue car (D). It shows a red bus (B).", "B"),
    ("Options A and C can be excluded. Between B and D, B is the better match.", "B"),
    ("Since it is red, B.", "B"),
    ("The image matches option B.", "B"),
    ("B seems most plausible.", "B"),
    ("Most likely B", "B"),
    ("The answer isn't A, it's C", "C"),
    ("A dog is visible; answer A.", "A"),
    ("I said A before, but now I choose B.", "B"),
    ("I disagree with Agent 2, who chose A. B is right.", "B"),
]

NO_CHOICE = [
    "",
    "   \n",
    "\u200b",
    "...",
    "A blue one",
    "A bus stands in the street.",
    "I think so.",
    "I am not sure.",
    "It is not B",
    "It is not B.",
    "B is wrong.",
    "Not A or B",
    "The answer is not B.",
    "Answer: not B",
    "The answer isn't B.",
    "Answer: B or C",
    "Answer: B/C",
    "Answer: A, B",
    "Answer: A and C",
    "Answer: either B or C",
    "Answer: (B) or (C)",
    "Answer: A, B, C, or D",
    "Answer: E",
    "Answer: (E)",
    "The answer is E.",
    "\\boxed{E}",
    '{"answer": "E"}',
    "Answer:",
    "Answer: ",
    "Answer: <letter>",
    "Answer: I cannot tell",
    "Answer: none of them",
    "Answer: a blue one",
    "Answer: A blue one",
    "Answer: unknown",
    "{}",
    '{"answer": null}',
    '{"answer": ["B", "C"]}',
    "B or C",
    "B and C",
    "Both B and C are correct.",
    "Either B or C",
    "B, C",
    "A red bus and a dog",
    "A shows a dog, B shows a bus.",
    "A\nB\nC\nD",
    "A. dog\nB. red bus\nC. dark red bus\nD. the blue car",
    "Is it B?",
    "Could it be B?",
    "Agent 2 says the answer is B.",
    "Agent 1 chose B.",
    "If the answer is B, the bus must be red.",
    "The answer could be B.",
    "Answer: B\nI choose C.",
    "Answer: B. Wait, C is correct.",
    "B is correct. B is not correct.",
    "The wrong answer is B.",
    "The bus needs vitamin C and plan B.",
    "The USB C plug lies beside tree B.",
    "<think>The answer is B.</think>",
    "<think>The answer is B.",
    "The answer is B.</think>",
    "blue",
    "bus",
    "redbus",
    "dog-house",
    "None",
    "nan",
    "=1+1",
    "The options are A, B, C and D.",
    "I do not agree with Agent 2 that the answer is B.",
    "I disagree with Agent 2 that the answer is B.",
    "I am not convinced that B is correct.",
    "There is no red bus in the image.",
    "As an AI language model, I cannot see images.",
    "I cannot determine it; the options include A) dog, B) red bus.",
    "A. dog - not visible.\nB. red bus - visible.\nC. dark red bus - not dark.\nD. the blue car - no.",
    "B would be correct if the bus were red.",
    "It is not A, B.",
    "Agent 1: B\nAgent 2: C",
    "B? C? D?",
    "Answer: B? C?",
    "1. B\n2. C",
    "(A) dog (B) red bus",
    "Answer: (A) dog (B) red bus",
    "Answer: B. Actually, no, C.",
    "Answer: B\nWait, it is C.",
    "The answer is B? I am not sure.",
    "I'm torn between B and C.",
    "Answer: AB",
    "Answer: bus",
]

OTHER_CHOICES = [
    ("13", NUMBERS, "B"),
    ("3", NUMBERS, "A"),
    ("3.", NUMBERS, "A"),
    ("3.5", NUMBERS, "C"),
    ("-3", NUMBERS, "D"),
    ("Answer: 13", NUMBERS, "B"),
    ("There are 3 dogs.", NUMBERS, "A"),
    ("There are 13 dogs.", NUMBERS, "B"),
    ("There are 33 dogs.", NUMBERS, None),
    ("It weighs 3.5 kg", NUMBERS, "C"),
    ("3,500", NUMBERS, None),
    ("Answer: Z", FAR, "Z"),
    ("Z", FAR, "Z"),
    ("(K)", FAR, "K"),
    ("The answer is I.", FAR, "I"),
    ("I", FAR, "I"),
    ("I choose K.", FAR, "K"),
    ("I think it is E.", FAR, "E"),
    ("I think that a kiwi is seen.", FAR, "K"),
    ("I am not sure", FAR, None),
    ("I'm lost", FAR, None),
    ("I do not know", FAR, None),
    ("B", FAR, None),
    ("Answer: B", FAR, None),
    ("Answer: I think it is K", FAR, "K"),
    ("Answer: C", BOTH, "C"),
    ("Both A and B", BOTH, "C"),
    ("Answer: both A and B", BOTH, "C"),
    ("Answer: None of the above", BOTH, "D"),
    ("The answer is none of the above.", BOTH, "D"),
    ("Answer: Fig. 2", BOTH, "B"),
    ("A and B", BOTH, None),
    ("Yes", WORDED, "A"),
    ("No.", WORDED, "B"),
    ("Answer: Yes", WORDED, "A"),
    ("Yes, there is no doubt.", WORDED, "A"),
    ("No, yes is wrong.", WORDED, "B"),
    ("B. No", WORDED, "B"),
    ("A", WORDED, "A"),
    ("yes and no", WORDED, None),
    ("I choose B.", WORDED, "B"),
    ("Answer: Yes, there is no doubt.", WORDED, "A"),
    ("Answer: Yes and no", WORDED, None),
    ("No idea.", WORDED, None),
    ("Yes, there is no doubt.", THREE, "A"),
    ("There is no way to tell, so it cannot be determined.", THREE, "C"),
    ("Cannot be determined", THREE, "C"),
    ("No idea.", THREE, None),
    ("True.", AnswerFormat("choice", (("A", "True"), ("B", "False"))), "A"),
    ("The statement is false.", AnswerFormat("choice", (("A", "True"), ("B", "False"))), "B"),
    ("There is no dog and no cat.", ANIMALS, None),
    ("A man leans over the dog and over the cat.", ANIMALS, None),
    ("It is neither A nor B.", ANIMALS, "C"),
    ("I see a cat, but a dog is there too.", ANIMALS, None),
    ("It is small, so the dog stands behind the cat.", ANIMALS, None),
    ("It barks, so it is the dog and no cat.", ANIMALS, "A"),
    ("a bird, not a cat", ANIMALS, "C"),
    ("B and not C", ANIMALS, "B"),
    ("It is the bird and neither the dog nor the cat.", ANIMALS, "C"),
    ("A can of soup", ANIMALS, None),
    ("A over B", ANIMALS, "A"),
    ("It is on the left.", PLACES, "A"),
    ("It is not on the left.", PLACES, None),
    ("left or right", PLACES, None),
    ("right", PLACES, "B"),
    ("a red bus", AnswerFormat("choice", (("A", "a red bus"), ("B", "red bus"))), None),
    ("B", AnswerFormat("choice", (("A", "same"), ("B", "same"))), "B"),
    ("same", AnswerFormat("choice", (("A", "same"), ("B", "same"))), None),
    ("Answer: None", AnswerFormat("choice", (("A", "None"), ("B", "One"))), "A"),
    ("B", AnswerFormat("choice", (("A", "None"), ("B", ""))), "B"),
    ("x = 2", AnswerFormat("choice", (("A", "$x = 2$"), ("B", "$x = 3$"))), "A"),
    ("Answer: \\frac{1}{2}", AnswerFormat("choice", (("A", "$\\frac{1}{2}$"), ("B", "$\\frac{1}{3}$"))), "A"),
]


@pytest.mark.parametrize(("text", "letter"), EXPLICIT_CHOICES + LOOSE_CHOICES)
def test_reads_the_option_that_is_meant(text: str, letter: str) -> None:
    assert value(text, BUS) == letter


@pytest.mark.parametrize("text", NO_CHOICE)
def test_takes_no_option_where_none_or_several_can_be_meant(text: str) -> None:
    answer = parse_answer(text, BUS)
    assert isinstance(answer, Unparsed)
    assert answer.reason


@pytest.mark.parametrize(("text", "answer_format", "letter"), OTHER_CHOICES)
def test_reads_the_option_whatever_the_letters_and_texts(text: str, answer_format: AnswerFormat, letter: str | None) -> None:
    assert value(text, answer_format) == letter


YES = [
    "Yes",
    "yes",
    "YES",
    "Yes.",
    "Yes:",
    "Yes!",
    "Yes,",
    "**Yes**",
    "**Yes.**",
    "'Yes'",
    "(Yes)",
    "$\\text{Yes}$",
    "\\boxed{Yes}",
    "<answer>Yes</answer>",
    "<answer>yes",
    '{"answer": "Yes"}',
    '{"answer": true}',
    "{'answer': 'yes'}",
    "Answer: Yes",
    "Answer:Yes",
    "**Answer:** Yes",
    "Answer: yes, there is a dog",
    "Answer: True",
    "The answer is yes.",
    "The answer is Yes, there is no other dog.",
    "Final answer: Yes",
    "Final Answer\nYes",
    "Yes, there is no doubt",
    "Yes, there is a dog in the image.",
    "Yes there is.",
    "Yes, it is not a cat but a dog.",
    "Yes - a dog.",
    "Yes because a dog is seen.",
    "Yes, no is wrong.",
    "Yes. There is no cat, though.",
    "Yeah",
    "Yep, it is.",
    "True",
    "True.",
    "The statement is true.",
    "So yes.",
    "Therefore, yes.",
    "I would say yes.",
    "I think yes",
    "I'd say yes, it is.",
    "Definitely yes",
    "I see a dog near the door.\nYes",
    "I see no cat.\n\nYes.",
    "Let me look. There is a dog. So yes, it is there.",
    "<think>No, no.</think>Yes",
    "是",
    "是的。",
    "Ｙｅｓ",
    "\u200bYes\u200b",
    "Yes\r\n",
    "Yes\x00",
    "Answer: No\nI was wrong, I look again.\nAnswer: Yes",
    "Is there a dog? Yes.",
    "It is a yes.",
    "Yes a dog is there.",
    "Yes and there is no doubt.",
    "Yes, and no cat is visible.",
    "Based on the image, yes, there is a dog.",
    "A: Yes",
    "Answer (Yes or No): Yes",
    "Yes\n\nExplanation: No other animals are there. No cat.",
    "yes yes",
    "Answer: Yes.\nThere is a cat, no.",
    "The answer is: Yes",
    "Yes, the statement is true.",
]

NO = [
    "No",
    "no",
    "NO.",
    "No,",
    "**No**",
    "No:",
    "Answer:No",
    "Answer: No, there is not.",
    "Answer: no",
    "**Answer: No**",
    "The answer is no.",
    "the answer is no because there is nothing",
    "\\boxed{No}",
    "<answer>No</answer>",
    '{"answer": "No"}',
    '{"answer": false}',
    "No, yes is wrong",
    "No, there is no dog in the image.",
    "No, there isn't.",
    "No. There is none.",
    "No there is not",
    "No, I cannot see one.",
    "Nope",
    "False",
    "False.",
    "The statement is false.",
    "The statement is not true.",
    "So no.",
    "Therefore the answer is no.",
    "I would say no.",
    "I see a cat.\nNo",
    "否",
    "不是",
    "Final answer: no.",
    "Answer: Yes\nOn a second look:\nAnswer: No",
    "Based on the image, no, there is no dog.",
    "Looking at the picture, no.",
    "A: No",
    "Answer (Yes or No): No",
    "No, the statement is false.",
    "No, not yes.",
]

NEITHER = [
    "There is no dog in the image.",
    "There are no dogs visible in the picture.",
    "There isn't a dog in this photo.",
    "I see no dog in the image.",
    "There's no dog in the image.",
    "I don't see any dog in the image.",
    "No dog is visible in the image.",
    "",
    "\n",
    "yes and no",
    "Yes and no.",
    "Yes or no",
    "Yes/No",
    "yes, and no",
    "No and yes",
    "Answer: Yes or No",
    "Answer: Yes/No",
    "Answer: <Yes or No>",
    "Answer:",
    "Answer: I cannot tell",
    "Answer: maybe",
    "I cannot tell",
    "I can't tell.",
    "I don't know",
    "Not sure.",
    "Maybe.",
    "No idea",
    "No doubt.",
    "No one knows.",
    "There is no way to tell.",
    "There is no way to tell from the image.",
    "There is no information about that in the image.",
    "There is no doubt about it.",
    "Is there no dog in the image?",
    "Is there a dog? There is no dog in the image. Is there a cat? There is a cat.",
    "There is no dog in the image, but there is a cat, which the question may mean.",
    "A dog is lying on the couch.",
    "Yes. Wait. No.",
    "Yes. No.",
    "Is there a cat? No. Is there a dog? Yes.",
    "Answer yes or no.",
    "nothing",
    "know",
    "Yesterday",
    "Norway",
    "Trueness",
    "<think>Yes</think>",
    "<think>Yes",
    "B",
    "{}",
    '{"answer": "unclear"}',
    "Agent 1 says the answer is yes.",
    "If the answer is yes, there must be a dog.",
    "Yes, but no.",
    "Yes No",
    "Yes\nNo",
    "No, the statement is true.",
    "There is a cat, yes, but no dog.",
    "It is no dog.",
    "No dog is visible in the image, but a cat is.",
    "No more than that can be said.",
]


@pytest.mark.parametrize("text", YES)
def test_reads_yes(text: str) -> None:
    assert parse_answer(text, YES_NO) == Answer("Yes")


@pytest.mark.parametrize("text", NO)
def test_reads_no(text: str) -> None:
    assert parse_answer(text, YES_NO) == Answer("No")


@pytest.mark.parametrize("text", NEITHER)
def test_takes_neither_yes_nor_no_where_it_is_not_said(text: str) -> None:
    assert isinstance(parse_answer(text, YES_NO), Unparsed)


OPEN_ANSWERS = [
    ("42", "42"),
    ("42.", "42"),
    ("3.5", "3.5"),
    ("-7", "-7"),
    ("$5", "$5"),
    ("50%", "50%"),
    ("a red bus", "a red bus"),
    ("The Eiffel Tower.", "The Eiffel Tower"),
    ("**42**", "42"),
    ("`42`", "42"),
    ('"42"', "42"),
    ("$42$", "42"),
    ("\\boxed{42}", "42"),
    ("$\\boxed{\\frac{1}{2}}$", "1/2"),
    ("The sum is \\boxed{42}.", "42"),
    ("<answer>42</answer>", "42"),
    ('{"answer": 42}', "42"),
    ('{"answer": "42 cm"}', "42 cm"),
    ("Answer: 42", "42"),
    ("Answer: 42.", "42"),
    ("**Answer:** 42", "42"),
    ("Answer: $42$", "42"),
    ("Answer: 3.5 metres", "3.5 metres"),
    ("Answer: Dr. Smith", "Dr. Smith"),
    ("Answer: 42. The reason is plain.", "42"),
    ("The answer is 42.", "42"),
    ("The answer is 3.5.", "3.5"),
    ("We add 40 and 2.\n\nFinal answer: 42", "42"),
    ("First answer: 3\nAnswer: 41\nNo, wait.\nAnswer: 42", "42"),
    ("Answer:\n42", "42"),
    ("<think>41?</think>42", "42"),
    ("Answer: 42\r\n", "42"),
    ("\u200b42", "42"),
    ("x < 5", "x < 5"),
    ("snake_case", "snake_case"),
    ("don't", "don't"),
]

NO_OPEN_ANSWER = [
    "",
    "   ",
    "<think>42</think>",
    "<think>42",
    "Answer:",
    "I cannot tell",
    "I don't know.",
    "Answer: I am not sure",
    "The picture shows a street with many people and cars and it is hard to say how many of them there are.",
    "One line.\nAnother line.",
    "...",
]


@pytest.mark.parametrize(("text", "expected"), OPEN_ANSWERS)
def test_reads_an_open_answer(text: str, expected: str) -> None:
    assert parse_answer(text, OPEN) == Answer(expected)


@pytest.mark.parametrize("text", NO_OPEN_ANSWER)
def test_takes_no_open_answer_where_none_is_marked(text: str) -> None:
    assert isinstance(parse_answer(text, OPEN), Unparsed)


FORMATS = [BUS, NUMBERS, FAR, BOTH, WORDED, THREE, PLACES, YES_NO]
FRAMES = ["{}", "({})", "**{}**", "{}.", "Answer: {}", "The answer is {}.", "<answer>{}</answer>", "\\boxed{{{}}}", "Words.\n\n{}"]


@pytest.mark.parametrize("answer_format", FORMATS)
@pytest.mark.parametrize("frame", FRAMES)
def test_every_canonical_answer_reads_as_itself(answer_format: AnswerFormat, frame: str) -> None:
    for candidate in answer_format.candidates:
        assert value(frame.format(candidate), answer_format) == candidate


@pytest.mark.parametrize("answer_format", [BUS, NUMBERS, FAR, BOTH, WORDED, THREE, PLACES])
@pytest.mark.parametrize("frame", ["{}", "Answer: {}", "({})", "**{}**", "The answer is {}"])
def test_every_option_in_words_reads_as_its_letter(answer_format: AnswerFormat, frame: str) -> None:
    for letter, text in answer_format.options:
        assert value(frame.format(answer_format.describe(letter)), answer_format) == letter
        assert value(frame.format(text), answer_format) == letter


WORDS = st.sampled_from(
    [
        *(
            "A",
            "B",
            "C",
            "D",
            "I",
            "E",
            "Answer:",
            "answer",
            "is",
            "the",
            "The",
            "not",
            "no",
            "No",
            "yes",
            "Yes",
            "or",
            "and",
            "but",
            "so",
        ),
        *(
            ",",
            ".",
            ":",
            ";",
            "?",
            "!",
            "(",
            ")",
            "\n",
            "\r\n",
            "**",
            "$",
            "\\boxed{",
            "}",
            "{",
            '"',
            "'",
            "\x00",
            "\u200b",
            "3",
            "3.5",
        ),
        *(
            "<think>",
            "</think>",
            "<answer>",
            "</answer>",
            "red",
            "bus",
            "dog",
            "dark",
            "blue",
            "car",
            "wrong",
            "correct",
            "option",
            "if",
        ),
        *("I'd", "choose", "Agent 1", "both", "either", "instead of", "because", "it's", "\ue000", "\ue101", "答案", "是"),
    ]
)
REPLIES = st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=30).map(" ".join), st.lists(WORDS, max_size=12).map("".join))


@settings(max_examples=400, deadline=None)
@given(text=REPLIES, answer_format=st.sampled_from([*FORMATS, OPEN]))
def test_any_text_gives_a_candidate_or_a_reason(text: str, answer_format: AnswerFormat) -> None:
    answer = parse_answer(text, answer_format)
    if isinstance(answer, Unparsed):
        assert answer.reason
    elif answer_format.kind == "open":
        assert answer.value.strip()
    else:
        assert answer.value in answer_format.candidates
    assert answer == parse_answer(text, answer_format)


@settings(max_examples=150, deadline=None)
@given(letters=st.sets(st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), min_size=1, max_size=8), data=st.data())
def test_any_set_of_letters_reads_back(letters: set[str], data: st.DataObject) -> None:
    answer_format = AnswerFormat("choice", tuple((letter, f"thing {letter}{letter}") for letter in sorted(letters)))
    letter = data.draw(st.sampled_from(sorted(letters)))
    assert value(data.draw(st.sampled_from(FRAMES)).format(letter), answer_format) == letter
    for other in sorted(set("ABCDEFGHIJKLMNOPQRSTUVWXYZ") - letters):
        assert value(f"Answer: {other}", answer_format) is None


@settings(max_examples=150, deadline=None)
@given(text=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 ,%/-]{0,30}[A-Za-z0-9]", fullmatch=True))
def test_a_marked_open_answer_reads_back(text: str) -> None:
    said = parse_answer(f"<answer>{text}</answer>", OPEN)
    assert said == Answer(" ".join(text.split())) or (isinstance(said, Unparsed) and text.startswith("I "))


HARD = {
    "letters": "A B C D " * 5000,
    "answers": "answer " * 6000,
    "answer is": "the answer is " * 3000,
    "labels": "Answer: " * 5000,
    "final": "final " * 7000,
    "spaces": "Answer" + " " * 40000 + "B",
    "newlines": "\n" * 40000 + "B",
    "boxes": "\\boxed{" * 6000,
    "texts": "\\text{" * 6000,
    "tags": "<answer>" * 5000,
    "angles": "<" * 40000,
    "thinks": "<think>" * 6000,
    "closings": "</think>" * 6000,
    "braces": "{" * 40000,
    "pairs": "{}" * 20000,
    "keys": '{"answer":' * 4000,
    "quotes": '"' * 40000,
    "backslashes": "\\" * 40000,
    "dollars": "$" * 40000,
    "stars": "*" * 40000,
    "underscores": "_" * 40000,
    "dots": "." * 40000,
    "commas": "A," * 20000,
    "nots": "not " * 10000,
    "negated": "is not " * 6000,
    "is": "B is is is " * 4000,
    "word": "a" * 40000,
    "hyphens": "a-" * 20000,
    "no": "No " * 13000,
    "yes": "yes, " * 8000,
    "there is no": "there is no " * 3500,
    "there is no dog": "There is no dog " + "dog " * 10000,
    "text": "red bus " * 5000,
    "bullets": "- " * 20000,
    "hashes": "#" * 40000,
    "digits": "1" * 40000,
    "prose": "The bus in the picture is red and large, and it stands at the corner of a street. " * 500,
    "parens": "(" * 40000,
    "groups": "A or B and " * 3600,
    "agent": "agent 1 and I agree " * 2000,
    "spaced letters": "a b " * 10000,
}


@pytest.mark.parametrize("text", HARD.values(), ids=HARD.keys())
def test_a_conclusion_is_found_behind_40000_characters_of_anything(text: str) -> None:
    # Where a reading takes time in the square of the length, or worse, this test does not come to its end.
    if "<think>" in text:
        text += "</think>"
    for answer_format, answer in ((BUS, "B"), (YES_NO, "No"), (OPEN, "42")):
        parse_answer(text, answer_format)
        assert value(f"{text}\n\n<answer>{answer}</answer>", answer_format) == answer


def test_a_giant_option_text_is_found_whole() -> None:
    long = "word " * 2000 + "end"
    answer_format = AnswerFormat("choice", (("A", long), ("B", long + " of it")))
    assert value(long + " of it", answer_format) == "B"
    assert value(long, answer_format) == "A"


def test_the_reason_says_what_was_found() -> None:
    answer = parse_answer("Answer: B or C", BUS)
    assert isinstance(answer, Unparsed) and "several" in answer.reason and "B or C" in answer.reason
    answer = parse_answer("Answer: E", BUS)
    assert isinstance(answer, Unparsed) and "E" in answer.reason and "not an option" in answer.reason


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("42", "42.0"),
        ("1,000", "1000"),
        ("two", "2"),
        ("Two", "2"),
        ("1/2", "0.5"),
        ("$5", "5"),
        ("50%", "50 %"),
        ("The red bus", "red bus"),
        ("Red Bus.", "red bus"),
        ("red  bus", "red bus"),
        ("-3", "\u22123"),
        (".5", "0.5"),
        ("007", "7"),
    ],
)
def test_open_answers_that_say_the_same_are_the_same(one: str, other: str) -> None:
    assert same(Answer(one), Answer(other), OPEN)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("42", "43"),
        ("50%", "0.5"),
        ("red bus", "blue bus"),
        ("-3", "3"),
        ("3.5", "35"),
        ("1,5", "15"),
        ("1/0", "0"),
        ("a", ""),
        ("x/2", "x2"),
    ],
)
def test_open_answers_that_differ_are_not_the_same(one: str, other: str) -> None:
    assert not same(Answer(one), Answer(other), OPEN)


def test_choices_are_the_same_by_letter_only() -> None:
    assert same(Answer("B"), Answer("B"), BUS)
    assert not same(Answer("A"), Answer("B"), WORDED)


def votes(*values: str | None) -> list[Answer | Unparsed]:
    return [Unparsed("?") if one is None else Answer(one) for one in values]


def test_the_most_frequent_answer_wins_and_the_unparsed_abstain() -> None:
    winner, counts = plurality(votes(None, "C", "B", "C", None, None), BUS, random.Random(0))
    assert winner == Answer("C")
    assert counts == {"B": 1, "C": 2}


def test_nobody_parsed_is_no_answer() -> None:
    winner, counts = plurality(votes(None, None), BUS, random.Random(0))
    assert isinstance(winner, Unparsed) and counts == {}
    assert isinstance(plurality([], YES_NO, random.Random(0))[0], Unparsed)


@given(order=st.permutations(["A", "A", "C", "C", "D", None]), seed=st.integers(0, 50))
def test_a_tie_does_not_depend_on_the_order_of_replies(order: list[str | None], seed: int) -> None:
    expected = plurality(votes("A", "A", "C", "C", "D", None), BUS, random.Random(seed))
    assert plurality(votes(*order), BUS, random.Random(seed)) == expected
    assert expected[0] in (Answer("A"), Answer("C"))


def test_a_tie_can_go_either_way_and_only_to_the_tied() -> None:
    winners = {plurality(votes("A", "C", "D", "D", "C"), BUS, random.Random(seed))[0] for seed in range(40)}
    assert winners == {Answer("C"), Answer("D")}


def test_open_answers_that_say_the_same_are_counted_together() -> None:
    winner, counts = plurality(votes("two", "2", "2", "3", "3.0"), OPEN, random.Random(0))
    assert winner == Answer("2")
    assert counts == {"2": 3, "3": 2}


@given(order=st.permutations(["two", "2", "2.0", "Three", "the three"]))
def test_the_spelling_of_an_open_winner_does_not_depend_on_the_order(order: list[str]) -> None:
    assert plurality(votes(*order), OPEN, random.Random(1)) == plurality(votes(*sorted(order)), OPEN, random.Random(1))

"""The tokenizer: byte-level BPE trained on the dialogs, Qwen's special tokens, and one token for each fixed sentence of the methods.

The methods' prompts are long, and all of them but a few words is the same in every game. One token for such a sentence keeps a
two-million-parameter model's context, and our training time, for what differs. A prompt that somebody rewords still goes in, byte by
byte, but says nothing to this model: ``missing_sentences`` finds that out, and then it is to be trained again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from mug_eval.counterfactual import planning_prompts
from mug_eval.methods import cfmad, chain_of_thought, conversation, debate, mad_judge, mug_prompts, self_refine
from mug_eval.methods.mug_ratings import ballot_example
from mug_eval.question import AnswerFormat
from mug_eval.reference_vlm.model import SYMBOLS
from mug_eval.reference_vlm.scenes import COLOURS, GRID, SHAPES

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' or 'image' in part %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'text' in part %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Qwen's format, without its default system prompt."""

_PIECES = r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+"

_TEMPLATES = (
    conversation.SYSTEM,
    chain_of_thought.TASK,
    debate.RULES,
    debate.FIRST,
    debate.AGAIN,
    mad_judge.RULES,
    mad_judge.DECIDE,
    mad_judge.WAIT,
    cfmad.ABDUCTION,
    cfmad.CRITIQUE,
    cfmad.REBUTTAL,
    cfmad.JUDGE,
    self_refine.CRITIQUE,
    self_refine.CRITIQUE_LINE,
    self_refine.REFINE,
    mug_prompts.RULES,
    mug_prompts.COMMON,
    mug_prompts.ODD,
    mug_prompts.TALK,
    mug_prompts.VOTE,
    mug_prompts.VOTE_REMINDER,
    mug_prompts.ALONE,
    mug_prompts.DISCUSSED,
    mug_prompts.SUMMARISE,
    mug_prompts.FINAL,
)

_JSON_GLUE = (
    '{"type": "',
    '", "image": 1}',
    '{"objects": [{"name": "',
    '", "attributes": ["',
    '", "',
    '"], "box": [',
    ']}, {"name": "',
    ']}], "relations": []}',
    '{"objects": [], "relations": []}',
    '{"target": ',
    ', "edit": "',
    '", "to": "',
    '", "box": ',
    ', "instruction": "',
    '", "answer": "',
    '", "answer": null}',
    ") at [",
)
"""What stands between the values of a planner's replies."""


def fixed_sentences() -> list[str]:
    """Words that the methods say unchanged in every game, glue of transcripts, ballots and options, places, coloured shapes.

    A coloured shape is one token because to find "red star" in a list is then to find one token; as two, the shape alone was matched.
    """
    found = [piece for template in _TEMPLATES for piece in re.split(r"\{\w+\}", template)]
    letters = tuple((letter, "") for letter in "ABCD")
    formats = [AnswerFormat("yes_no"), AnswerFormat("open"), *(AnswerFormat("choice", letters[:n]) for n in (2, 3, 4))]
    found += [conversation.answer_line(answer_format) for answer_format in formats]
    found += [f"No answer could be read from that. {conversation.answer_line(answer_format)}" for answer_format in formats]
    found += [piece for piece in re.split(r"Agent \d|n(?=[,}])", ballot_example(("Agent 1", "Agent 2"))) if piece]
    found += planning_sentences()
    found += ["Please select the correct answer from the options above. \n", "Question: ", "Options:\n"]
    return [
        *dict.fromkeys(piece for piece in found if len(piece) > 12),
        *(f"Agent {n}" for n in range(1, 7)),
        *(f"\n{letter}." for letter in "BCD"),
        *("\n\n", ":\n> ", "\n> ", "\nAnswer: ", "\n> Answer: ", "Options:\nA.", "system\n", "user\n", "assistant\n"),
        *("I see", ". Total", '{"', '"}'),
        *(f" r{row}c{column}" for row in range(1, GRID + 1) for column in range(1, GRID + 1)),
        *(f" {colour} {shape}" for colour in COLOURS for shape in SHAPES),
        *_JSON_GLUE,
    ]


def planning_sentences() -> list[str]:
    """The runs of words that a planner's prompts say unchanged."""
    gap = dict.fromkeys(("which", "units", "things", "type"), "\0")
    prompts = (planning_prompts.QUESTION_TYPE, planning_prompts.SCENE_GRAPH.format(**gap), planning_prompts.PLAN.format(**gap))
    return [*(piece for prompt in prompts for piece in prompt.split("\0")), planning_prompts.UNITS["pixels"]]


def train_tokenizer(texts: Iterable[str], merges: int = 420) -> Any:
    """Train on dialogs.

    Args:
        texts: what will be read and said.
        merges: most tokens beyond the bytes, the special tokens and the sentences.

    Returns:
        A fast tokenizer with Qwen's special tokens numbered from 0 and the chat template.
    """
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=len(SYMBOLS) + 256 + merges,
        special_tokens=[AddedToken(symbol, special=True, normalized=False) for symbol in SYMBOLS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    core.add_tokens([AddedToken(sentence, special=False, normalized=False) for sentence in fixed_sentences()])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=[symbol for symbol in SYMBOLS if symbol not in ("<|im_end|>", "<|endoftext|>")],
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
        model_max_length=4096,
    )


def missing_sentences(tokenizer: Any) -> list[str]:
    """Sentences of the methods that the tokenizer does not know as one token: the model was trained on other words."""
    return [sentence for sentence in fixed_sentences() if len(tokenizer(sentence, add_special_tokens=False).input_ids) != 1]

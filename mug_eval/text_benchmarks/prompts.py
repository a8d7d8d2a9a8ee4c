"""The words of a text question. Nothing here sees an answer."""

from __future__ import annotations

from collections.abc import Sequence

Options = Sequence[tuple[str, str]]


def _listed(options: Options) -> str:
    return "Options:\n" + "\n".join(f"{letter}. {text}" for letter, text in options)


def knowledge(stem: str, options: Options) -> str:
    """CommonsenseQA: a question to be answered from everyday knowledge."""
    return f"Question: {stem}\n{_listed(options)}\nWhich option is right?"


def reading(passage: str, question: str, options: Options) -> str:
    """BoolQ: its questions are written as typed into a search, in lower case and without a question mark."""
    asked = question if question.endswith("?") else f"{question}?"
    return f"Passage: {passage}\n\nQuestion: {asked}\n{_listed(options)}\nTrue stands for yes, False for no."


def story(context: str, question: str, options: Options) -> str:
    """CosmosQA: what a short story leaves unsaid."""
    return f"Context: {context}\n\nQuestion: {question}\n{_listed(options)}\nWhich option is most likely?"


def claim(text: str, options: Options) -> str:
    """HoVer and FEVER: a claim to be judged without a text about it."""
    return f"Claim: {text}\n\nIs the claim true?\n{_listed(options)}"


def conversation(headings: Sequence[str], background: str, section: str, earlier: Sequence[str], question: str) -> str:
    """QuAC: a question within a conversation. Earlier questions are shown, their answers are not: those are other rows' gold."""
    parts = [
        f"Article: {', '.join(heading for heading in headings if heading)}" if any(headings) else "",
        f"Background: {background}" if background else "",
        f"Section: {section}",
        "Asked before:\n" + "\n".join(f"- {one}" for one in earlier) if earlier else "",
        f"Question: {question}",
        "Answer in the section's own words, with its shortest passage that answers the question. If the section does not answer it, the "
        "answer is CANNOTANSWER.",
    ]
    return "\n\n".join(part for part in parts if part)

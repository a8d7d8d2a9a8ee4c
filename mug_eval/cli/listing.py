"""``mug-eval list``: methods, backbones, benchmarks, editors and presets, and what each needs."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

from mug_eval.backbones.catalogue import load_catalogue
from mug_eval.benchmarks import Task, load_task, task_names
from mug_eval.cli.arguments import Parser
from mug_eval.configuration import field_notes
from mug_eval.counterfactual.editor_catalogue import load_catalogue as load_editors
from mug_eval.methods import Method, methods
from mug_eval.question import Altered, AnswerFormat, Question


def command(argv: Sequence[str]) -> int:
    """Print what there is."""
    Parser("mug-eval list", "", "List methods, backbones, benchmarks, editors and presets, and what each needs.").read(argv)
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    sys.stdout.write(listing(width))
    return 0


def listing(width: int = 100) -> str:
    """Everything that can be named on the command line."""
    lines = ["Methods (--model <method>-<backbone>, or --method; settings with --set <method>.<field>=<value>)"]
    for method in methods().values():
        lines += _method(method, width)
    lines += ["", "Backbones (--model <method>-<backbone>; any other model: --method <method> --backbone KIND:NAME)"]
    lines += _backbones(width)
    lines += ["", "Benchmarks (--data; a local file in the same format: --data-file NAME=TSV)"]
    for name in task_names():
        lines += _benchmark(name, width)
    lines += [
        "",
        "Editors of counterfactual pictures (counterfactuals build --editor; docs/counterfactuals.md has their settings)",
    ]
    lines += _editors(width)
    lines += [
        "",
        "Presets (--preset)",
        *_item("native", "the model's own resolution and decoding defaults, at most 2,048 tokens a reply (default)", width),
        *_item("paper", f"the paper's decoding and resolution: {', '.join(_with_paper()) or 'no backbone has them'}", width),
        "",
        "Settings of every run (--set)",
        *_item("sampling", "temperature, top_p, top_k, max_tokens", width),
        *_item("image", "size=224x224 (every picture is resized to it), or native", width),
    ]
    return "\n".join(lines) + "\n"


def _item(name: str, text: str, width: int, indent: int = 2, column: int = 18) -> list[str]:
    """A name and its words, hanging."""
    lead = " " * indent + name.ljust(column - indent) + ("" if len(name) < column - indent else " ")
    return textwrap.wrap(
        text, max(width, 50), initial_indent=lead, subsequent_indent=" " * column, break_long_words=False, break_on_hyphens=False
    ) or [lead.rstrip()]


def _method(method: Method, width: int) -> list[str]:
    lines = _item(method.name, method.summary, width)
    config = method.config()
    counts = []
    for label, question in EXAMPLES.items():
        calls = method.calls(question, config)
        counts.append((label, f"{calls.least}" if calls.least == calls.most else f"{calls.least} to {calls.most}"))
    said = counts[0][1] if len({count for _, count in counts}) == 1 else ", ".join(f"{count} ({label})" for label, count in counts)
    needs = "; uses counterfactual pictures" if method.uses_counterfactual else ""
    lines += _item("", f"calls a question: {said}{needs}", width)
    fields = [
        # What a field takes goes without saying where its default is a number or a truth value.
        f"{note.name}={note.default}" + (f" ({note.takes})" if "|" in note.takes or note.default in ("null", "") else "")
        for note in field_notes(method.config)
    ]
    if fields:
        lines += _item("", "settings: " + ", ".join(fields), width)
    return lines


EXAMPLES = {
    "yes/no": Question("example", "0", ("?",), AnswerFormat("yes_no"), Altered(("?",))),
    "4 options": Question(
        "example", "0", ("?",), AnswerFormat("choice", tuple((letter, letter) for letter in "ABCD")), Altered(("?",))
    ),
}


def _backbones(width: int) -> list[str]:
    """The kinds, then every short name by what it needs."""
    forms = {"openai": "openai:<model id>", "hf": "hf:<name or folder>", "vlmevalkit": "vlmevalkit:<name>"}
    lines = [line for kind, form in forms.items() for line in _item(form, _KINDS[kind], width, column=22)]
    entries = list(load_catalogue().values())
    for needs in dict.fromkeys(entry.needs for entry in entries):
        lines += textwrap.wrap(
            f"need {needs}:" if needs else "need nothing else:", max(width, 50), initial_indent="  ", subsequent_indent="  "
        )
        for entry in entries:
            if entry.needs == needs:
                paper = "; --preset paper" if entry.paper is not None else ""
                model = f" (openai:{entry.openai})" if entry.openai else ""
                lines += _item(entry.name, f"{entry.summary}{model}{paper}", width, indent=4, column=22)
    return lines


_KINDS = {
    "openai": "any model on an OpenAI-compatible server (vLLM, SGLang, LMDeploy, ...); needs --base-url or MUG_EVAL_BASE_URL, "
    "and OPENAI_API_KEY in the environment where the server asks for a key",
    "hf": "any image-text-to-text model of Hugging Face transformers, in this process; needs its files (from the hub, or a folder), and "
    "a GPU to be quick",
    "vlmevalkit": "any model of VLMEvalKit's supported_VLM; needs what that model needs (a GPU and its files from the hub, or its key)",
}


def _editors(width: int) -> list[str]:
    """The short names, then the kinds."""
    lines = [line for name, entry in load_editors().items() for line in _item(name, entry.summary, width, column=22)]
    return lines + [line for form, text in _EDITORS.items() for line in _item(form, text, width, column=22)]


_EDITORS = {
    "diffusers:<what>": "any editing pipeline of diffusers: a model of the hub, a folder, or a file of settings (.yaml)",
    "step1x:<folder>": "Step1X-Edit with weights from a folder, or a file of settings (.yaml)",
    "step1x-cli:<file>": "its authors' own command, in an environment of yours; a file of settings (.yaml) says where",
    "http:<model>": "a server with POST /v1/images/edits; needs --editor-url or MUG_EVAL_EDITOR_URL, and OPENAI_API_KEY in the environment "
    "where the server asks for a key",
    "folder:<folder>": "pictures that somebody made",
}


def _benchmark(name: str, width: int) -> list[str]:
    task = load_task(name)
    kinds = {"yes_no": "yes/no", "choice": "multiple choice", "open": "open"}[task.answers] + (
        " and open" if task.open_without_options else ""
    )
    played = (f"{task.rows:,} rows" if task.rows else "any number of rows") + (
        f", those with {task.split[0]}={task.split[1]} are played and reported" if task.split else ""
    )
    numbers = [name for name, _ in (*task.scores.numbers, *task.scores.means)]
    return [
        *_item(name, task.summary, width),
        *_item("", f"{played}; answers: {kinds}; headline numbers: {', '.join(numbers)}", width),
        *_item("", f"needs: {_source(task)}", width),
    ]


def _source(task: Task) -> str:
    if task.drawn:
        return f"mug-eval scenes --out DIR, then --data-file {task.name}=DIR/{task.name}.tsv --counterfactuals DIR/counterfactuals"
    if task.text is not None:
        return (
            f"no pictures; --data-file {task.name}={task.text.file} (the published file), or the library datasets, which downloads "
            f"{task.text.hub}"
        )
    return f"the published set {task.upstream}, which VLMEvalKit downloads, or --data-file {task.name}=TSV"


def _with_paper() -> list[str]:
    return [name for name, entry in load_catalogue().items() if entry.paper is not None]

"""What the pages show works as shown."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest
from scripted import ScriptedTable, question

from mug_eval.methods import Method
from mug_eval.question import Answer

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture
def shown_method() -> Method:
    block = re.search(r"```python\n(\"\"\"``second-opinion``.*?)```", (DOCS / "methods.md").read_text(), re.DOTALL)
    assert block, "docs/methods.md shows a method"
    assert len([line for line in block[1].splitlines() if line.strip()]) <= 65, "about sixty lines"
    module = types.ModuleType("second_opinion")
    sys.modules[module.__name__] = module
    exec(compile(block[1], "docs/methods.md", "exec"), module.__dict__)  # noqa: S102 - our own page
    method = module.METHOD
    assert isinstance(method, Method)
    return method


async def test_the_shown_method_plays(shown_method: Method) -> None:
    table = ScriptedTable(lambda *_: "Answer: Yes")
    verdict = await shown_method.play(question(), table, shown_method.config())
    assert verdict.answer == Answer("Yes") and table.seats == ["Agent 1", "Agent 2"]
    replies = {"Agent 1": "Answer: Yes", "Agent 2": "Answer: No", "decider": "Answer: No"}
    table = ScriptedTable(lambda seat, *_: replies[seat])
    verdict = await shown_method.play(question(), table, shown_method.config())
    assert verdict.answer == Answer("No") and table.seats[-1] == "decider" and verdict.ended == "decided"

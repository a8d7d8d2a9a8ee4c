"""Jinja2 as the pages use it: everything is escaped, whatever it is; nothing undefined passes."""

from __future__ import annotations

import base64
import hashlib
import math
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from mug_eval.errors import UserError
from mug_eval.show import printable
from mug_eval.statistics.tables import ends, p_value

if TYPE_CHECKING:
    import jinja2


def static_text(name: str) -> str:
    """One of our own style or script files."""
    return (resources.files("mug_eval.report") / "static" / name).read_text(encoding="utf-8")


def script_hash(script: str) -> str:
    """What a page's security policy calls an inline script that it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def environment() -> jinja2.Environment:
    """The templates.

    Raises:
        UserError: Jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise UserError("pages need Jinja2: pip install 'mug-eval[report]'") from error
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (resources.files("mug_eval.report") / "templates" / name).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    made.filters.update(number=_number, ends=ends, p_value=p_value)
    return made


def _finalize(value: Any) -> Any:
    """Text is made printable before it is escaped; nothing is nothing."""
    if value is None:
        return ""
    return printable(value) if type(value) is str else value


def _number(value: float | None, digits: int = 1, sign: str = "") -> str:
    """A number, or a dash where there is none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return f"{value:{sign},.{digits}f}"

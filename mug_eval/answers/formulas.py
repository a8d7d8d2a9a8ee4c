"""Formulas in one spelling, so that an option and a reply that write the same formula differently are equal."""

from __future__ import annotations

import re

_SIGNS = {
    **dict(
        zip(
            [
                "alpha",
                "beta",
                "gamma",
                "delta",
                "epsilon",
                "zeta",
                "eta",
                "theta",
                "iota",
                "kappa",
                "lambda",
                "mu",
                "nu",
                "xi",
                "pi",
                "rho",
            ],
            "αβγδεζηθικλμνξπρ",
            strict=True,
        )
    ),
    **dict(zip(["sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"], "στυφχψω", strict=True)),
    **dict(zip(["Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega"], "ΓΔΘΛΞΠΣΦΨΩ", strict=True)),
    **{"varepsilon": "ε", "vartheta": "θ", "varphi": "φ", "times": "×", "cdot": "·", "div": "÷", "pm": "±", "infty": "∞"},
    **{"leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "neq": "≠", "ne": "≠", "approx": "≈", "angle": "∠", "triangle": "△"},
    **{"degree": "°", "circ": "°", "left": "", "right": "", "displaystyle": ""},
}
_SIGN = re.compile(r"\\(" + "|".join(sorted(_SIGNS, key=len, reverse=True)) + r")(?![A-Za-z])")
_FRACTION = re.compile(r"\\[dt]?frac\s?\{([^{}\n]{1,60})\}\s?\{([^{}\n]{1,60})\}")
_ROOT = re.compile(r"\\sqrt\s?(?:\[([^\[\]{}\n]{1,9})\])?\s?(?:\{([^{}\n]{1,60})\}|(\w))")
_PLAIN_ROOT = re.compile(r"(?<![A-Za-z\\])(?:sqrt|√)\s?(?:\((\w{1,20})\)|(?=\w))", re.IGNORECASE)
_SCRIPT = re.compile(r"([\^_])\s?\{([^{}\n]{1,60})\}")
_POWERS = str.maketrans({power: f"^{at}" for at, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})
_DEEPEST = 4


def spelled(text: str) -> str:
    r"""A plain text with its LaTeX formulas in one line of ordinary signs: ``\frac{\sqrt{3}}{2}`` as ``√3/2``, ``x^{2}`` as ``x^2``."""
    text = _SIGN.sub(lambda sign: _SIGNS[sign[1]], text.replace("$", "")).translate(_POWERS)
    for _ in range(_DEEPEST):
        before = text
        text = _ROOT.sub(lambda root: f"{root[1] or ''}√{_term(root[2] or root[3])}", text)
        text = _SCRIPT.sub(lambda script: f"{script[1]}{_term(script[2])}", text)
        text = _FRACTION.sub(lambda fraction: f"{_term(fraction[1])}/{_term(fraction[2])}", text)
        if text == before:
            break
    text = text.replace("^(°)", "°")
    text = _PLAIN_ROOT.sub(lambda root: f"√{root[1] or ''}", text)
    return text.replace("^°", "°")


def _term(term: str) -> str:
    term = term.strip()
    return term if re.fullmatch(r"-?[\w.√°∞]*", term) else f"({term})"

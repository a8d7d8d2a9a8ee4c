"""What a key to somebody's account looks like: one definition for all that must not repeat one."""

from __future__ import annotations

import re

KEY = re.compile(
    r"\b(?:[sp]k[-_][\w-]{8,}|hf_\w{8,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|(?:gsk|xai|nvapi|r8)[-_][\w-]{16,}"
    r"|xox[abeoprs]-[\w-]{10,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*|Bearer\s+\S+)"
    r"|(?i:api[-_]?key|access[-_]?token|secret|password)['\"]?\s*[=:]\s*['\"]?[^\s'\"]{8,}"
)
"""Keys by the shapes that providers give them, and whatever is called one."""

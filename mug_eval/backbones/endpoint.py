"""Where a server is and what it takes to speak to it: address, key, proxy. The same for backbones and for editors."""

from __future__ import annotations

import os
import urllib.request

import yarl

from mug_eval.backbones.provider import LOCAL, provider
from mug_eval.errors import UserError


def endpoint(base_url: str, path: str, whose: str = "") -> yarl.URL:
    """The address that requests go to.

    Args:
        base_url: up to ``/v1``, or with ``path`` already.
        path: of the requests, ``/chat/completions``.
        whose: ``editor's``, for messages.

    Raises:
        UserError: it is none, or holds a password.
    """
    what = f"{whose} base URL".strip()
    try:
        url = yarl.URL(base_url)
        valid = url.scheme in ("http", "https") and bool(url.host) and not url.query_string and not url.fragment
    except ValueError:
        raise UserError(f"the {what} is no address; give one like http://127.0.0.1:8000/v1") from None
    if url.user or url.password:
        raise UserError(f"the {what} holds a user name or password; put the key into the environment instead")
    if not valid:
        raise UserError(f"{base_url!r} is no {what}; give one like http://127.0.0.1:8000/v1")
    start = url.path.rstrip("/")
    return url.with_path(start if start.endswith(path) else start + path)


def api_key(key_env: str, *, needed: bool, host: str) -> str | None:
    """The key that an environment variable holds, None if it holds none.

    Raises:
        UserError: it is needed and missing, or cannot be one.
    """
    key = os.environ.get(key_env, "").strip()
    if not key:
        if needed:
            raise UserError(f"{host} needs a key; set the environment variable {key_env}")
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UserError(f"the environment variable {key_env} does not hold a key: it has blanks or characters that no key has")
    return key


def proxy_of(url: yarl.URL) -> str | None:
    """The proxy that the environment names for this address (aiohttp's own way would also read passwords from ``~/.netrc``)."""
    host = url.host or ""
    if provider(str(url)) == LOCAL or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(url.scheme)

"""Who runs a server, as far as its address tells: this machine or network, or a provider by name."""

from __future__ import annotations

import ipaddress
import urllib.parse

LOCAL = "local"


def provider(base_url: str) -> str:
    """``local`` for this machine and its network (private addresses, names without a public domain), else the host's name."""
    try:
        host = urllib.parse.urlsplit(base_url).hostname or ""
    except ValueError:
        return ""
    try:
        return LOCAL if ipaddress.ip_address(host).is_private else host
    except ValueError:
        return LOCAL if "." not in host or host.endswith((".local", ".internal", ".localhost", ".lan")) else host

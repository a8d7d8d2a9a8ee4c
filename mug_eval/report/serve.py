"""Pages served on this machine alone."""

from __future__ import annotations

import errno
import functools
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mug_eval.errors import UserError

HOST = "127.0.0.1"
_NAMES = {HOST, "localhost"}


class _Pages(SimpleHTTPRequestHandler):
    """Files of one folder: no listing, nothing hidden, no link that leads out, and to nobody who came by another site's name."""

    def send_head(self) -> io.BytesIO | Any:
        """See the base class."""
        # A foreign site whose name is made to lead here (DNS rebinding) must not read the pages.
        if (self.headers.get("Host") or "").rsplit(":", 1)[0] not in _NAMES:
            self.send_error(HTTPStatus.FORBIDDEN, "these pages are for this machine")
            return None
        root = Path(self.directory).resolve()
        try:
            path = Path(self.translate_path(self.path))
            hidden = any(part.startswith(".") for part in path.parts[len(root.parts) :])
            found = not hidden and path.resolve().is_relative_to(root)
        except (ValueError, OSError, RuntimeError):  # a NUL, no UTF-8, a name too long, a link to itself: nothing that a page has
            found = False
        if not found:
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def list_directory(self, path: Any) -> None:
        """See the base class; there is none to see."""
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        """See the base class; a site that was built again is not shown from a cache."""
        self.send_header("Cache-Control", "no-cache")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """See the base class; a terminal full of requests helps nobody."""


class _Server(ThreadingHTTPServer):
    """One that says nothing of a browser that went away in the middle of an answer."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """See the base class."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(folder: Path, port: int) -> Iterator[ThreadingHTTPServer]:
    """A server of a folder's pages; ``serve_forever`` is the caller's.

    Args:
        folder: the site.
        port: on 127.0.0.1; 0 takes a free one.

    Raises:
        UserError: the port is taken or may not be had.
    """
    handler = functools.partial(_Pages, directory=str(folder.resolve()))
    try:
        server = _Server((HOST, port), handler)
    except OverflowError:
        raise UserError(f"--port {port}: a port is at most 65535") from None
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise UserError(f"--port {port}: {error.strerror}; give another one, or 0 for any that is free") from error
    with server:
        yield server

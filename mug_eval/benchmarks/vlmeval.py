"""VLMEvalKit behind one door: imported late and quietly, its side effects on this process undone."""

from __future__ import annotations

import importlib
import io
import logging
import os
import ssl
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from mug_eval.errors import UserError

FAILED = "Failed to obtain answer via API."
"""What VLMEvalKit writes for a question without an answer, and looks for when it runs again (vlmeval.inference.FAIL_MSG)."""

_process_wide = threading.RLock()


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Environment variables for a while: VLMEvalKit takes its data folder and file format from them. One user at a time."""
    with _process_wide:
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@contextmanager
def quiet(show_stderr: bool = False) -> Iterator[None]:
    """Keep VLMEvalKit's prints, warnings, bars and log lines off the terminal. One user at a time.

    Its ``load_env`` gives the root logger a handler, and its OpenAI client logs the API key: the handler is taken away again
    and the client's level is raised.

    Args:
        show_stderr: let standard error through (a download's bar).
    """
    root, theirs = logging.getLogger(), logging.getLogger("vlmeval")
    with _process_wide, warnings.catch_warnings():
        handlers, level, disabled = list(root.handlers), theirs.level, root.disabled
        warnings.simplefilter("ignore")
        theirs.setLevel(logging.CRITICAL)
        root.disabled = True
        try:
            with redirect_stdout(io.StringIO()):
                if show_stderr:
                    yield
                else:
                    with redirect_stderr(io.StringIO()):
                        yield
        finally:
            theirs.setLevel(level)
            root.disabled = disabled
            for handler in list(root.handlers):
                if handler not in handlers:
                    root.removeHandler(handler)


def load(module: str) -> Any:
    """A module of VLMEvalKit, e.g. ``vlmeval.dataset``.

    The first import takes seconds. It also switches TLS verification off for the whole process and PyTorch's gradients off for the thread;
    both are switched on again, so that models can be trained beside it.

    Raises:
        UserError: VLMEvalKit is not installed, or does not import here.
    """
    with _process_wide:
        verified = ssl._create_default_https_context
        torch = sys.modules.get("torch")
        gradients = True if torch is None else torch.is_grad_enabled()
        try:
            with quiet():
                return importlib.import_module(module)
        except Exception as error:  # a torch and torchvision that do not fit raise RuntimeError
            raise UserError(f"VLMEvalKit cannot be imported ({error}): pip install ms-vlmeval==0.0.20") from error
        finally:
            unverified: Callable[..., ssl.SSLContext] = ssl._create_unverified_context
            # Somebody may have imported VLMEvalKit before us: then the saved default is the unverified one already.
            ssl._create_default_https_context = ssl.create_default_context if verified is unverified else verified
            if (torch := sys.modules.get("torch")) is not None:
                torch.set_grad_enabled(gradients)


def downloaded(name: str) -> Path:
    """Where VLMEvalKit puts the published set of that name; it need not be there."""
    return Path(str(load("vlmeval.smp").LMUDataRoot())) / f"{name}.tsv"


def construct(loader: str, name: str, inspect: Callable[[Path, Any], None], data_folder: Path | None) -> Any:
    """An instance of one of VLMEvalKit's dataset classes, whose table was inspected before any cell of it is evaluated.

    The class reads its table in ``load_data`` and its constructor then calls ``eval()`` on index and list-like cells
    (vlmeval.smp.misc: istype, toliststr). So the instance gets a ``load_data`` that calls the class's own and then ``inspect``.

    Args:
        loader: class name in ``vlmeval.dataset``.
        name: the dataset's name for that class.
        inspect: called with the TSV's path and its DataFrame; raises UserError for a table that must not be used.
        data_folder: where the class looks for ``<name>.tsv`` (its LMUData), or None for the user's own.

    Raises:
        UserError: the class cannot read or download the table, or ``inspect`` refuses it.
    """
    import pandas as pd

    cls = getattr(load("vlmeval.dataset"), loader, None)
    if cls is None:
        raise UserError(f"VLMEvalKit has no dataset class {loader!r}: use ms-vlmeval==0.0.20")
    dataset = cls.__new__(cls)

    def load_data(which: str) -> Any:
        frame = cls.load_data(dataset, which)
        inspect(Path(dataset.data_path), frame)
        return frame

    dataset.load_data = load_data
    folder = {} if data_folder is None else {"LMUData": str(data_folder)}
    # As columns of Python strings, which rows with one picture share; pandas 3 would copy it for each (POPE: 10 times).
    shared = pd.option_context("future.infer_string", False)
    with environment(**folder), quiet(show_stderr=data_folder is None), shared:
        dataset.__init__(dataset=name)
    del dataset.load_data
    return dataset

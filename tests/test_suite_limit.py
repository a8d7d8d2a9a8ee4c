"""The suite's own guard: a test that hangs fails with the place where it hung, and those after it are still run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HANGING = """
import asyncio, threading
import pytest

@pytest.fixture
def never_ready():
    threading.Event().wait()

@pytest.fixture
def never_over():
    yield
    threading.Event().wait()

def test_lock(): threading.Event().wait()
async def test_loop(): await asyncio.Event().wait()
def test_before(never_ready): pass
def test_after(never_over): pass
def test_fine(): pass
"""


def test_whatever_hangs_is_failed_and_the_rest_is_run(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_hanging.py").write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--rootdir", str(tmp_path), "-c", os.devnull, "-p", "no:cacheprovider"]
    command += ["-o", "asyncio_mode=auto", "-o", "test_limit=3", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, check=False, timeout=300
    )
    said = done.stdout.splitlines()
    assert done.returncode == 1 and said[-1].startswith("2 failed, 2 passed, 2 errors in "), done.stdout
    failed = {line.split("::")[1].split()[0]: line.partition(" - ")[2] for line in said if line.startswith(("FAILED", "ERROR"))}
    assert failed == {
        "test_lock": "Failed: the test had no end within 3 s",
        "test_loop": "Failed: the test had no end within 3 s",
        "test_before": "Failed: what the test needs had no end within 3 s",
        "test_after": "Failed: what the test held had no end within 3 s",
    }

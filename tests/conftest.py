"""No test waits for ever: what has no end is failed and says where it stood, and the suite goes on to its closing line."""

from __future__ import annotations

import signal
from collections.abc import Generator
from types import FrameType

import pytest

AGAIN = 30.0
"""seconds until what still waits (a fixture that puts down what the test held) is interrupted too"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("test_limit", "seconds that a test, its fixtures or their end may each take (default: 1200)", default="1200")


def _limited(item: pytest.Item, what: str) -> Generator[None, object, object]:
    limit = float(item.config.getini("test_limit"))

    def over(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"{what} had no end within {limit:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit, AGAIN)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _limited(item, "what the test needs"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _limited(item, "the test"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _limited(item, "what the test held"))

"""Progress: what is counted, how often a line appears, and how a table fits."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import threading
from dataclasses import dataclass

import pytest

from mug_eval.progress import Reporter, ScoreRow, Spent, amount, closing_line, duration, open_reporter, score_table


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class Dispatcher:
    """Stands where the dispatcher's counts are read."""

    def __init__(self) -> None:
        self.counts = Spent()

    def __call__(self) -> Spent:
        return self.counts


DONE = {"index": "1", "answer": {"value": "Yes"}}
UNPARSED = {"index": "2", "answer": {"unparsed": "nothing to read"}}
OWED = object()


def test_each_question_is_counted_for_what_it_came_to() -> None:
    clock = Clock()
    job = Reporter("quiet", io.StringIO(), clock).job("mug-qwen on POPE", 10, done=4)
    for event in (DONE, UNPARSED, OWED):
        job.on_done(event)
    assert (job.done, job.owed, job.unparsed) == (6, 1, 1)
    assert job.status().startswith("6/10 done, 1 owed, 1 unparsed, ")


def test_nothing_that_is_reported_can_drive_the_terminal() -> None:
    stream = io.StringIO()
    reporter = Reporter("quiet", stream, Clock())
    reporter.note("q is owed: the server says \x1b[2J\x07 \u202e\nmug-eval: all is well")
    reporter.close(reporter.job("evil\x1b]0;title\x07 on POPE", 1))
    assert not set(stream.getvalue()) & set("\x1b\x07\u202e")
    assert stream.getvalue().count("\n") == 2  # one line each: none can be forged
    assert "\\x1b[2J" in stream.getvalue()


def test_the_closing_line_counts_only_what_this_run_spent() -> None:
    clock, dispatcher = Clock(), Dispatcher()
    dispatcher.counts = Spent(calls=100, hits=50, retries=5, prompt_tokens=9_000, completion_tokens=1_000)
    job = Reporter("quiet", io.StringIO(), clock).job("cot-qwen on MMStar", 2, traffic=dispatcher)
    job.on_done(DONE)
    job.on_done(DONE)
    dispatcher.counts = Spent(calls=112, hits=53, retries=6, prompt_tokens=1_200_000, completion_tokens=44_000)
    clock.now += 125
    assert closing_line(job) == (
        "cot-qwen on MMStar: 2 of 2 questions done, 0 owed, 0 unparsed; 12 calls (3 replayed, 1 retries), 1.23M tokens in 2 min 5 s"
    )


def test_time_left_follows_the_last_minute_and_not_the_replayed_rush() -> None:
    clock = Clock()
    job = Reporter("quiet", io.StringIO(), clock).job("j", 1000)
    for _ in range(500):
        job.on_done(DONE)
    clock.now += 1
    job.status()  # 500 replayed in the first second
    for _ in range(90):  # then one question in two seconds
        clock.now += 2
        job.on_done(DONE)
        line = job.status()
    assert job.done == 590
    assert "13 min 40 s left" in line


def test_time_left_is_not_guessed_before_anything_was_done() -> None:
    job = Reporter("quiet", io.StringIO(), Clock()).job("j", 10, done=5)
    assert "time left unknown" in job.status()


def test_a_backbone_that_does_not_answer_is_said_instead_of_a_time_left() -> None:
    clock, dispatcher = Clock(), Dispatcher()
    job = Reporter("quiet", io.StringIO(), clock).job("j", 10, traffic=dispatcher)
    clock.now += 1
    job.on_done(DONE)
    dispatcher.counts = Spent(calls=3, retries=7, circuit="open")
    line = job.status()
    assert "the backbone does not answer, waiting" in line
    assert "7 retries" in line
    assert "left" not in line


def test_calls_and_tokens_are_rates_and_sums() -> None:
    clock, dispatcher = Clock(), Dispatcher()
    job = Reporter("quiet", io.StringIO(), clock).job("j", 10, traffic=dispatcher)
    clock.now += 4
    dispatcher.counts = Spent(calls=50, hits=7, prompt_tokens=12_345)
    assert "50 calls at 12.5/s, 12.3k tokens, 7 replayed" in job.status()


def test_a_slow_model_is_counted_by_the_minute_and_its_time_left_by_more_than_the_last_minute() -> None:
    clock, dispatcher = Clock(), Dispatcher()
    job = Reporter("quiet", io.StringIO(), clock).job("j", 5, traffic=dispatcher)
    line = ""
    for second in range(1, 301):
        clock.now += 1
        if second in (10, 20, 300):
            job.on_done(DONE)
        dispatcher.counts = Spent(calls=second // 20)
        line = job.status()
    assert line.startswith("3/5 done, 15 calls at 3.0/min, ")
    assert line.endswith("3 min 20 s left")


def test_tokens_that_the_backbone_did_not_count_are_not_passed_over() -> None:
    assert Spent(calls=3, prompt_tokens=1000, calls_without_usage=1).tokens == "1.0k+"
    assert Spent(calls=3, calls_without_usage=3).tokens == "unknown"
    assert Spent().tokens == "0"


def test_a_log_gets_a_line_at_most_every_ten_seconds_for_each_job() -> None:
    clock, log = Clock(), io.StringIO()
    reporter = Reporter("plain", log, clock)
    first, second = reporter.job("a on POPE", 300), reporter.job("b on POPE", 300)
    for _ in range(25):
        clock.now += 1
        first.on_done(DONE)
        second.on_done(OWED)
        reporter.tick()
    assert [line.split(":")[0] for line in log.getvalue().splitlines()] == ["a on POPE", "b on POPE"] * 2
    reporter.close(first)
    clock.now += 10
    second.on_done(DONE)
    reporter.tick()
    assert [line.split(":")[0] for line in log.getvalue().splitlines()][4:] == ["a on POPE", "b on POPE"]
    reporter.close(second)
    clock.now += 10
    reporter.tick()
    assert len(log.getvalue().splitlines()) == 7


def test_a_log_without_news_gets_a_line_a_minute() -> None:
    clock, log = Clock(), io.StringIO()
    reporter = Reporter("plain", log, clock)
    reporter.job("a on POPE", 3)
    for _ in range(200):
        clock.now += 1
        reporter.tick()
    assert len(log.getvalue().splitlines()) == 4  # the first, then one a minute


def test_quiet_prints_the_closing_line_only() -> None:
    log = io.StringIO()
    with open_reporter(quiet=True, stream=log) as reporter:
        job = reporter.job("mug-qwen on POPE", 1)
        job.on_done(DONE)
        reporter.tick()
        reporter.close(job)
    assert log.getvalue().splitlines() == [closing_line(job)]


def test_a_stream_that_is_no_terminal_gets_no_control_characters() -> None:
    log = io.StringIO()
    with open_reporter(quiet=False, stream=log) as reporter:
        job = reporter.job("mug-qwen [red] on POPE", 1)
        job.on_done(DONE)
        reporter.note("POPE: 2 rows without a picture were dropped")
        reporter.close(job)
    assert log.getvalue().splitlines() == ["POPE: 2 rows without a picture were dropped", closing_line(job)]


@pytest.mark.parametrize(("columns", "environment"), [(40, {}), (120, {}), (80, {"NO_COLOR": "1"})])
def test_a_terminal_gets_live_lines_that_fit_and_obey_no_color(
    columns: int, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ours, theirs = pty.openpty()
    shown = ""

    def look() -> None:
        nonlocal shown
        pieces = []
        with contextlib.suppress(OSError):  # the terminal is closed
            while piece := os.read(ours, 1 << 16):
                pieces.append(piece)
        shown = b"".join(pieces).decode()

    looking = threading.Thread(target=look)
    looking.start()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal, open_reporter(quiet=False, stream=terminal) as reporter:
        job = reporter.job("mug-qwen [red] on HallusionBench", 8)
        job.on_done(DONE)
        reporter.tick()
        reporter.close(job)
    looking.join()
    os.close(ours)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    live = [
        line for line in re.split(r"[\r\n]+", plain) if "questions done" not in line and ("/8 done" in line or "mug-qwen" in line)
    ]
    assert any("1/8 done" in line for line in live) or columns < 80
    assert any("mug-qwen [red]" in line for line in live)
    assert all(len(line) <= columns for line in live)
    assert "1 of 8 questions done" in plain.replace("\r", "").replace("\n", " ")
    coloured = re.search(r"\x1b\[[0-9;]*(3[0-7]|38;|9[0-7])[0-9;]*m", shown)
    assert (coloured is None) == ("NO_COLOR" in environment)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (7620, "2 h 7 min"), (273600, "3 d 4 h")]
)
def test_durations_in_words(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(("count", "said"), [(0, "0"), (999, "999"), (1000, "1.0k"), (4_560_000, "4.56M"), (2 * 10**9, "2.00G")])
def test_amounts_in_few_characters(count: int, said: str) -> None:
    assert amount(count) == said


def row(model: str, benchmark: str, **headline: float | None) -> ScoreRow:
    return ScoreRow(model, benchmark, headline, 120, 12.5, 4321.4, None, 12.0, 3.25, 2, 1)


def test_scores_stand_beside_their_price_one_table_a_benchmark() -> None:
    rows = [
        row("mug-qwen", "POPE", acc=88.125, F1=87.5),
        row("direct-qwen", "MMStar", Overall=61.0),
        row("cot-qwen", "POPE", acc=None),
    ]
    pope, mmstar = score_table(rows, 140).split("\n\n")
    assert pope.splitlines()[0] == "POPE"
    assert [line.split() for line in pope.splitlines()[2:]] == [
        ["mug-qwen", "88.12", "87.50", "12.50", "4,321", "-", "12.00", "3.25", "120", "2", "1"],
        ["cot-qwen", "-", "-", "12.50", "4,321", "-", "12.00", "3.25", "120", "2", "1"],
    ]
    assert len({len(line) for line in pope.splitlines()[1:]}) == 1
    assert "acc" not in mmstar
    assert "61.00" in mmstar


def test_a_narrow_terminal_gets_a_line_a_number() -> None:
    text = score_table([row("mug-qwen", "POPE", acc=88.0)], 40)
    assert max(map(len, text.splitlines())) <= 40
    assert re.search(r"^acc +88\.00$", text, re.MULTILINE)
    assert re.search(r"^owed +1$", text, re.MULTILINE)

"""The pages in a real browser: headless Chromium, driven by Playwright, opened from disk as a user would."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2", reason="pages need Jinja2 (the report extra)")
pytest.importorskip("playwright", reason="the browser is driven by Playwright: pip install playwright")

from page_runs import HOSTILE, write_runs
from playwright import sync_api as playwright

from mug_eval.cli import main

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = os.environ.get("MUG_EVAL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
if CHROMIUM is None:
    pytest.skip("no Chromium here: apt-get install chromium, or name one in MUG_EVAL_CHROMIUM", allow_module_level=True)

# A browser that asks nobody for anything: no updates, no look-ups of its maker's hosts.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
MANY = 5004
PATIENCE = 120_000
"""milliseconds for whatever the browser does: a machine with other work may take long over it"""

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("pages") / "outputs"
    write_runs(work)
    assert main(["view", str(work), "--build", str(work.parent / "site")]) == 0
    return work.parent / "site"


@pytest.fixture(scope="module")
def large_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("large") / "outputs"
    write_runs(work, times=MANY // 12)
    assert main(["view", str(work), "--build", str(work.parent / "site")]) == 0
    return work.parent / "site"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens a page from disk; at the end it must have complained of nothing, and asked for nothing but files."""
    complaints: list[str] = []
    asked: list[str] = []
    contexts = []

    def opened(site: Path, name: str, width: int = 1280, height: int = 800, dark: bool = False) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"file://{site}/{name}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file://", "data:"))] == []


def at_game(page: Any, index: str) -> None:
    page.wait_for_function("index => document.querySelector('#game .bar .id')?.textContent === index", arg=index)


GAMES = "games-mug-toy--ScenesMCQ.html"


@pytest.mark.parametrize(
    "name", ["index.html", "board.html", "run-mug-toy--ScenesMCQ.html", "run-direct-toy--ScenesMCQ.html", GAMES]
)
@pytest.mark.parametrize(("width", "height", "dark"), [(1280, 800, False), (390, 844, True)])
def test_a_page_opens_from_disk_without_complaint_and_fits_the_screen(
    open_page: Open, site: Path, name: str, width: int, height: int, dark: bool
) -> None:
    page = open_page(site, name, width, height, dark)
    page.wait_for_selector("h1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(part) for part in ground.removeprefix("rgb(").removesuffix(")").split(","))
    assert (brightness < 150) == dark


def test_a_game_shows_both_pictures_with_the_change_outlined(open_page: Open, site: Path) -> None:
    page = open_page(site, GAMES)
    at_game(page, "0")
    images = page.locator(".pictures img")
    assert images.count() == 2
    page.wait_for_function(
        "[...document.querySelectorAll('.pictures img')].every(image => image.complete && image.naturalWidth > 0)"
    )
    assert images.nth(0).get_attribute("src") != images.nth(1).get_attribute("src")
    assert page.locator(".pictures svg rect").count() >= 2
    page.keyboard.press("o")
    assert not page.locator(".pictures svg").first.is_visible()


def test_hostile_words_are_read_and_not_run(open_page: Open, site: Path) -> None:
    page = open_page(site, GAMES)
    at_game(page, "0")
    said = page.locator(".words").all_text_contents()
    assert HOSTILE[0] in said and HOSTILE[1] in said and HOSTILE[2] in said
    page.wait_for_timeout(200)
    assert page.title() != "owned"
    assert page.locator("#game script, #game img[src=x], #game a[href^='javascript']").count() == 0


def test_the_undercover_is_hidden_until_a_guess(open_page: Open, site: Path) -> None:
    page = open_page(site, GAMES + "#1")
    at_game(page, "1")
    assert "Agent 3 is the undercover" not in page.locator("#game").inner_text() and not page.locator(".truth").is_visible()
    page.locator(".guess button", has_text="Agent 1").click()
    assert page.locator("#guess").inner_text().startswith("No: Agent 3 is the undercover")
    assert "It was not the undercover" in page.locator(".truth").inner_text()
    page.keyboard.press("ArrowRight")
    at_game(page, "2")
    assert not page.locator(".truth").is_visible(), "the next game is to be guessed anew"
    page.keyboard.press("u")
    assert "it was found" in page.locator("#guess").inner_text()


def test_votes_are_arrows_and_the_one_voted_out_is_crossed(open_page: Open, site: Path) -> None:
    page = open_page(site, GAMES + "#1")
    at_game(page, "1")
    assert page.locator(".arrows path.vote").count() == 3
    assert page.locator(".arrows .gone").text_content() == "Agent 2"
    assert page.locator(".ratings tr.voted").count() == 3


@pytest.mark.parametrize(
    ("show", "indices"),
    # MUG is wrong at 3, 7, 11; direct is right at 0, 3, 6, 9; the undercover is found in even games; 3 has no answer.
    [
        ("fixed", ["1", "2", "4", "5", "8", "10"]),
        ("broken", ["3"]),
        ("wrong", ["3", "7", "11"]),
        ("survived", ["1", "3", "5", "7", "9", "11"]),
        ("unparsed", ["3"]),
    ],
)
def test_filters_leave_the_games_that_they_name(open_page: Open, site: Path, show: str, indices: list[str]) -> None:
    page = open_page(site, f"{GAMES}?show={show}")
    at_game(page, indices[0])
    assert [row.split(" · ")[-1] for row in page.locator(".row .s").all_text_contents()] == indices
    for index in indices[1:]:
        page.keyboard.press("j")
        at_game(page, index)
    assert page.locator("#after").is_disabled()


def test_types_and_words_are_found(open_page: Open, site: Path) -> None:
    page = open_page(site, GAMES)
    at_game(page, "0")
    kinds = page.locator("#type option").all_text_contents()[1:]
    page.select_option("#type", kinds[0])
    count = page.locator(".row").count()
    assert 0 < count < 12 and all(f" · {kinds[0]} · " in row for row in page.locator(".row .s").all_text_contents())
    page.select_option("#type", "")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("no such words at all")
    assert page.locator(".row").count() == 0 and page.locator("#count").inner_text() == "0 of 12 games"


def test_a_link_leads_to_one_game_and_a_wrong_one_says_so(open_page: Open, site: Path) -> None:
    page = open_page(site, GAMES + "#7")
    at_game(page, "7")
    page.keyboard.press("ArrowLeft")
    at_game(page, "6")
    assert page.url.endswith("#6")
    page.go_back()
    at_game(page, "7")
    page.evaluate("location.hash = '#nowhere'")
    page.wait_for_selector("text=There is no game nowhere in this run.")


def test_on_a_phone_the_list_is_a_drawer(open_page: Open, site: Path) -> None:
    page = open_page(site, GAMES, 390, 844)
    at_game(page, "0")
    assert not page.locator("#list").is_visible()
    page.locator("#drawer").click()
    page.locator(".row").nth(4).click()
    at_game(page, "4")
    assert not page.locator("#list").is_visible()


def test_a_heading_sorts_the_board(open_page: Open, site: Path) -> None:
    page = open_page(site, "board.html")
    first = page.locator("table.board tbody tr td:first-child")
    page.locator("table.board th button", has_text="calls").click()
    page.locator("table.board th button", has_text="%").click()
    scores = [float(text) for text in page.locator("table.board td.strong").all_text_contents()]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == 2
    assert first.first.text_content() == "mug"
    page.locator("table.board th button", has_text="%").click()
    assert first.first.text_content() == "direct"


def test_on_a_phone_a_row_of_the_board_shows_its_score_without_being_pushed_aside(open_page: Open, site: Path) -> None:
    page = open_page(site, "board.html", 390, 844)
    for cells in ("td:first-child", "td.strong", "td:nth-child(3)", "td:nth-child(8)"):
        boxes = [cell.bounding_box() for cell in page.locator(f"table.board {cells}").all() if cell.is_visible()]
        assert boxes and all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
    page.locator("table.board th button", has_text="%").click()
    scores = [float(text) for text in page.locator("table.board td.strong").all_text_contents()]
    assert scores == sorted(scores, reverse=True)


def test_on_a_phone_a_run_of_the_index_shows_its_difference_and_price(open_page: Open, site: Path) -> None:
    page = open_page(site, "index.html", 390, 844)
    for head in ("difference", "fixed", "broken", "calls"):
        boxes = [cell.bounding_box() for cell in page.locator(f"table.runs td[data-head={head}]").all() if cell.is_visible()]
        assert boxes and all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)


def test_five_thousand_games_are_listed_without_as_many_elements_or_reading_them_all(open_page: Open, large_site: Path) -> None:
    page = open_page(large_site, GAMES)
    at_game(page, "0")
    assert page.locator("#count").inner_text() == f"{MANY} games"
    assert page.locator(".row").count() < 40
    page.evaluate("document.getElementById('list').scrollTop = 58 * 4000")
    page.wait_for_selector(".row[style*='top:232000px'], .row[style*='top: 232000px']")
    assert page.locator(".row").count() < 40
    page.keyboard.press("End")
    at_game(page, "11.416")
    read = page.evaluate(
        "performance.getEntriesByType('resource').filter(entry => /data\\/.*\\/\\d+\\.js/.test(entry.name)).length"
    )
    assert read <= 5, "only the chunks around the games that were looked at"

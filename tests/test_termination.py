"""SIGTERM ends work as Ctrl-C does, for whatever runs; differences and addresses are spoken of alike wherever they come up."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mug_eval.backbones.endpoint import endpoint
from mug_eval.counterfactual.folder import CounterfactualFolder
from mug_eval.counterfactual.store import Store
from mug_eval.differences import differences
from mug_eval.errors import UserError
from mug_eval.termination import run_until_terminated


@pytest.fixture
def own_handler() -> Iterator[list[int]]:
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
    yield got
    signal.signal(signal.SIGTERM, before)


def test_sigterm_lets_the_work_put_down_what_it_has_and_reads_as_ctrl_c(own_handler: list[int]) -> None:
    put_down = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(30)
        finally:
            put_down.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_until_terminated(work())
    assert put_down and not own_handler


def test_who_handled_sigterm_before_does_so_again(own_handler: list[int]) -> None:
    async def work() -> int:
        return 7

    assert run_until_terminated(work()) == 7
    os.kill(os.getpid(), signal.SIGTERM)
    assert own_handler == [signal.SIGTERM]


def test_differences_tell_a_text_from_the_value_that_it_spells() -> None:
    assert differences({"seed": 3}, {"seed": "3"}) == ['seed was 3, is "3"']
    assert differences({"limit": None}, {"limit": "None"}) == ["limit was null, is None"]
    assert differences({"a": {"b": "x"}}, {"a": {"b": "y\nz"}}) == ['a.b was x, is "y\\nz"'], "one line each"
    assert differences({"a": 1}, {}) == ["a was 1, is not there"]
    assert differences({}, {"a": "not there"}) == ['a was not there, is "not there"']


@pytest.mark.parametrize("whose", ["", "editor's"])
@pytest.mark.parametrize("wrong", ["ftp://host/v1", "host/v1", "http://host/v1?key=1", "http://[/v1"])
def test_an_address_that_is_none_is_refused_for_backbones_and_editors_alike(whose: str, wrong: str) -> None:
    with pytest.raises(UserError, match=f"{whose} base URL".strip()):
        endpoint(wrong, "/images/edits", whose)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(UserError) as refused:
        endpoint("https://me:hunter2@host/v1", "/images/edits", "editor's")
    assert "hunter2" not in str(refused.value)


def test_a_store_without_an_accepted_picture_says_so_instead_of_proposing_to_remove_its_manifest(tmp_path: Path) -> None:
    with Store(tmp_path / "cf", {"benchmark": "POPE"}) as store:
        store.give_up("1", "nothing found", cause="no_plan")
        store.close(["1"])
    with pytest.raises(UserError, match=r"no accepted picture.*report") as refused:
        CounterfactualFolder(tmp_path / "cf")
    assert "remove" not in str(refused.value)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "manifest.jsonl").write_text("")
    with pytest.raises(UserError, match="remove it to have pictures matched by name"):
        CounterfactualFolder(tmp_path / "mine")


def test_a_question_given_up_again_for_the_same_reason_has_been_tried_again(tmp_path: Path) -> None:
    for attempt in range(3):
        with Store(tmp_path / "cf", {"benchmark": "POPE"}) as store:
            assert (store.take_up_again(["1"]) == ["1"]) == (attempt > 0)
            assert store.attempt("1") == attempt, "each attempt draws other seeds"
            store.give_up("1", "no scene graph", cause="no_graph")
            store.close(["1"])

"""The store: whatever happens to a build, what it decided is there, nothing else is, and the bytes do not tell how it went."""

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from mug_eval.counterfactual.folder import CounterfactualFolder
from mug_eval.counterfactual.publish import publish
from mug_eval.counterfactual.store import Accepted, Store, Try, png
from mug_eval.errors import RunStopped, UserError
from mug_eval.seeds import generator

BUILD = {
    "benchmark": "POPE",
    "editor": "opencv",
    "seed": 0,
    "rule": {"c": 0.5},
    "features": {"visual": {"name": "handmade", "sha256": "0"}},
}
SCORES = {"vs": 0.9, "sc": 0.8, "na": 0.7, "change": 0.5, "local": 1.0, "seam": 1.0}
INDICES = tuple(str(number) for number in range(12))


def picture(index, what):
    draw = generator("picture", index, what)
    image = Image.new("RGB", (16, 12))
    image.putdata([tuple(draw.randbytes(3)) for _ in range(16 * 12)])
    return image


def original(index):
    return png(picture(index, "original"))


def accepted(index, tries=1):
    sha256 = hashlib.sha256(original(index)).hexdigest()
    box = (1.0, 2.0, 8.5, 9.0)
    words = ("remove", "object", "the bus", "Remove the bus.")
    return Accepted(index, sha256, 0, *words, (box,), "opencv", "rules", 7, tries, SCORES)


def rejected(number):
    return Try(number, number, "remove", "the bus", "Remove the bus.", ("change",), "C_change = 0 < 0.05", SCORES, "ab" * 32)


def decide(store, index):
    """What a builder does for a question; every third is given up."""
    if int(index) % 3 == 0:
        store.give_up(index, "never accepted in 2 tries", [rejected(1), rejected(2)], {"answer_before": "No"}, edit_type="object")
    else:
        store.accept(accepted(index, 2), picture(index, "edited"), [rejected(1)], {"answer_before": "Yes", "answer_after": "No"})


def build(folder, indices=INDICES, order=INDICES, settings=BUILD):
    with Store(folder, settings) as store:
        for index in indices:
            if not store.decided(index):
                decide(store, index)
        store.close(order)


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_the_harness_reads_a_store_as_it_is(tmp_path):
    build(tmp_path / "cf")
    folder = CounterfactualFolder(tmp_path / "cf")
    assert len(folder) == 8 and folder.sha256
    found = folder.find("1", [original("1")], [])
    assert found.match == "question" and found.image.sha256 == hashlib.sha256(png(picture("1", "edited"))).hexdigest()
    assert ("instruction", "Remove the bus.") in found.edit and ("edit_type", "object") in found.edit
    assert folder.find("3", [original("3")], []) is None


def test_provenance_is_in_the_manifest_and_answers_are_only_in_a_file_of_their_own(tmp_path):
    build(tmp_path / "cf")
    line = json.loads((tmp_path / "cf" / "manifest.jsonl").read_text().splitlines()[0])
    assert line["question_index"] == "1" and line["file"] == f"pictures/{line['file_sha256'][:2]}/{line['file_sha256']}.png"
    assert line["features"] == BUILD["features"] and line["scores"] == SCORES and line["tries"] == 2 and line["accepted"] is True
    assert line["boxes"] == [[1.0, 2.0, 8.5, 9.0]] and line["planner"] == "rules" and line["seed"] == 7
    holding = [name for name, data in content(tmp_path / "cf").items() if b"answer" in data]
    assert holding == ["answers.jsonl"]
    tries = [json.loads(line) for line in (tmp_path / "cf" / "tries.jsonl").read_text().splitlines()]
    assert [(each["question_index"], each["number"]) for each in tries[:3]] == [("0", 1), ("0", 2), ("1", 1)]
    assert tries[0]["rejected"] == ["change"]


def test_the_order_of_events_does_not_show(tmp_path):
    build(tmp_path / "a")
    build(tmp_path / "b", INDICES[::-1])
    for part in (INDICES[5:8], INDICES[:3], INDICES):
        build(tmp_path / "c", part)
    assert content(tmp_path / "a") == content(tmp_path / "b") == content(tmp_path / "c")


def test_a_question_is_decided_once_and_nothing_made_is_thrown_away_by_a_smaller_build(tmp_path):
    build(tmp_path / "cf")
    before = content(tmp_path / "cf")
    with Store(tmp_path / "cf", BUILD) as store:
        assert all(store.decided(index) for index in INDICES) and not store.decided("99")
        assert store.given_up["3"]["state"] == "no_counterfactual" and len(store.tries["3"]) == 2 and len(store.accepted) == 8
        with pytest.raises(ValueError, match="decided"):
            decide(store, "1")
    build(tmp_path / "cf", INDICES[:2])
    assert content(tmp_path / "cf") == before


def test_a_build_that_failed_before_its_first_question_binds_nobody(tmp_path):
    with Store(tmp_path / "cf", BUILD):
        pass
    with Store(tmp_path / "cf", {**BUILD, "editor": "folder"}) as store:
        assert json.loads((tmp_path / "cf" / "build.json").read_bytes())["editor"] == "folder"
        decide(store, "0")
    with pytest.raises(UserError, match="built with other settings"):
        Store(tmp_path / "cf", BUILD)
    foreign = tmp_path / "theirs"
    foreign.mkdir()
    (foreign / "build.json").write_text('{"tool": "make"}')
    with pytest.raises(UserError, match="built with other settings"):
        Store(foreign, BUILD)
    assert (foreign / "build.json").read_text() == '{"tool": "make"}'


def test_another_configuration_is_refused_and_the_line_says_what_differs(tmp_path):
    build(tmp_path / "cf", ["1"])
    before = content(tmp_path / "cf")
    with pytest.raises(UserError, match=r"rule\.c was 0\.5, is 0\.6; planner was not there, is qwen\."):
        Store(tmp_path / "cf", {**BUILD, "rule": {"c": 0.6}, "planner": "qwen"})
    assert content(tmp_path / "cf") == before
    (tmp_path / "holiday").mkdir()
    (tmp_path / "holiday" / "beach.jpg").write_bytes(b"x")
    with pytest.raises(UserError, match="no store of ours"):
        Store(tmp_path / "holiday", BUILD)


def test_two_builds_at_once_are_one_too_many(tmp_path):
    with Store(tmp_path / "cf", BUILD), pytest.raises(UserError, match=f"another build \\(process {os.getpid()}\\) is writing"):
        Store(tmp_path / "cf", BUILD)
    build(tmp_path / "cf")


def test_a_torn_line_and_a_question_half_recorded_are_done_again(tmp_path):
    build(tmp_path / "whole")
    build(tmp_path / "cf", INDICES[:6])
    lines = (tmp_path / "cf" / "manifest.jsonl").read_bytes()
    (tmp_path / "cf" / "manifest.jsonl").write_bytes(lines[:-20])  # question 5: its tries and picture are there, its line is torn
    with Store(tmp_path / "cf", BUILD) as store:
        assert not store.decided("5") and "5" not in store.tries
    build(tmp_path / "cf")
    assert content(tmp_path / "cf") == content(tmp_path / "whole")


def test_a_picture_that_no_line_names_is_removed(tmp_path):
    build(tmp_path / "cf")
    before = content(tmp_path / "cf")
    (tmp_path / "cf" / "pictures" / "zz").mkdir()
    (tmp_path / "cf" / "pictures" / "zz" / "left.png").write_bytes(b"x")
    build(tmp_path / "cf")
    assert content(tmp_path / "cf") == before


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "another picture", "a folder"])
def test_a_picture_that_was_lost_is_made_again(tmp_path, damage):
    with Store(tmp_path, BUILD) as store:
        for index in INDICES:
            decide(store, index)
        lost = tmp_path / store.accepted["4"]["file"]
        other = tmp_path / store.accepted["5"]["file"]
        store.close(INDICES)
    before = content(tmp_path)
    data = lost.read_bytes()
    lost.unlink()
    if damage == "a folder":
        lost.mkdir()
    elif damage != "missing":
        lost.write_bytes({"empty": b"", "cut": data[:-9], "another picture": other.read_bytes()}[damage])
    with Store(tmp_path, BUILD) as store:
        assert store.lost == ["4"]
        assert [index for index in INDICES if not store.decided(index)] == ["4"] and "4" not in store.tries
        if damage == "a folder":
            lost.rmdir()
        decide(store, "4")
        store.close(INDICES)
    assert content(tmp_path) == before


@pytest.mark.parametrize("line", [b"{]\n", b"[1]\n", b'{"question_index": 5}\n'])
def test_a_damaged_line_is_named(tmp_path, line):
    build(tmp_path / "cf", ["1"])
    with (tmp_path / "cf" / "manifest.jsonl").open("ab") as file:
        file.write(line)
    with pytest.raises(UserError, match=r"manifest\.jsonl line 2 is no record"):
        Store(tmp_path / "cf", BUILD)


def test_a_question_decided_twice_is_named(tmp_path):
    build(tmp_path / "cf", ["1"])
    path = tmp_path / "cf" / "manifest.jsonl"
    path.write_bytes(2 * path.read_bytes())
    with pytest.raises(UserError, match="question 1 stands there 2 times"):
        Store(tmp_path / "cf", BUILD)


SLOW = """
import sys, time
sys.path[:0] = [{tests!r}, {root!r}]
from pathlib import Path
import test_counterfactual_store as t
print("ready", flush=True)
with t.Store(Path(sys.argv[1]), t.BUILD) as store:
    for index in t.INDICES:
        if not store.decided(index):
            sys.stdin.readline()
            t.decide(store, index)
            print(index, flush=True)
    store.close(t.INDICES)
"""


def test_kills_leave_a_store_that_ends_with_the_same_bytes(tmp_path):
    build(tmp_path / "whole")
    tests = Path(__file__).parent
    script = SLOW.format(tests=str(tests), root=str(tests.parent))
    for number, wait in enumerate((1, 2, 1, 3)):
        command = [sys.executable, "-c", script, str(tmp_path / "cf")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
            assert process.stdin is not None and process.stdout is not None and process.stdout.readline() == "ready\n"
            process.stdin.write("\n" * (wait + 1))  # it may decide one more than is waited for, and no other
            process.stdin.flush()
            for _ in range(wait):
                process.stdout.readline()
            time.sleep(generator("kill", number).random() / 500)
            process.kill()
        assert process.returncode == -signal.SIGKILL
    build(tmp_path / "cf")
    assert content(tmp_path / "cf") == content(tmp_path / "whole")


def test_on_a_full_disk_the_question_stays_undecided_and_nothing_is_lost(tmp_path):
    build(tmp_path / "whole")
    build(tmp_path / "cf", INDICES[:4])
    before = content(tmp_path / "cf")
    tries = (tmp_path / "cf" / "tries.jsonl").stat().st_size
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with Store(tmp_path / "cf", BUILD) as store:
            for room in (10, tries + 100, tries + 2000):  # nothing fits; a piece of the try; all but the line that decides
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
                with pytest.raises(RunStopped, match="make room"):
                    store.give_up("6", "x" * 20000, [rejected(1)])
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
                assert not store.decided("6") and "6" not in store.tries
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
            with pytest.raises(RunStopped):
                store.accept(accepted("4"), picture("4", "edited"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert content(tmp_path / "cf") == before
            decide(store, "4")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    build(tmp_path / "cf")
    assert content(tmp_path / "cf") == content(tmp_path / "whole")


def test_only_pixels_go_into_a_picture():
    bare = picture("1", "edited")
    noted = bare.copy()
    noted.info["exif"] = b"Exif\x00\x00secret"
    noted.info["pnginfo"] = PngImagePlugin.PngInfo()
    noted.text = {"caption": "edited"}
    assert png(noted) == png(bare) and b"secret" not in png(noted)


def test_a_published_store_loads_as_a_data_set_of_pictures(tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    build(tmp_path / "cf")
    assert publish(tmp_path / "cf", tmp_path / "out", lambda index, position: original(index)) == 8
    loaded = datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"), split="train")
    by_index = {row["question_index"]: row for row in loaded}
    assert sorted(by_index) == sorted(index for index in INDICES if int(index) % 3)
    row = by_index["4"]
    assert row["image"].convert("RGB").tobytes() == picture("4", "edited").tobytes()
    assert row["original"].convert("RGB").tobytes() == picture("4", "original").tobytes()
    assert json.loads(row["scores"]) == SCORES and row["instruction"] == "Remove the bus."
    assert not any("answer" in column for column in loaded.column_names)
    loaded.save_to_disk(str(tmp_path / "arrow"))
    assert len(datasets.load_from_disk(str(tmp_path / "arrow"))) == 8


def test_publishing_refuses_what_would_be_wrong(tmp_path):
    with pytest.raises(UserError, match="no store"):
        publish(tmp_path / "nothing", tmp_path / "out")
    build(tmp_path / "cf", ["0"])
    with pytest.raises(UserError, match="no accepted edit"):
        publish(tmp_path / "cf", tmp_path / "out")
    build(tmp_path / "cf")
    assert publish(tmp_path / "cf", tmp_path / "out") == 8
    assert "original" not in (tmp_path / "out" / "train" / "metadata.jsonl").read_text()
    with pytest.raises(UserError, match="is there already"):
        publish(tmp_path / "cf", tmp_path / "out")
    next((tmp_path / "cf" / "pictures").rglob("*.png")).write_bytes(b"other")
    with pytest.raises(UserError, match="is not the picture"):
        publish(tmp_path / "cf", tmp_path / "again")
    assert not (tmp_path / "again").exists() and not (tmp_path / ".again.part").exists()

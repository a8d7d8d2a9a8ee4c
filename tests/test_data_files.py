"""A local file is named alike in every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from mug_eval.benchmarks.data_files import data_files
from mug_eval.errors import UserError


def test_a_file_is_named_with_its_benchmark_or_alone_where_there_is_one(tmp_path: Path) -> None:
    one, other, odd = tmp_path / "a.tsv", tmp_path / "b.tsv", tmp_path / "x=y.tsv"
    for path in (one, other, odd):
        path.touch()
    both = {"POPE": one, "MMStar": other}
    assert data_files([f"MMStar={other}", f"POPE={one}"], ["POPE", "MMStar"]) == both
    assert data_files([str(one)], ["POPE"]) == data_files([f"POPE={one}"], ["POPE"]) == {"POPE": one}
    assert data_files([str(odd)], ["POPE"]) == data_files([f"POPE={odd}"], ["POPE"]) == {"POPE": odd}
    assert data_files([], ["POPE"]) == {}


@pytest.mark.parametrize(
    ("words", "benchmarks", "said"),
    [
        (["there.tsv"], ["POPE", "MMStar"], "write NAME=TSV"),
        (["POPE="], ["POPE"], "write NAME=TSV"),
        (["MMStar=there.tsv"], ["POPE"], "'MMStar' is not among the benchmarks here .POPE."),
        (["POPE=there.tsv", "POPE=there.tsv"], ["POPE"], "twice"),
        (["there.tsv", "POPE=there.tsv"], ["POPE"], "twice"),
        (["gone.tsv"], ["POPE"], "no such file"),
        (["POPE=."], ["POPE"], "not a file"),
    ],
)
def test_anything_else_is_one_line(
    words: list[str], benchmarks: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.tsv").touch()
    with pytest.raises(UserError, match=said):
        data_files(words, benchmarks)

"""The files of a result folder (README, "Results"): what is in them and in which order they are written."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mug_eval import __version__
from mug_eval.atomic import atomic_write
from mug_eval.benchmarks import Scores
from mug_eval.differences import differences
from mug_eval.errors import UserError
from mug_eval.methods import Method
from mug_eval.plan import Job

SCHEMA = 1
"""Version of the files' layout."""

_PACKAGES = ("ms-vlmeval", "aiohttp", "pandas", "pillow", "torch", "transformers")


@dataclass(frozen=True, slots=True)
class ResultFolder:
    """``<work-dir>/<model>/<benchmark>``."""

    path: Path

    @classmethod
    def of(cls, work_dir: Path, job: Job) -> ResultFolder:
        """The folder of a job."""
        return cls(work_dir / job.model / job.benchmark)

    @property
    def games(self) -> Path:
        """One line a question."""
        return self.path / "games.jsonl"

    @property
    def predictions(self) -> Path:
        """The exchange file that the scorer reads."""
        return self.path / "predictions.tsv"

    @property
    def scores(self) -> Path:
        """The scorer's output and the headline numbers."""
        return self.path / "scores.json"

    @property
    def items(self) -> Path:
        """One line a question: its cluster, and whether the scorer took the answer for right."""
        return self.path / "items.tsv"

    @property
    def run(self) -> Path:
        """Config, versions, counts, cost; there only when the run is complete."""
        return self.path / "run.json"

    @property
    def plan(self) -> Path:
        """What the games are played with, written before the first; resuming compares it."""
        return self.path / "plan.json"

    @property
    def owed(self) -> Path:
        """The questions without a game and why; there only while there are some."""
        return self.path / "owed.json"

    def recorded(self) -> dict[str, Any] | None:
        """``run.json`` as it stands; None where there is none that can be read."""
        try:
            found = json.loads(self.run.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Make the folder ours, or see that it is: games of other settings must not be mixed with these.

        Raises:
            UserError: the folder holds games that were played with other settings; names them.
            RunStopped: the disk is full.
        """
        if self.plan.exists():
            try:
                before = json.loads(self.plan.read_text(encoding="utf-8"))
            except (ValueError, OSError, RecursionError):
                before = None
            if not isinstance(before, dict):
                raise UserError(f"{self.plan} is damaged; choose another --work-dir or remove {self.path}")
            changed = differences(before, identity)
            if changed:
                raise UserError(
                    f"{self.path} holds games played with other settings ({'; '.join(changed[:4])}); "
                    "choose another --work-dir, or give the old settings to continue"
                )
            return
        if self.games.exists() and self.games.stat().st_size:
            raise UserError(f"{self.path} holds games but no plan.json to tell how they were played; choose another --work-dir")
        write_json(self.plan, identity)

    def reopen(self) -> None:
        """Take back the mark of completion and what was made from the games: there may be more of them soon."""
        for path in (self.run, self.scores, self.items, self.predictions, self.owed):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise UserError(f"{path} cannot be replaced ({error.strerror}); remove it, or choose another --work-dir") from None


def write_json(path: Path, value: Any) -> None:
    """Indented JSON, whole or not at all.

    Raises:
        RunStopped: the disk is full.
    """
    atomic_write(path, json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False) + "\n")


def items_tsv(right: Mapping[str, bool], cluster: Callable[[str], str]) -> str:
    """``items.tsv``: what statistics need of every question that was scored.

    Args:
        right: question index -> whether the scorer took the answer for right, in the dataset's order.
        cluster: of an index, which questions are not independent.
    """
    rows = [f"{json.dumps(index)}\t{json.dumps(cluster(index))}\t{int(hit)}" for index, hit in right.items()]
    return "\n".join(["index\tcluster\tright", *rows]) + "\n"


@dataclass(slots=True)
class Tally:
    """Sums over the games of a job, fed one record at a time so that memory stays flat."""

    questions: int = 0
    unparsed: int = 0
    asked_again: int = 0
    truncated: int = 0
    shortened: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    usage: Counter[str] = field(default_factory=Counter)
    unknown_tokens: int = 0
    _facts: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def over(cls, records: Iterable[Mapping[str, Any]]) -> Tally:
        """The tally of all records."""
        tally = cls()
        for record in records:
            tally.add(record)
        return tally

    def add(self, record: Mapping[str, Any]) -> None:
        """Count one line of ``games.jsonl``."""
        self.questions += 1
        self.unparsed += "unparsed" in record["answer"]
        self.ended[record["ended"]] += 1
        self.asked_again += sum(1 for event in record["events"] if event.get("asked_again"))
        self.truncated += sum(1 for call in record["calls"] if call["finish_reason"] == "length")
        self.shortened += sum(1 for event in record["events"] if event.get("event") == "transcript_dropped")
        usage = record["usage"]
        for name in ("calls", "images", "seconds", "calls_without_usage"):
            self.usage[name] += usage[name]
        for name in ("prompt_tokens", "completion_tokens"):
            self.usage[name] += usage[name] or 0
        for name, value in record["facts"].items():
            if isinstance(value, bool | int | float):
                total = self._facts.setdefault(name, [0.0, 0])
                total[0] += value
                total[1] += 1

    def cost(self) -> dict[str, Any]:
        """Means a question; tokens are null if the backbone left them out of any call, since a partial sum is no price."""
        known = self.usage["calls_without_usage"] == 0
        return {
            "calls": self._mean(self.usage["calls"]),
            "prompt_tokens": self._mean(self.usage["prompt_tokens"]) if known else None,
            "completion_tokens": self._mean(self.usage["completion_tokens"]) if known else None,
            "images": self._mean(self.usage["images"]),
            "seconds": self._mean(self.usage["seconds"]),
        }

    def totals(self) -> dict[str, Any]:
        """Sums over all questions."""
        names = ("calls", "prompt_tokens", "completion_tokens", "images", "seconds", "calls_without_usage")
        return {name: round(self.usage[name], 3) for name in names}

    def game(self) -> dict[str, Any]:
        """How games ended, and the mean of each fact over the games that state it with their number."""
        facts = {name: {"mean": round(total / n, 6), "games": int(n)} for name, (total, n) in sorted(self._facts.items())}
        return {"ended": dict(sorted(self.ended.items())), "facts": facts}

    def _mean(self, total: float) -> float | None:
        return round(total / self.questions, 3) if self.questions else None


def scores_json(job: Job, scores: Scores, tally: Tally, missing: int) -> dict[str, Any]:
    """``scores.json``: what came out beside what it cost. All but ``cost.seconds`` is the same for the same seed and replies."""
    return {
        "schema": SCHEMA,
        "model": job.model,
        "benchmark": job.benchmark,
        "headline": scores.headline,
        "questions": tally.questions,
        "limit": job.limit,
        "missing": missing,
        "unparsed": tally.unparsed,
        "cost": tally.cost(),
        "game": tally.game(),
        **scores.extra,
        "scorer": scores.scorer,
    }


def versions() -> dict[str, str]:
    """The versions of what took part."""
    found = {"mug_eval": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def method_fingerprint(method: Method) -> str:
    """SHA-256 over the files that a method's games depend on: its module, those of the methods it imports (prompts among them), the parser.

    Games of two versions must not be mixed; another method's file changes nothing.
    """
    package = Path(__file__).parent
    files = set((package / "answers").glob("*.py"))
    todo = [method.play.__module__]
    while todo:
        path = package.parent / (todo.pop().replace(".", "/") + ".py")
        if path in files or not path.is_file():
            continue
        files.add(path)
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mug_eval.methods"):
                todo += [str(node.module), *(f"{node.module}.{name.name}" for name in node.names)]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


_WHEN = ("command", "started", "finished")


def unless_repeated(now: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """The record of a run: the one before where nothing but command and time is new, so that a repetition does not change its date."""

    def what(record: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in record.items() if name not in _WHEN}

    return before if before is not None and what(before) == json.loads(json.dumps(what(now))) else now


def run_json(
    job: Job,
    identity: Mapping[str, Any],
    tally: Tally,
    notes: Sequence[str],
    *,
    command: Sequence[str],
    rows: int,
    missing: int,
    started: str,
    finished: str,
) -> dict[str, Any]:
    """``run.json``: how the numbers came about."""
    return {
        "schema": SCHEMA,
        "model": job.model,
        "benchmark": job.benchmark,
        "config": dict(identity),
        "limit": job.limit,
        "judge": job.judge,
        "versions": versions(),
        "command": list(command),
        "counts": {
            "questions": rows,
            "played": tally.questions,
            "missing": missing,
            "unparsed": tally.unparsed,
            "asked_again": tally.asked_again,
            "cut_at_max_tokens": tally.truncated,
            "transcript_dropped": tally.shortened,
        },
        "cost": {"mean": tally.cost(), "total": tally.totals()},
        "notes": list(notes),
        "started": started,
        "finished": finished,
    }

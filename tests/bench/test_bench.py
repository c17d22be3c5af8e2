"""The benchmarks run and say what they found in full; nothing here is about how fast it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.bench import figures, page

ROOT = Path(__file__).parents[2]
NAMES = {
    "log": ["append in batches", "record, 5/s each, ours", "record, 50/s each, raw", "verify"],
    "airspace": ["room: full scan, distances warm, seed", "room: one agent, edits a file, seed",
                 "crowd of 40: full scan, seed", "room: positions, first"],
    "room": ["first import", "ready", "idle processor time", "append of a hard mention", "post to delivered",
             "burst ingest"],
    "coordination": ["acquire + release, SQLite, one caller", "acquire + release, SQLite, raw",
                     "acquire + release, SQLite, 8 callers", "acquire + release, SQLite, the best",
                     "claims, SQLite, behind none", "HTTP acquire", "MCP acquire", "relay mcp, start", "recall",
                     "acquire + release, PostgreSQL"],
    "doors_ratio": ["the bare echo", "HTTP acquire, SQLite, times the echo", "MCP over HTTP acquire, PostgreSQL"],
    "timeline": ["record", "record with 5 touches", "record with 5 touches, raw", "lane page of 500 heads",
                 "page of 500 heads of all lanes", "last write of a path", "snapshot after 5 touched files",
                 "snapshot after 5 touched files, raw", "full look", "loop lag", "rewind", "rewind, raw", "undo",
                 "verify", "push and pull", "import, all", "import, the last beside the first", "clock merge"],
    "memory": ["merge of clocks", "between of clocks", "SQLite: import, with events", "SQLite: recall, 8 words",
               "SQLite: recall, 8 words, processor time", "SQLite: recall, 8 words, hits read",
               "PostgreSQL: import, with events", "PostgreSQL: recall, 8 words", "all as it is: recall@5",
               "without stems: MRR", "with hop decay: recall@5", "forward curve of 001, ties random: MRR",
               "rebuild from", "what did A decide about X"],
    "metrics": ["read", "event loop late by", "fold of", "look, 20 new events", "look, nothing new"],
    "landing": ["landing, 0 failing pairs: main red", "landing, 0 failing pairs: test runs",
                "landing, 0 failing pairs: queue beside the tests", "landing, 1 failing pairs: main red",
                "10 changesets at once: passed"],
    "fleet": ["messages, 1 member", "lock pairs, 2 members", "claims, 2 members", "idle, the server for each member",
              "an entry of one member at another", "another member leads", "a new member has"],
    "long_life": ["the room is made", "the database, a post", "ready", "the last 100 entries", "100 older entries",
                  "search", "recall", "verify", "the transcript's archive", "archive of half a year of events"],
    "guard": ["python, with nothing", "guard hook, as the presets", "guard hook, with no room"],
    "webhook": ["webhook to queued, SQLite", "webhook that came before, SQLite", "webhook to queued, PostgreSQL"],
}  # fmt: skip


@pytest.mark.parametrize("bench", NAMES)
def test_a_benchmark_says_what_it_found(bench: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"scripts.bench.{bench}", "--quick", "--dir", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["bench"], report["quick"]) == (bench, True)
    assert {"cpu", "cores", "memory", "kernel", "python", "sqlite", "fsync"} <= set(report["machine"])
    for wanted in NAMES[bench]:
        assert any(figure["name"].startswith(wanted) for figure in report["figures"]), wanted
    for figure in report["figures"]:
        assert figure["n"] > 0 and figure["unit"]
        assert "value" in figure or figure["p50"] <= figure["p95"] <= figure["p99"] <= figure["max"]
        for key, target in figure["targets"].items():
            assert key in figure and isinstance(target["met"], bool)
    missed = {
        f"{f['name']}: {key}"
        for f in report["figures"]
        for key in f["targets"]
        if not f["targets"][key]["met"]
    }
    assert missed == set(report["missed"])
    assert list(tmp_path.iterdir()) == [], "it leaves nothing behind"
    assert all(figure["name"] in page.table(report) for figure in report["figures"] if figure["targets"])


def test_the_page_of_figures_is_what_the_reports_say() -> None:
    assert (ROOT / "docs" / "figures.md").read_text() == page.page()
    for path in sorted(page.FOLDER.glob("*.json")):
        report = json.loads(path.read_text())
        assert path.stem == report["bench"] and not report["quick"], path.name
        assert page.table(report) in page.page()


#: Benchmarks that also need a browser's driver.
VIEWS = ("airspace_view", "timeline_view")


def test_a_benchmark_needs_no_more_than_the_room_does() -> None:
    """After `start.sh` alone: without the packages of the tests, and without the tests."""
    benches = sorted(
        path.stem
        for path in (ROOT / "scripts" / "bench").glob("*.py")
        if path.stem not in ("__init__", *VIEWS)
    )
    locks = (
        (ROOT / name).read_text().splitlines() for name in ("requirements.lock", "requirements-test.lock")
    )
    room, tests = ({line.partition("==")[0] for line in lock if "==" in line} for lock in locks)
    assert "aiohttp" in room and "pytest" in tests - room
    code = f"""
import importlib, importlib.metadata, sys
sys.modules["tests"] = None
for view in {VIEWS!r}:
    importlib.import_module("scripts.bench." + view)
absent = {sorted(tests - room)!r}
for package, names in importlib.metadata.packages_distributions().items():
    if any(name.lower().replace("_", "-") in absent for name in names):
        sys.modules[package] = None
for bench in {benches!r}:
    importlib.import_module("scripts.bench." + bench)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_target_is_met_or_missed() -> None:
    samples = [number / 1000 for number in range(1, 101)]
    figure = figures.spread("x", samples, limits=figures.at_most(p50=50, p99=98))
    assert figure.values == {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
    assert (figure.met("p50"), figure.met("p99")) == (True, False)
    told: dict[str, Any] = figure.as_json()
    assert told["targets"] == {
        "p50": {"target": "<= 50", "met": True},
        "p99": {"target": "<= 98", "met": False},
    }
    rate = figures.single("y", 4999.9, "entries/s", limits=figures.at_least(5000))
    assert not rate.met("value")


def test_nothing_measured_is_no_figure() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        figures.spread("x", [])

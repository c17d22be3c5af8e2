"""The benchmarks run and say what they found in full; nothing here is about how fast it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.bench import against, figures, page

ROOT = Path(__file__).parents[2]
NAMES = {
    "log": ["append in batches", "record, 5/s each, ours", "record, 50/s each, raw", "verify"],
    "airspace": ["room: full scan, distances warm, seed", "room: one agent, edits a file, seed",
                 "crowd of 40: full scan, seed", "room: positions, first"],
    "room": ["first import", "ready", "idle processor time", "idle, ten agents, memory",
             "append of a hard mention", "post to delivered", "burst ingest"],
    "coordination": ["acquire + release, SQLite, one caller", "processor time of a pair, SQLite, 8",
                     "acquire + release, SQLite, 8 callers", "acquire + release, SQLite, the best",
                     "claims, SQLite, behind none", "HTTP acquire", "MCP acquire", "relay mcp, start", "recall",
                     "acquire + release, PostgreSQL"],
    "doors_ratio": ["the bare echo", "the SDK's echo", "HTTP acquire, SQLite", "MCP over stdio acquire, SQLite",
                    "MCP over HTTP acquire, PostgreSQL", "MCP over stdio acquire, PostgreSQL"],
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
    "graph": ["cold build", "warm start", "one changed file", "symbols of one pair, sides known"],
    "worktrees": ["make 2 worktrees", "from one write to the working set", "working sets"],
    "guard": ["guard hook, as the presets", "git's hook for a commit, by a running room, processor time",
              "guard hook, with no room"],
    "steering": ["heard, after the first tool boundary", "heard, after the post", "races with the turn's end: lost",
                 "a session in the room, from its first hook"],
    "commands": ["relay locks, processor time", "relay memory recall", "relay verify, processor time"],
    "long_life": ["the room is made", "the database, a post", "ready", "the last 100 entries", "100 older entries",
                  "search", "recall", "verify", "the transcript's archive", "archive of half a year of events"],
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


def test_one_command_takes_them_all(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    words = [sys.executable, "-m", "scripts.bench"]
    options = ["--quick", "--only", "metrics", "guard", "airspace_view", "--out", str(found)]
    environment = {**os.environ, "RELAY_CHROMIUM": str(tmp_path / "none")}
    done = subprocess.run(
        [*words, *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    told = json.loads(found.read_text())
    assert [report["bench"] for report in told["reports"]] == ["metrics", "guard", "airspace_view"]
    goals = sum(len(figure["targets"]) for report in told["reports"] for figure in report["figures"])
    assert goals == told["met"] + len(told["missed"]) > 0
    assert told["not_measured"], "there is no browser"
    for text in ("fold of", "git's hook for a commit", "python -c pass", *(told["missed"])):
        assert text in done.stderr or text in found.read_text()
    assert f"not measured: {told['not_measured'][0]['reason']}" in done.stderr
    listed = subprocess.run([*words, "--list"], capture_output=True, text=True, cwd=ROOT, check=True)
    assert {line.split()[0] for line in listed.stdout.splitlines()} >= {*NAMES, *VIEWS, "merge"}


def test_two_codes_by_turns(capsys: pytest.CaptureFixture[str]) -> None:
    """Rates and times that differ more than their rounds, that differ less, and what one of them lacks."""
    order: list[str] = []

    def measured(name: str, tree: Path) -> dict[str, Any]:
        old = tree != against.ROOT
        assert (tree / "relay" / "cli.py").samefile(ROOT / "relay" / "cli.py")
        assert (tree / "scripts" / "bench").samefile(ROOT / "scripts" / "bench")
        order.append("before" if old else "after")
        floor = figures.single("floor", 100 + len(order), "pairs/s")
        seen = [
            figures.beside(figures.single("faster", 40 if old else 80, "pairs/s"), floor),
            figures.spread("slower", [0.001 if old else 0.002]),
            figures.spread("alike", [0.001 + len(order) / 100_000]),
        ]
        lacks = [] if old else [{"name": "more", "reason": "none here"}]
        return {"figures": [figure.as_json() for figure in seen], "not_measured": lacks}

    told = against.compared(["log"], ROOT, 2, measured)
    assert order == ["before", "after", "after", "before"]
    assert told["worse"] == ["log: slower"]
    rows = {row["name"]: row for row in told["figures"]}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "faster": "better", "slower": "worse", "alike": "",
    }  # fmt: skip
    assert rows["faster"]["seen"]["times_better"] == 2.0 and rows["slower"]["seen"]["times_better"] == 0.5
    assert rows["faster"]["ratio"]["before"] < rows["faster"]["ratio"]["after"]
    assert told["not_measured"] == [{"when": "after", "name": "more", "reason": "none here"}] * 2
    assert "log: slower (ms)" in capsys.readouterr().err
    shown = page.before_and_after({"at": "now", **told})
    assert "| log: slower, ms | 1 | 2 | 0.50 |  |  | worse |" in shown
    assert "log: faster" in shown and "alike" not in shown


def test_the_page_of_figures_is_what_the_reports_say() -> None:
    assert (ROOT / "docs" / "figures.md").read_text() == page.page()
    for path in sorted(page.FOLDER.glob("*.json")):
        report = json.loads(path.read_text())
        if path.stem == "against":
            assert page.before_and_after(report) in page.page()
            continue
        assert path.stem == report["bench"] and not report["quick"], path.name
        assert page.table(report) in page.page()


#: Benchmarks that also need a browser's driver.
VIEWS = ("airspace_view", "room_view", "timeline_view")


def test_a_benchmark_needs_no_more_than_the_room_does() -> None:
    """After `start.sh` alone: without the packages of the tests, and without the tests."""
    benches = sorted(
        path.stem
        for path in (ROOT / "scripts" / "bench").glob("*.py")
        if path.stem not in ("__init__", "__main__", *VIEWS)
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
    floor = figures.spread("z", [number / 2000 for number in range(1, 101)])
    ratio = figures.beside(figure, floor, figures.at_most(ratio=1.5))
    assert (ratio.values["ratio"], ratio.values["ratio_p99"], ratio.met("ratio")) == (2.0, 2.0, False)
    raw = figures.spread("x, raw", [0.01])
    assert figures.joined([figure, rate, raw])[0].floor == raw
    assert [one.floor for one in figures.joined([figure, rate])] == [None, None]
    told = ratio.as_json()
    assert told["floor"] == {"name": "z", **floor.values} and set(told["targets"]) == {"p50", "p99", "ratio"}


def test_nothing_measured_is_no_figure() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        figures.spread("x", [])

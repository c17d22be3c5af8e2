"""`relay airspace scan --scenario`: what it reads, what it refuses, what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relay.airspace.scan.scenario import ScenarioError, read
from relay.cli import main
from relay.model.working_set import FileTouch, Span, WorkingSet


def agent(**more: Any) -> dict[str, Any]:
    return {"agents": [{"agentId": "A", **more}]}


@pytest.mark.parametrize(
    ("why", "given", "wanted"),
    [
        ("no files", {}, WorkingSet("A")),
        ("null is nothing", {"files": None, "intent": None, "startedAt": None}, WorkingSet("A")),
        ("a path alone", {"files": ["src/a.py"]}, WorkingSet("A", (FileTouch("src/a.py"),), committed=1.0)),
        ("all of it", {"files": [{"path": "a", "lines": [[3, 7], [9, 8]], "weight": 0.5}]},
         WorkingSet("A", (FileTouch("a", lines=(Span(3, 7), Span(9, 8)), weight=0.5),), committed=0.5)),
        ("no lines: the whole file", {"files": [{"path": "a", "lines": []}]},
         WorkingSet("A", (FileTouch("a"),), committed=1.0)),
        ("other ways to write a path", {"files": ["./src\\core//a.py/"]},
         WorkingSet("A", (FileTouch("src/core/a.py"),), committed=1.0)),
        ("a path twice",
         {"files": [{"path": "a", "lines": [[1, 2]], "weight": 0.3}, {"path": "./a", "lines": [[5, 6]]}]},
         WorkingSet("A", (FileTouch("a", lines=(Span(1, 2), Span(5, 6))),), committed=1.0)),
        ("Unix seconds", {"startedAt": 1750000000}, WorkingSet("A", started_at=1750000000.0)),
        ("milliseconds", {"startedAt": 1750000000500}, WorkingSet("A", started_at=1750000000.5)),
        ("ISO", {"startedAt": "2026-06-20T15:40:40-04:00"}, WorkingSet("A", started_at=1781984440.0)),
        ("ISO, UTC", {"startedAt": "2026-06-20T19:40:40Z"}, WorkingSet("A", started_at=1781984440.0)),
        ("ISO without a zone is UTC", {"startedAt": "2026-06-20 19:40:40"}, WorkingSet("A", started_at=1781984440.0)),
        ("intent", {"intent": ["a", {"path": "b", "lines": [[1, 1]]}]},
         WorkingSet("A", intent=(FileTouch("a"), FileTouch("b", lines=(Span(1, 1),))))),
        ("a number for a name", {"agentId": 7}, WorkingSet("7")),
    ],
)  # fmt: skip
def test_an_agent(why: str, given: dict[str, Any], wanted: WorkingSet) -> None:
    assert read(agent(**given)).agents == (wanted,), why


@pytest.mark.parametrize(
    ("why", "graph", "wanted"),
    [
        ("none", None, {}),
        ("empty", {}, {}),
        ("adjacency", {"adjacency": {"a": ["b", "./b", "c"]}}, {"a": ("b", "c")}),
        ("null", {"adjacency": None}, {}),
        ("the adjacency itself", {"a": ["b"]}, {"a": ("b",)}),
        ("edges", [["a", "b"], ["a", "c"]], {"a": ("b", "c")}),
        ("edges by name", {"edges": [["a", "b"]]}, {"a": ("b",)}),
        ("edges as adjacency", {"adjacency": [["a", "b"]]}, {"a": ("b",)}),
    ],
)
def test_a_graph(why: str, graph: Any, wanted: dict[str, tuple[str, ...]]) -> None:
    assert read({"agents": [], "graph": graph}).adjacency == wanted, why


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ([], "scenario: expected an object with `agents`, got an empty list"),
        ({}, "agents: missing; expected a list of agents"),
        ({"agents": {}}, "agents: expected a list, got an object"),
        ({"agents": ["A"]}, "agents[0]: expected an object with `agentId` and `files`, got 'A'"),
        ({"agents": [{}]}, "agents[0].agentId: expected a name, got nothing"),
        (agent(agentId=" "), "agents[0].agentId: expected a name, got ' '"),
        (agent(agentId=True), "agents[0].agentId: expected a name, got true"),
        ({"agents": [{"agentId": "A"}, {"agentId": "A"}]}, "agents[1].agentId: 'A' comes twice"),
        (agent(files="a"), "agents[0].files: expected a list, got 'a'"),
        (agent(files=[1]), "agents[0].files[0]: expected a path or an object with `path`, got 1"),
        (agent(files=[{}]), "agents[0].files[0].path: expected a path, got nothing"),
        (agent(files=["../x"]),
         "agents[0].files[0]: expected a path inside the repository, relative to its root, got '../x'"),
        (agent(files=["/etc/x"]),
         "agents[0].files[0]: expected a path inside the repository, relative to its root, got '/etc/x'"),
        (agent(files=[""]),
         "agents[0].files[0]: expected a path inside the repository, relative to its root, got ''"),
        (agent(files=[{"path": "a", "lines": [1, 5]}]),
         "agents[0].files[0].lines[0]: expected a range [first, last], got 1; a single range is written "
         "[[first, last]]"),
        (agent(files=[{"path": "a", "lines": [[1, 2], [3]]}]),
         "agents[0].files[0].lines[1]: expected a range [first, last], got a list"),
        (agent(files=[{"path": "a", "lines": [[1, "2"]]}]),
         "agents[0].files[0].lines[0]: expected two line numbers, got [1, '2']"),
        (agent(files=[{"path": "a", "lines": [[0, 4]]}]),
         "agents[0].files[0].lines[0]: expected first >= 1 and last >= first (last = first - 1 is an "
         "insertion), got [0, 4]"),
        (agent(files=[{"path": "a", "lines": [[9, 4]]}]),
         "agents[0].files[0].lines[0]: expected first >= 1 and last >= first (last = first - 1 is an "
         "insertion), got [9, 4]"),
        (agent(files=[{"path": "a", "weight": 1.5}]),
         "agents[0].files[0].weight: expected a weight above 0 and up to 1, got 1.5"),
        (agent(files=[{"path": "a", "weight": 0}]),
         "agents[0].files[0].weight: expected a weight above 0 and up to 1, got 0"),
        (agent(files=[{"path": "a", "weight": "1"}]), "agents[0].files[0].weight: expected a number, got '1'"),
        (agent(startedAt="soon"), "agents[0].startedAt: expected an ISO 8601 time or Unix seconds, got 'soon'"),
        (agent(startedAt=float("nan")), "agents[0].startedAt: expected a number, got nan"),
        (agent(startedAt=-1), "agents[0].startedAt: expected a time since 1970, got -1"),
        (agent(intent="a"), "agents[0].intent: expected a list, got 'a'"),
        ({"agents": [], "graph": "a"}, "graph: expected {file: [imported files]}, got 'a'"),
        ({"agents": [], "graph": {"adjacency": {"a": "b"}}}, "graph.adjacency['a']: expected a list, got 'b'"),
        ({"agents": [], "graph": {"adjacency": {"a": [1]}}}, "graph.adjacency['a'][0]: expected a path, got 1"),
        ({"agents": [], "graph": [["a"]]}, "graph[0]: expected an edge [importer, imported], got a list"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_by_its_key(given: Any, error: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(given)
    assert str(refused.value) == error


# -- the command

#: A and B change lines 6-10 of one file, of 10 and 10 lines: 5 of 15. C changes what A's other file imports.
STORY = {
    "agents": [
        {"agentId": "B", "files": [{"path": "src/auth/session.py", "lines": [[6, 15]]}], "startedAt": 200},
        {"agentId": "A", "startedAt": 100, "files": [
            {"path": "src/auth/session.py", "lines": [[1, 10]]}, {"path": "src/web/page.py", "weight": 0.5},
        ]},
        {"agentId": "C", "files": [{"path": "lib/html.py", "weight": 0.8}]},
        {"agentId": "D", "files": ["docs/index.md"]},
    ],
    "graph": {"adjacency": {"src/web/page.py": ["lib/html.py"]}},
}  # fmt: skip


def scan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], story: Any, *words: str, profile: str = "seed"
) -> tuple[int, str, str]:
    path = tmp_path / "scenario.json"
    path.write_text(story if isinstance(story, str) else json.dumps(story))
    code = main(["airspace", "scan", "--scenario", str(path), "--profile", profile, *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_it_prints_all_pairs_and_what_they_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = scan(tmp_path, capsys, STORY, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert list(told) == ["advisories", "links", "positions", "fileCoordinates", "counts"]
    links = {(one["a"], one["b"]): one for one in told["links"]}
    assert sorted(links) == [("A", "B"), ("A", "C"), ("A", "D"), ("B", "C"), ("B", "D"), ("C", "D")]
    # A-B: file Jaccard 1/2 beats 5/15; the same file: tree 1. R = 1 - 0.5 x 0.75.
    assert links["A", "B"]["channels"] == {"overlap": 0.5, "dependency": 0.0, "tree": 1.0}
    assert links["A", "B"]["risk"] == 0.625 == 1 - links["A", "B"]["distance"]
    assert links["A", "B"]["level"] == "advisory"
    # A-C: 0.5 x 0.8 x 1 through the import. R = 1 - (1 - 0.36).
    assert links["A", "C"]["channels"] == {"overlap": 0.0, "dependency": 0.4, "tree": 0.0}
    assert (links["A", "C"]["risk"], links["A", "C"]["level"]) == (0.36, "advisory")
    assert links["A", "C"]["readings"]["dependency"]["weight"] == 0.9
    assert (links["C", "D"]["risk"], links["C", "D"]["level"]) == (0.0, "clear")
    assert [(one["agents"], one["risk"]) for one in told["advisories"]] == [
        (["A", "B"], 0.625),
        (["A", "C"], 0.36),
    ]
    first = told["advisories"][0]
    assert (first["transmit"], first["steer"], first["hold"]) == (["A", "B"], [], [])
    assert first["reason"] == "TRANSMIT: A, B"
    assert "src/auth/session.py" in first["evidence"][0]["text"]
    assert told["counts"] == {
        "agents": 4, "pairs": 6, "clear": 4, "advisory": 2, "resolution": 0, "files": 4,
    }  # fmt: skip
    assert sorted(told["positions"]) == ["A", "B", "C", "D"]
    assert sorted(told["fileCoordinates"]) == sorted(
        ["src/auth/session.py", "src/web/page.py", "lib/html.py", "docs/index.md"]
    )


@pytest.mark.parametrize(
    ("why", "one", "two", "hold"),
    [
        ("more work", {"files": ["f", "g"], "startedAt": 9}, {"files": ["f"], "startedAt": 1}, "ONE"),
        ("earlier start", {"files": ["f"], "startedAt": 9}, {"files": ["f"], "startedAt": 1}, "TWO"),
        ("lower id", {"files": ["f"]}, {"files": ["f"]}, "ONE"),
    ],
)
def test_at_a_resolution_advisory_one_steers(
    why: str,
    one: dict[str, Any],
    two: dict[str, Any],
    hold: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    story = {"agents": [{"agentId": "TWO", **two}, {"agentId": "ONE", **one}]}
    (told,) = json.loads(scan(tmp_path, capsys, story, "--json")[1])["advisories"]
    steer = "ONE" if hold == "TWO" else "TWO"
    assert told["level"] == "resolution", why
    assert (told["hold"], told["steer"], told["transmit"]) == ([hold], [steer], ["ONE", "TWO"]), why
    assert told["reason"].startswith(f"HOLD: {hold} (work ")


def test_the_later_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(scan(tmp_path, capsys, STORY, "--json", profile="coefficient")[1])
    channels = {(one["a"], one["b"]): one["channels"] for one in told["links"]}
    assert channels["A", "B"] == {"overlap": 0.5, "dependency": 0.0, "tree": 1.0}  # 5 of 10
    assert channels["A", "C"]["dependency"] == 0.4


def test_the_order_of_the_agents_does_not_matter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = {**STORY, "agents": list(reversed(STORY["agents"]))}  # type: ignore[call-overload]
    assert scan(tmp_path, capsys, STORY, "--json") == scan(tmp_path, capsys, other, "--json")


def test_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = {"agents": [{"agentId": "[red]A\x1b[2J", "files": ["f"]}, {"agentId": "B", "files": ["f"]}]}
    code, out, _ = scan(tmp_path, capsys, story)
    assert code == 0 and "\x1b" not in out
    assert "B - [red]A" in out and "both change f" in out
    assert "2 agents, 1 pairs by profile seed: 1 resolution, 0 advisory, 0 clear." in out


@pytest.mark.parametrize(
    "agents", [[], [{"agentId": "A"}], [{"agentId": "A"}, {"agentId": "B", "files": []}]]
)
def test_few_agents(agents: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(scan(tmp_path, capsys, {"agents": agents}, "--json")[1])
    assert len(told["positions"]) == len(agents)
    assert told["advisories"] == [] and len(told["links"]) == max(0, len(agents) - 1)
    assert scan(tmp_path, capsys, {"agents": agents})[0] == 0


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = scan(tmp_path, capsys, "{", "--json")
    assert (code, out) == (2, "") and "is not JSON" in err
    code, out, err = scan(tmp_path, capsys, {"agents": 3}, "--json")
    assert (code, out) == (2, "") and "agents: expected a list, got 3" in err
    assert main(["airspace", "scan", "--scenario", str(tmp_path / "gone"), "--profile", "seed"]) == 1
    assert "cannot be read: No such file" in capsys.readouterr().err
    for words in (
        ["airspace", "scan"],
        ["airspace", "scan", "--scenario", "x", "--profile", "no"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2

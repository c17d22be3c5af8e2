"""Recorded pairs: what is read, what is refused and where, and the command that scores them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from relay.airspace.scan.recorded_pairs import BadPairs, read
from relay.app.commands.airspace import risk
from relay.cli import main
from relay.model.working_set import Change, Span

SAMPLE = Path(__file__).parent / "data" / "pairs-sample.jsonl.gz"


def record(**more: Any) -> dict[str, Any]:
    a = [{"path": "a.py", "st": "M", "lines": [[3, 4]], "nn": [1], "crc": [7], "u": [0], "len": 9, "c": 5}]
    b = [
        {"path": "a.py", "st": "M", "lines": [[4, 4]], "nn": [1], "crc": [8], "u": [0], "len": 9, "c": 5},
        {"path": "d/b.py", "st": "R", "new": "e/b.py", "lines": []},
    ]
    early = {"a": {"files": [{"path": "a.py", "st": "M", "lines": []}]}, "b": {"files": []}, "graph": []}
    whole = {"id": "one", "a": {"files": a}, "b": {"files": b}, "graph": [["a.py", "d/b.py"]]}
    return whole | {"early": early} | more


def written(tmp_path: Path, *lines: Any, packed: bool = False) -> Path:
    text = "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines)
    path = tmp_path / ("pairs.jsonl.gz" if packed else "pairs.jsonl")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_reads_a_pair(tmp_path: Path, packed: bool) -> None:
    (pair,) = read(written(tmp_path, record(), packed=packed))
    (mine,) = pair.full.a.files
    assert (mine.lines, mine.churn, mine.length) == ((Span(3, 4, 1, 7, 0),), 5, 9)
    moved = pair.full.b.files[1]
    assert (moved.change, moved.new_path, moved.churn) == (Change.RENAMED, "e/b.py", None)
    assert pair.full.near.coupling is not None and pair.full.near.coupling.hops == 1
    assert pair.early is not None and pair.early.a.files[0].churn == 5
    assert pair.conflict is None and pair.repo is None


def test_an_added_file_is_an_insertion_and_an_empty_one_is_known(tmp_path: Path) -> None:
    added = [
        {"path": "n", "st": "A", "lines": [], "nn": [3], "crc": [4]},
        {"path": "o", "st": "A", "lines": [], "nn": [], "crc": []},
    ]
    (pair,) = read(written(tmp_path, record(a={"files": added})))
    assert [one.lines for one in pair.full.a.files] == [(Span(1, 0, 3, 4),), (Span(1, 0, 0, 0),)]


def file(**more: Any) -> dict[str, Any]:
    return {"files": [{"path": "a", "st": "M", "lines": [[1, 1]]} | more]}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("{", "not JSON"),
        ("[]", "the line is not an object"),
        (record(id=3), "id is missing"),
        (record(a=None), "a is not an object"),
        (record(a={}), "a.files is not a list"),
        (record(a=file(path=1)), "a.files[0].path"),
        (record(a=file(st="X")), "st is 'X'"),
        (record(b=file(lines=[[5, 1]])), "ends before it begins"),
        (record(b=file(lines=[[1]])), "not [first, last]"),
        (record(b=file(nn=[1, 2])), "b.files[0].nn"),
        (record(b=file(c=-1)), "c is -1"),
        (record(graph=[["a"]]), "graph has an edge"),
        (record(early={"a": {"files": 1}}), "early.a.files is not a list"),
        (record(conflict="yes"), "conflict"),
    ],
)
def test_bad_input_says_where_and_what(tmp_path: Path, bad: Any, said: str) -> None:
    with pytest.raises(BadPairs) as found:
        list(read(written(tmp_path, record(), bad)))
    assert "line 2" in str(found.value) and said in str(found.value)


def test_damaged_compression_is_bad_input(tmp_path: Path) -> None:
    path = written(tmp_path, *[record()] * 50, packed=True)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(BadPairs, match="damaged"):
        list(read(path))


@pytest.mark.parametrize("profile", ["seed", "coefficient", "calibrated"])
def test_the_command_gives_a_line_for_a_line(capsys: pytest.CaptureFixture[str], profile: str) -> None:
    assert main(["airspace", "risk", "--pairs", str(SAMPLE), "--profile", profile]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    pairs = list(read(SAMPLE))
    assert [one["id"] for one in found] == [one.id for one in pairs]
    assert all(0.0 <= one["risk"] <= 1.0 and 0.0 <= one["early_risk"] <= 1.0 for one in found)


def test_without_half_done_work_there_is_no_early_risk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = record()
    del bare["early"]
    assert main(["airspace", "risk", "--pairs", str(written(tmp_path, bare))]) == 0
    assert json.loads(capsys.readouterr().out)["early_risk"] is None


def test_the_label_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for label in ({}, {"conflict": True, "repo": "r", "kind": "pair"}, {"conflict": False}):
        assert main(["airspace", "risk", "--pairs", str(written(tmp_path, record(**label)))]) == 0
    assert len(set(capsys.readouterr().out.splitlines())) == 1


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["airspace", "risk", "--pairs", str(tmp_path / "none")]) == 1
    assert main(["airspace", "risk", "--pairs", str(written(tmp_path, "{"))]) == 2
    assert "line 1" in capsys.readouterr().err


def test_several_processes_keep_the_order_and_say_all_that_comes_before_what_is_bad(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(risk, "_PIECE", 3)
    names = [f"p{at}" for at in range(20)]
    path = written(tmp_path, *(record(id=name) for name in names), "{", record(id="after"))
    assert main(["airspace", "risk", "--pairs", str(path)]) == 2
    told = capsys.readouterr()
    assert [json.loads(line)["id"] for line in told.out.splitlines()] == names
    assert "line 21" in told.err

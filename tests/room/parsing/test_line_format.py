from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.model import Kind, Message
from relay.room.parsing import line_format
from relay.room.parsing.line_format import Entry, Junk, Plain, Reason

ID = "0190c0de-0000-7000-8000-00000000000a"
ASKS = Message(id=ID, ts="2026-01-02T03:04:05.678Z", speaker="ann", kind=Kind.HUMAN, body="hello")


def message_of(entry: Entry) -> Message:
    names = [field.name for field in dataclasses.fields(entry) if field.name != "damaged"]
    return Message(**{name: getattr(entry, name) for name in names})


def line(**fields: object) -> bytes:
    return f"[ann] {json.dumps({'id': ID, 'body': 'hi', **fields})}\n".encode()


def test_a_line_is_tag_and_json_without_what_is_empty() -> None:
    assert line_format.encode(ASKS) == (
        b'[ann] {"id": "0190c0de-0000-7000-8000-00000000000a", "ts": "2026-01-02T03:04:05.678Z", '
        b'"speaker": "ann", "kind": "human", "body": "hello"}\n'
    )


def test_every_field_comes_back() -> None:
    full = replace(
        ASKS,
        speaker="CLAUDE",
        kind=Kind.AGENT,
        in_reply_to="0190c0de-0000-7000-8000-00000000000b",
        to=("ann", "CODEX"),
        job=7,
        meta={"usage": {"usd": 0.25}, "tools": ["read a.py"]},
    )
    read = line_format.decode(line_format.encode(full))
    assert isinstance(read, Entry)
    assert message_of(read) == full
    assert not read.damaged


@pytest.mark.parametrize(
    ("why", "body"),
    [
        ("a newline and a tag", "one\n[CODEX] two"),
        (
            "other ends of a line",
            "a\r\n[CODEX] b\x85[CODEX] c\u2028[CODEX] d\u2029[CODEX] e\x0b\x0cf\x1c\x1d\x1e",
        ),
        ("an escape to the terminal", "\x1b]52;c;aGk=\x07 \x9b2J \x7f \x00"),
        ("text that is turned around", "\u202e evil \u2066 x \u2069"),
        ("JSON in JSON", '{"id": "x"}\\n\\u2028'),
        ("wide and astral", "日本語 👩‍💻 ﷽"),
        ("nothing", ""),
    ],
)
def test_a_body_is_one_line_and_comes_back(why: str, body: str) -> None:
    written = line_format.encode(replace(ASKS, body=body))
    assert len(written.decode().splitlines()) == 1, why
    assert all(char.isprintable() or char == "\u200d" for char in written.decode()[:-1]), why
    assert line_format.decode(written).body == body, why  # type: ignore[union-attr]


@given(body=st.text(max_size=300), speaker=st.text(min_size=1, max_size=12), note=st.text(max_size=20))
def test_no_body_forges_a_line(body: str, speaker: str, note: str) -> None:
    message = replace(ASKS, body=body, speaker=speaker, meta={"note": note})
    if not line_format.is_speaker(speaker):
        with pytest.raises(ValueError, match="cannot be a speaker"):
            line_format.encode(message)
        return
    written = line_format.encode(message)
    assert len(written.decode().splitlines()) == 1
    read = line_format.decode(written)
    assert isinstance(read, Entry)
    assert message_of(read) == message


@given(st.binary(max_size=200))
def test_any_line_is_read_as_something(raw: bytes) -> None:
    for text in (raw, b"[ann] " + raw, b'[ann] {"id": "' + raw, b'[ann] {"body": ' + raw + b"}"):
        assert isinstance(line_format.decode(text), Entry | Plain | Junk)


def test_half_a_character_becomes_a_whole_one() -> None:
    assert line_format.decode(line_format.encode(replace(ASKS, body="a\ud800b"))).body == "a\ufffdb"  # type: ignore[union-attr]
    read = line_format.decode(line(body="x\udc00", meta={"k\ud800": ["\udfff"]}))
    assert isinstance(read, Entry)
    assert (read.body, read.meta) == ("x\ufffd", {"k\ufffd": ["\ufffd"]})


@pytest.mark.parametrize(
    ("raw", "speaker", "text"),
    [
        (b"[ann] hello there\n", "ann", "hello there"),
        (b"[ann]hello", "ann", "hello"),
        (b"[ann]   hello  \r\n", "ann", "hello"),
        (b"[ ann ] hi", "ann", "hi"),
        (b"[Ann Lee] hi", "Ann Lee", "hi"),
        (b"\xef\xbb\xbf[ann] hi", "ann", "hi"),
        ("[zoë] grüß".encode(), "zoë", "grüß"),
        (b"[ann] [CODEX] hi", "ann", "[CODEX] hi"),
        (b"[ann] {braces} are fine", "ann", "{braces} are fine"),
        (b'[ann] {"a": 1}', "ann", '{"a": 1}'),
        (b"[ann] {}", "ann", "{}"),
    ],
)
def test_a_line_by_hand(raw: bytes, speaker: str, text: str) -> None:
    assert line_format.decode(raw) == Plain(speaker, text)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", Reason.BLANK),
        (b"\n", Reason.BLANK),
        (b" \t \r\n", Reason.BLANK),
        (b"hello", Reason.NO_TAG),
        (b" [ann] hello", Reason.NO_TAG),
        (b"[ann hello", Reason.NO_TAG),
        (b"[[ann]] hello", Reason.NO_TAG),
        (b"[] hello", Reason.BAD_TAG),
        (b"[  ] hello", Reason.BAD_TAG),
        (b"[a\x1b[31mb] hello", Reason.NO_TAG),
        (b"[a\x07b] hello", Reason.BAD_TAG),
        ("[CLA\u200bUDE] hello".encode(), Reason.BAD_TAG),
        (b"[" + b"a" * 65 + b"] hello", Reason.BAD_TAG),
        (b"[ann] ", Reason.EMPTY),
        (b"[ann]", Reason.EMPTY),
        (b"[ann] one\n[bob] two\n", Reason.BAD_FIELD),
        (line_format.encode(ASKS)[:-20], Reason.TORN),
        (b'[ann] {"id": ' + b"[" * 100_000, Reason.TORN),
        (line(speaker="CODEX"), Reason.OTHER_SPEAKER),
        (line(speaker=["ann"]), Reason.OTHER_SPEAKER),
        (b'[ann] {"body": "no id"}', Reason.BAD_FIELD),
        (b'[ann] {"id": "' + ID.encode() + b'"}', Reason.BAD_FIELD),
        (line(id="12"), Reason.BAD_FIELD),
        (line(id=12), Reason.BAD_FIELD),
        (line(body=["hi"]), Reason.BAD_FIELD),
        (line(kind="boss"), Reason.BAD_FIELD),
        (line(kind=["human"]), Reason.BAD_FIELD),
        (line(ts=5), Reason.BAD_FIELD),
        (line(ts="\x1b[2J"), Reason.BAD_FIELD),
        (line(to="bob"), Reason.BAD_FIELD),
        (line(to=["b]b"]), Reason.BAD_FIELD),
        (line(job="7"), Reason.BAD_FIELD),
        (line(job=True), Reason.BAD_FIELD),
        (line(job=1 << 63), Reason.BAD_FIELD),
        (line(meta=[1]), Reason.BAD_FIELD),
        (line(meta={"x": float("nan")}), Reason.TORN),
        (line().replace(b'"hi"', b'"hi", "meta": {"x": 1e999}'), Reason.TORN),
    ],
)
def test_junk_says_why(raw: bytes, reason: Reason) -> None:
    read = line_format.decode(raw)
    assert isinstance(read, Junk)
    assert read.reason is reason
    assert read.detail.endswith(".")


def test_what_an_entry_leaves_out() -> None:
    assert line_format.decode(line()) == Entry(id=ID, speaker="ann", kind=Kind.HUMAN, body="hi")
    assert line_format.decode(
        line(id=ID.upper(), to=None, meta=None, job=None, ts=None)
    ) == line_format.decode(line())


def test_bytes_that_are_no_text_are_flagged() -> None:
    assert line_format.decode(b"[ann] caf\xe9") == Plain("ann", "caf\ufffd", damaged=True)
    read = line_format.decode(line().replace(b'"hi"', b'"h\xffi"'))
    assert isinstance(read, Entry)
    assert (read.body, read.damaged) == ("h\ufffdi", True)


# --- the file ---------------------------------------------------------------------------------------------


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return line_format.lock_path(tmp_path / ".relay", tmp_path / "elsewhere" / "transcript.log")


def test_a_missing_file_is_made_for_its_owner_only(tmp_path: Path, lock: Path) -> None:
    path = tmp_path / "room" / "transcript.log"
    assert line_format.append(path, lock, b"[ann] hi\n") == 9
    assert path.read_bytes() == b"[ann] hi\n"
    assert lock == tmp_path / ".relay" / "transcript.log.lock"
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent, lock, lock.parent)] == [
        0o600,
        0o700,
        0o600,
        0o700,
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"", b"[ann] hi\n"), (b"[b] x\n", b"[b] x\n[ann] hi\n"), (b"[b] cut", b"[b] cut\n[ann] hi\n")],
)
def test_a_line_starts_on_a_line_of_its_own(tmp_path: Path, lock: Path, before: bytes, after: bytes) -> None:
    path = tmp_path / "transcript.log"
    path.write_bytes(before)
    assert line_format.append(path, lock, b"[ann] hi\n") == len(after)
    assert path.read_bytes() == after


def test_half_a_line_is_not_appended(tmp_path: Path, lock: Path) -> None:
    with pytest.raises(ValueError, match="newline"):
        line_format.append(tmp_path / "transcript.log", lock, b"[ann] hi")
    assert not (tmp_path / "transcript.log").exists()


def _short_writes(monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    """The disk takes so many bytes at each write, then is full."""
    real = os.write

    def write(fd: int, data: bytes) -> int:
        if not sizes:
            raise OSError(28, "No space left on device")
        return real(fd, bytes(data)[: sizes.pop(0)])

    monkeypatch.setattr(line_format.os, "write", write)


def test_a_short_write_goes_on(tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _short_writes(monkeypatch, [3, 2, 99])
    assert line_format.append(tmp_path / "t", lock, b"[ann] hi\n") == 9
    assert (tmp_path / "t").read_bytes() == b"[ann] hi\n"


@pytest.mark.parametrize(("before", "after"), [(b"[b] x\n", b"[b] x\n"), (b"[b] cut", b"[b] cut\n")])
def test_a_full_disk_leaves_no_half_line(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch, before: bytes, after: bytes
) -> None:
    (tmp_path / "t").write_bytes(before)
    _short_writes(monkeypatch, [5])
    with pytest.raises(OSError, match="No space"):
        line_format.append(tmp_path / "t", lock, b"[ann] hi\n")
    assert (tmp_path / "t").read_bytes() == after


def test_a_file_replaced_meanwhile_gets_the_line(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, saved = tmp_path / "t", tmp_path / "t.new"
    path.write_bytes(b"[b] old\n")
    saved.write_bytes(b"[b] edited\n")
    real = os.fsync

    def fsync(fd: int) -> None:
        real(fd)
        if saved.exists():
            saved.replace(path)  # as an editor does that saves at this very moment

    monkeypatch.setattr(line_format.os, "fsync", fsync)
    line_format.append(path, lock, b"[ann] hi\n")
    assert path.read_bytes() == b"[b] edited\n[ann] hi\n"


def _write_many(path: Path, lock: Path, name: str) -> None:
    for number in range(50):
        line_format.append(
            path, lock, line_format.encode(replace(ASKS, speaker=name, body=f"{number} " + "x" * 5000))
        )


def test_writers_at_once_do_not_mix(tmp_path: Path, lock: Path) -> None:
    path = tmp_path / "t"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(path, lock, name)) for name in ("ann", "bob", "cy")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    read = [line_format.decode(each) for each in path.read_bytes().split(b"\n")[:-1]]
    assert len(read) == 150
    for name in ("ann", "bob", "cy"):
        said = [each.body.split()[0] for each in read if isinstance(each, Entry) and each.speaker == name]
        assert said == [str(number) for number in range(50)]

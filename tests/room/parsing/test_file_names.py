"""What files of messages are called and what they are."""

from __future__ import annotations

import pytest

from relay.room.parsing import file_names as files

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
ID = "a" * 64


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ("shot.png", "shot.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\x.txt", "x.txt"),
        ("a\n](javascript:alert(1))[.png", "a __javascript_alert_1___.png"),
        ("\u202egnp.exe\x00", "gnp.exe"),
        ("...", "file"),
        ("", "file"),
        ("x" * 300 + ".log", "x" * 96 + ".log"),
    ],
)
def test_a_name_is_made_harmless(given: str, clean: str) -> None:
    assert files.clean_name(given) == clean
    assert len(files.clean_name(given)) <= files.MOST_NAME


@pytest.mark.parametrize(
    ("name", "data", "ending", "kind"),
    [
        ("x.txt", PNG, "png", "image/png"),
        ("x.png", b"<svg onload=alert(1)>", "bin", "application/octet-stream"),
        ("x.html", b"<script>", "html", "application/octet-stream"),
        ("x.SVG", b"<svg>", "svg", "application/octet-stream"),
        ("x", b"text", "bin", "application/octet-stream"),
        ("x.tar.gz", b"\x1f\x8b", "gz", "application/octet-stream"),
        ("x.jpeg", b"\xff\xd8\xff\xe0", "jpg", "image/jpeg"),
        ("x", b"RIFF\0\0\0\0WEBPVP8 ", "webp", "image/webp"),
    ],
)
def test_what_a_file_is_stands_in_its_bytes(name: str, data: bytes, ending: str, kind: str) -> None:
    assert (files.ending_of(name, data), files.type_of(data)) == (ending, kind)


def test_a_text_names_files() -> None:
    text = f"see {files.reference('a b.png', f'{ID}.png')} and {files.reference('x.log', f'{ID}.log')}"
    assert text == f"see ![a b.png](relay-file:{ID}.png) and [x.log](relay-file:{ID}.log)"
    assert (
        files.with_paths(text, "/r/files")
        == f"see ![a b.png](/r/files/{ID}.png) and [x.log](/r/files/{ID}.log)"
    )
    other = f"relay-file:../../x relay-file:{ID}.png/../y relay-file:{ID}.toolongending"
    assert "/r/files/.." not in files.with_paths(other, "/r/files")
    assert files.with_paths(text, "") == text

from __future__ import annotations

from pathlib import Path

import pytest

from relay.base.case_folding import folds_case
from relay.coordination.paths.targets import file, folded, target, targets
from relay.model import Fault, Refusal


@pytest.mark.parametrize(
    ("text", "kind", "key", "shown"),
    [
        ("src/app.py", "path", "src/app.py", "src/app.py"),
        ("./src//app.py", "path", "src/app.py", "src/app.py"),
        ("x/../src/./app.py", "path", "src/app.py", "src/app.py"),
        ("src/", "path", "src", "src"),
        ("u\u0308ber.txt", "path", "\u00fcber.txt", "\u00fcber.txt"),
        ("a,b & c.txt", "path", "a,b & c.txt", "a,b & c.txt"),
        ("12345", "path", "12345", "12345"),
        ("app/[id]/page.tsx", "path", "app/[id]/page.tsx", "app/[id]/page.tsx"),
        ("{{cookie.name}}/x", "path", "{{cookie.name}}/x", "{{cookie.name}}/x"),
        ("...", "path", "...", "..."),
        (r"a\*b", "path", "a*b", r"a\*b"),
        (r"\{a,b}", "path", "{a,b}", r"\{a,b\}"),
        (r"{a,a}", "path", "a", "a"),
        ("src/a:b.py", "path", "src/a:b.py", "src/a:b.py"),
        ("./api:x", "path", "api:x", "./api:x"),
        ("./C:x", "path", "C:x", "./C:x"),
        ("src/**", "glob", "src/**", "src/**"),
        ("./src//x/../*.py", "glob", "src/*.py", "src/*.py"),
        (r"a\[*", "glob", "a[*", "a[*"),
        (r"{a,b\,c}", "glob", r"{a,b\,c}", r"{a,b\,c}"),
        ("api:GET /v1/users", "key", "api:GET /v1/users", "api:GET /v1/users"),
        ("db:schema", "key", "db:schema", "db:schema"),
        ("db:*", "key", "db:*", "db:*"),
        ("db:a//b/../c", "key", "db:a//b/../c", "db:a//b/../c"),
        ("https://example.org", "key", "https://example.org", "https://example.org"),
    ],
)
def test_a_target_in_one_spelling(text: str, kind: str, key: str, shown: str) -> None:
    found = target(text)
    assert (found.kind, found.key, found.path) == (kind, key, shown)
    assert target(shown) == found


OUTSIDE = ["/", "/etc/passwd", "//x", "..", "../x", "x/../../y", "*/../x", "C:\\x", "C:/x", "c:x"]
CONTROL = ["a\0b", "a\nb", "a\x7fb", "a\x85b", "api:a\0", "\udcff", "a\\b"]
LONG = ["x" * 256, "y/" * 513, "db:" + "x" * 1100]


@pytest.mark.parametrize("text", ["", " ", ".", "./", "x/..", *OUTSIDE, *CONTROL, *LONG])
def test_what_is_no_path_is_malformed_and_says_what_to_do(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        target(text)
    assert (refused.value.fault, refused.value.code) == (Fault.MALFORMED, "bad_path")
    assert refused.value.message and refused.value.fix
    refused.value.as_json()["message"].encode()


def test_what_turns_the_reading_order_around_is_refused_by_its_number() -> None:
    for at in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)):
        for text in (f"src/a{chr(at)}yp.exe", f"src/*{chr(at)}", f"api:{chr(at)}x"):
            with pytest.raises(Refusal) as refused:
                target(text)
            assert f"U+{at:04X} (" in refused.value.message and chr(at) not in refused.value.message
            assert "rename" in refused.value.fix
    # Persian, Devanagari and emoji are spelled with joiners; Hebrew and Arabic need no mark.
    for name in (
        "\u0645\u06cc\u200c\u0631\u0648\u0645.txt",
        "\u0915\u094d\u200d\u0937",
        "\U0001f468\u200d\U0001f4bb.md",
    ):
        assert target(f"src/{name}").path == f"src/{name}"
    assert target("\u05d0\u05d1/\u0645\u0631.py").kind == "path"


def test_a_file_is_what_git_calls_it() -> None:
    assert [(file(name).kind, file(name).key) for name in ("a*b", "{a,b}", "api:x", "a\\b", "a[1]")] == [
        ("path", "a*b"),
        ("path", "{a,b}"),
        ("path", "api:x"),
        ("path", "a\\b"),
        ("path", "a[1]"),
    ]
    assert all(target(file(name).path) == file(name) for name in ("a*b", "{a,b}", "api:x", "a\\b", "q?"))


def test_the_base_of_a_pattern_is_the_folder_before_its_first_wildcard() -> None:
    told = {
        "src/**": "src", "*.py": "", "src/core/a*/x": "src/core", "src/{a,b}/x": "src", "{src/a,src/a/b}/*": "src/a",
        "{a,b}": "", "src/x.{py,js}": "src",
    }  # fmt: skip
    assert {text: target(text).base for text in told} == told


def test_case_is_folded_where_the_file_system_does() -> None:
    assert target("Src/App.PY", True).key == target("src/app.py", True).key == "src/app.py"
    assert target("Src/App.PY", True).path == "Src/App.PY"
    assert target("SRC/*.Py", True).meets("path", target("src/A.py", True).key)
    assert target("Src/App.PY").key == "Src/App.PY"
    assert target("API:X", True).key == "API:X"
    assert (folded("Stra\u00dfe"), len(folded("\u0130"))) == ("stra\u00dfe", 1)


def test_several_are_each_once_and_as_they_were_given() -> None:
    found = targets(["b", "./a", "a//", "db:x", "*.py", "b"])
    assert [one.path for one in found] == ["b", "a", "db:x", "*.py"]
    for wrong in ([], ["a", ""], [f"f{n}" for n in range(257)]):
        with pytest.raises(Refusal):
            targets(wrong)


def test_the_folder_is_asked_whether_it_folds_case(tmp_path: Path) -> None:
    """Linux does not, macOS and Windows do: asked of the file system itself, by another way than the probe's."""
    (tmp_path / "probe").touch()
    assert folds_case(tmp_path) is (tmp_path / "PROBE").exists()
    assert sorted(tmp_path.iterdir()) == [tmp_path / "probe"]
    (tmp_path / "empty").mkdir()
    assert folds_case(tmp_path / "empty") is (tmp_path / "PROBE").exists()
    assert list((tmp_path / "empty").iterdir()) == []

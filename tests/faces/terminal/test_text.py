from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.base.terminal_text import lines, safe, safe_line, tame
from relay.faces.terminal import text


@pytest.mark.parametrize(
    ("why", "raw", "shown"),
    [
        ("plain text stays", "hello, world", "hello, world"),
        ("newlines stay, tabs become blanks", "a\n\tb", "a\n    b"),
        ("wide and joined characters stay", "日本語 👩‍💻 grüß", "日本語 👩‍💻 grüß"),
        ("colour", "\x1b[31mred\x1b[0m", "red"),
        ("the cursor moves, the screen is cleared", "\x1b[2J\x1b[1;1Hx\x1b[5A\x1b[?1049h", "x"),
        ("8-bit CSI", "\x9b2Jx", "x"),
        ("the clipboard (OSC 52)", "a\x1b]52;c;aGk=\x07b", "ab"),
        ("the title, ended by ST", "a\x1b]0;root@prod\x1b\\b", "ab"),
        ("8-bit OSC and ST", "a\x9d0;title\x9cb", "ab"),
        ("a link hides its target no more", "\x1b]8;;http://evil\x1b\\safe\x1b]8;;\x1b\\", "safe"),
        ("DCS, APC, PM, SOS", "a\x1bPq#0\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d\x1bXz\x1b\\e", "abcde"),
        ("an unterminated string swallows nothing", "a\x1b]52;c;aGk= the rest", "a52;c;aGk= the rest"),
        ("one in another", "\x1b]0;a\x1b[2Jb\x07c", "0;abc"),
        ("cut off at the end", "x\x1b", "x"),
        ("cut off in CSI", "x\x1b[12", "x"),
        ("reset, keypad, charset", "\x1bc\x1b=\x1b(0x\x1b#8", "x"),
        ("an escape in an escape", "\x1b\x1b[31mx", "x"),
        ("bell, backspace, NUL, DEL", "a\x07\x08\x00\x7fb", "ab"),
        ("a carriage return hides no line", "secret\rshown", "secret\nshown"),
        (
            "other line ends",
            "a\r\nb\x85c\u2028d\x0be\x0cf\x1cg\x1dh\x1ei\u2029j",
            "a\nb\nc\nd\ne\nf\ng\nh\ni\nj",
        ),
        ("marks of direction", "a\u200eb\u200fc\u061cd", "abcd"),
        ("turned around", "abc\u202edef\u2066x\u2069", "abc‹U+202E›def‹U+2066›x‹U+2069›"),
        ("hidden text in tags", "a\U000e0041\U000e0042b", "ab"),
        ("half a character", "a\ud800b", "a\ufffdb"),
    ],
)
def test_nothing_is_left_to_obey(why: str, raw: str, shown: str) -> None:
    assert safe(raw) == shown, why


@given(st.text(alphabet=st.sampled_from("\x1b[]P\\;0m\x07\x9b\x9d\x9c\x90x \n\t\r\x00\u202e")))
def test_no_control_character_survives(raw: str) -> None:
    shown = safe(raw)
    assert all(char == "\n" or char.isprintable() for char in shown)
    assert safe(shown) == shown


@given(st.text(alphabet=st.sampled_from("ab \n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")))
def test_every_line_end_that_python_knows_is_one(raw: str) -> None:
    assert lines(f"{raw}.") == f"{raw}.".splitlines()
    assert safe(f"{raw}.").split("\n") == f"{raw}.".splitlines()


def test_what_others_wrote_begins_no_line_in_a_programs_text() -> None:
    told = {"path": "a\nNobody holds a lock.", "more": ["x\u2028y", 3, None], "\x1b[2Jk": True}
    assert tame(told) == {"path": "a\n    Nobody holds a lock.", "more": ["x\n    y", 3, None], "k": True}


def test_a_line_is_one_line_of_bounded_length() -> None:
    assert safe_line("a\nb\x1b[2J\tc") == "a b c"
    assert safe_line("x" * 300, 10) == "x" * 9 + "…"


def test_a_speaker_keeps_a_colour() -> None:
    assert text.colour("CLAUDE") == text.colour("CLAUDE")
    assert len({text.colour(name) for name in ("CLAUDE", "CODEX", "GEMINI", "OLLAMA")}) == 4


def plain(fragments: text.Fragments) -> str:
    return "".join(piece for _, piece in fragments)


@pytest.mark.parametrize(
    ("line", "shown", "styled"),
    [
        ("**bold** and *soft*", "bold and soft", {"bold": "bold", "italic": "soft"}),
        ("run `a * b * c`", "run a * b * c", {"class:code": "a * b * c"}),
        ("2 * 3 * 4", "2 * 3 * 4", {}),
        ("snake_case stays", "snake_case stays", {}),
        ("# Title", "Title", {"bold": "Title"}),
        ("- item", "• item", {}),
        ("  * nested", "  • nested", {}),
        ("> quoted", "▏ quoted", {"class:quiet": "quoted"}),
        (r"a \*b\* \`c\` C:\dir", r"a *b* `c` C:\dir", {}),
        ("mail a@b.org, npm @openai/codex", "mail a@b.org, npm @openai/codex", {}),
    ],
)
def test_markdown_is_coloured(line: str, shown: str, styled: dict[str, str]) -> None:
    (found,) = text.markdown(line)
    assert plain(found) == shown
    assert {style: piece for style, piece in found if style not in ("", "class:bar")} == styled


def test_a_mention_has_its_agents_colour() -> None:
    assert (f"bold {text.colour('CLAUDE')}", "@claude") in text.markdown("ask @claude, please")[0]


def test_code_is_shown_as_it_is() -> None:
    lines = text.markdown("before\n```py\n**x** = 1\n# no title\n```\nafter **b**")
    assert [plain(line) for line in lines] == ["before", "│ **x** = 1", "│ # no title", "after b"]
    assert [plain(line) for line in text.markdown("```\nnever closed")] == ["│ never closed"]


def test_a_long_body_is_cut_and_says_so() -> None:
    lines = text.markdown("x\n" * 5000)
    assert len(lines) == text.MAX_LINES + 1
    assert "10,000 characters" in plain(lines[-1])
    assert "60,000 characters" in plain(text.markdown("y" * 60_000)[-1])


TABLE = """\
| file | what | lines |
|------|:----:|------:|
| `cart.py` | Counts numbers with commas wrongly | 12 |
| 日本語 | **short** | 3 \\| 4 |
| only |

```
| a | b |
|---|---|
```
| a | b
no table"""


def test_a_table_stands_in_columns_within_the_terminal() -> None:
    shown = ["".join(piece for _, piece in line).rstrip() for line in text.markdown(TABLE, columns=36)]
    assert shown == [
        "file    │ what               │ lines",
        "────────┼────────────────────┼──────",
        "cart.py │ Counts numbers     │ 12",
        "        │ with commas        │",
        "        │ wrongly            │",
        "日本語  │ short              │ 3 | 4",
        "only    │                    │",
        "",
        "│ | a | b |",
        "│ |---|---|",
        "| a | b",
        "no table",
    ]
    assert ("class:code", "cart.py") in [part for line in text.markdown(TABLE) for part in line]
    # Where there is no place for columns, and in a pipe, it stays as it was written.
    assert "".join(piece for _, piece in text.markdown(TABLE, columns=12)[0]) == TABLE.splitlines()[0]
    assert text.plain(TABLE, 36)[:2] == ["file    │ what               │ lines", shown[1]]
    assert text.plain(TABLE, 36)[-5:] == TABLE.splitlines()[-5:]


@given(st.text(alphabet=st.sampled_from("a| -:\n`語\\")), st.integers(min_value=5, max_value=30))
def test_no_table_is_wider_than_the_terminal(rest: str, columns: int) -> None:
    body = f"|a|b|\n|-|-|\n{rest}"
    for kind, _, rows in text._parts(safe(body).split("\n"), "", columns):
        assert kind != "table" or all(text.wide(row) <= columns for row in rows)

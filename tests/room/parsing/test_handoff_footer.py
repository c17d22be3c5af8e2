from __future__ import annotations

import pytest

from relay.room.parsing.handoff_footer import Footer, footer


@pytest.mark.parametrize(
    ("why", "body", "expected"),
    [
        (
            "the form of the source",
            "Done.\n\n[DECISION: Task Done | OWNER: None | BLOCKERS: None]",
            Footer("Task Done", "None", "None"),
        ),
        ("alone", "[DECISION: ok | OWNER: ann | BLOCKERS: none]", Footer("ok", "ann", "none")),
        (
            "any case and spaces",
            "x\n  [ decision:go|Owner :CLAUDE |  blockers: ]  \n\n",
            Footer("go", "CLAUDE", ""),
        ),
        ("another order", "[OWNER: ann | DECISION: wait]", Footer("wait", "ann", "")),
        ("emphasised", "**[DECISION: go | OWNER: x | BLOCKERS: y]**", Footer("go", "x", "y")),
        ("a colon in a value", "[DECISION: go: now | OWNER: x]", Footer("go: now", "x", "")),
        ("code within a value", "[DECISION: drop `a.py` | OWNER: x]", Footer("drop `a.py`", "x", "")),
        ("carriage returns", "x\r\n[DECISION: go]\r\n", Footer("go")),
        ("not the last line", "[DECISION: go | OWNER: x | BLOCKERS: y]\nmore", None),
        ("after text on its line", "so [DECISION: go | OWNER: x | BLOCKERS: y]", None),
        ("in a fence", "```\n[DECISION: go | OWNER: x | BLOCKERS: y]\n```", None),
        ("in an unclosed fence", "```\n[DECISION: go | OWNER: x | BLOCKERS: y]", None),
        ("in a span", "`[DECISION: go | OWNER: x | BLOCKERS: y]`", None),
        ("indented code", "x\n\n    [DECISION: go | OWNER: x | BLOCKERS: y]", None),
        ("no decision", "[OWNER: x | BLOCKERS: y]", None),
        ("an empty decision", "[DECISION: | OWNER: x]", None),
        ("an unknown field", "[DECISION: go | MOOD: x]", None),
        ("a field twice", "[DECISION: go | DECISION: stop]", None),
        ("no field at all", "[the decision is made]", None),
        ("a line too long", f"[DECISION: {'x' * 700}]", None),
        ("nothing", "", None),
    ],
)
def test_which_line_is_a_footer(why: str, body: str, expected: Footer | None) -> None:
    assert footer(body) == expected, why


def test_the_fields_as_the_entry_holds_them() -> None:
    assert Footer("go", "ann").as_meta() == {"decision": "go", "owner": "ann", "blockers": ""}

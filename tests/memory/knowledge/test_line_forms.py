"""What lines of a text say, and what stands in a text and says nothing."""

from __future__ import annotations

import pytest

from relay.memory.knowledge.entry import PUBLIC, Access, Kind, Reference, Relation, Visibility
from relay.memory.knowledge.line_forms import ids_in, paths_in, statements

ID, OTHER = "k" + "0123456789abcdef01234567", "k" + "ab" * 12


def test_a_decision_has_its_rationale_and_its_alternatives() -> None:
    [said] = statements(
        "I looked at both.\nDECISION: use PostgreSQL instead of SQLite or a file, because rows are locked\nok"
    )
    assert (said.kind, said.content) == (Kind.DECISION, "use PostgreSQL instead of SQLite or a file")
    assert (said.rationale, said.alternatives) == ("rows are locked", ("SQLite", "a file"))
    assert (said.access, said.references) == (PUBLIC, ())


@pytest.mark.parametrize(
    "line",
    [
        "DECISION: use tabs",
        "- **DECISION:** use tabs",
        "**DECISION**: use tabs",
        "1. DECISION: use tabs",
        "## DECISION: use tabs",
        "  DECISION : use tabs",
        "`DECISION:` use tabs",
        "DECISION (public): use tabs",
    ],
)
def test_a_line_is_known_however_it_is_marked_up(line: str) -> None:
    [said] = statements(f"before\n{line}\nafter")
    assert (said.kind, said.content) == (Kind.DECISION, "use tabs")


@pytest.mark.parametrize(
    "text",
    [
        "Decision: use tabs",
        "the DECISION: use tabs",
        "DECISION:",
        "DECISION: because",
        "> DECISION: use tabs",
        "- > DECISION: use tabs",
        "[MEMORY] DECISION: use tabs",
        "- [MEMORY] DECISION: use tabs",
        "```\nDECISION: use tabs\n```",
        "~~~ text\nDECISION: use tabs",
    ],
)
def test_what_is_quoted_or_no_line_of_its_own_says_nothing(text: str) -> None:
    assert statements(text) == []


def test_a_fence_ends_where_it_ends() -> None:
    [said] = statements("```\nDECISION: a\n~~~\n```\nDECISION: b")
    assert said.content == "b"


def test_each_kind_has_its_line_and_a_solution_solves_the_problem_before_it() -> None:
    said = statements("\n".join(f"{kind.name}: thing {at}" for at, kind in enumerate(Kind)))
    assert [each.kind for each in said] == [*Kind]
    solution = next(each for each in said if each.kind is Kind.SOLUTION)
    assert solution.references == (Reference(Relation.SOLVES, [*Kind].index(Kind.PROBLEM)),)
    named = statements(f"PROBLEM: a\nSOLUTION: b (solves {ID})")[1]
    assert named.references == (Reference(Relation.SOLVES, ID),) and named.content == "b"


def test_a_statement_goes_on_in_the_next_line() -> None:
    [said] = statements(
        "DECISION: use tabs\n  in Makefiles\nbecause make wants them\n\nbecause this is no part"
    )
    assert (said.content, said.rationale) == ("use tabs in Makefiles", "make wants them")


@pytest.mark.parametrize(
    ("options", "access"),
    [
        ("private", Access(Visibility.PRIVATE)),
        ("role: developer", Access(Visibility.ROLE, ("developer",))),
        ("roles reviewer, architect", Access(Visibility.ROLE, ("architect", "reviewer"))),
        ("shared with CODEX, @ann", Access(Visibility.SHARED, ("CODEX", "ann"))),
        ("shared: CODEX; topic: clock", Access(Visibility.SHARED, ("CODEX",))),
    ],
)
def test_who_may_read_it_stands_between_brackets(options: str, access: Access) -> None:
    for text in (f"DECISION ({options}): x", f"DECISION [{options}]: x"):
        assert statements(text)[0].access == access


def test_topics_files_and_severity_are_taken_out_of_it() -> None:
    [said] = statements(
        "PROBLEM (high; topic Auth, login; file a b.c): #Race in `lock.py` and src/x/auth.py, see #12"
    )
    assert (said.severity, said.topics) == ("high", ("race", "auth", "login"))
    assert said.files == ("lock.py", "src/x/auth.py", "a b.c")


def test_relations_name_entries_by_id_or_by_what_they_say() -> None:
    [said] = statements(
        f'DECISION: use A (supersedes {ID}, {OTHER}) depends on {ID[:9]}; contradicts "use B"'
    )
    assert said.references == (
        Reference(Relation.SUPERSEDES, ID),
        Reference(Relation.SUPERSEDES, OTHER),
        Reference(Relation.DEPENDS_ON, ID[:9]),
        Reference(Relation.CONTRADICTS, "use B", quoted=True),
    )
    assert said.content == "use A"


def test_ids_and_paths_of_a_text() -> None:
    assert ids_in(f"see {ID} and {ID[:12]}, not {ID}x, k12, src/{ID[:10]}") == (ID, ID[:12])
    assert paths_in("in src/a.py, ./b/c.rs; https://x.org/y.html e.g. 1.5 and `d.toml` or e.py") == (
        "src/a.py",
        "b/c.rs",
        "d.toml",
    )


@pytest.mark.parametrize(
    ("options", "visibility", "names"),
    [
        ("private, topic db", "private", ()),
        ("topic db, private", "private", ()),
        ("privat", "private", ()),
        ("only me", "private", ()),
        ("visibility private", "private", ()),
        ("shared with", "private", ()),
        ("shared with CODEX and ann", "shared", ("CODEX", "ann")),
        ("role developer, reviewer", "role", ("developer", "reviewer")),
        ("topic private-keys", "public", ()),
        ("db, high", "public", ()),
    ],
)
def test_what_speaks_of_readers_is_for_nobody_else(
    options: str, visibility: str, names: tuple[str, ...]
) -> None:
    """A slip in the form publishes nothing."""
    (statement,) = statements(f"DECISION ({options}): the vault is in bucket seven")
    assert (statement.access.visibility, statement.access.names) == (visibility, names)


@pytest.mark.parametrize(
    "said",
    [
        'we do not support "Internet Explorer" any more',
        'the parser supports "Internet Explorer"',
        'replace "foo" by "bar"',
        'implement "undo" before "redo"',
    ],
)
def test_what_is_said_keeps_its_words(said: str) -> None:
    (statement,) = statements(f"DECISION: {said}")
    assert (statement.content, statement.references) == (said, ())


def test_a_relation_to_quoted_words_stands_apart() -> None:
    for apart in (' (supersedes "use tabs")', '; supersedes "use tabs"', '\n  supersedes "use tabs"'):
        (statement,) = statements(f"@BETA, @ALFA: DECISION: use spaces{apart}")
        assert statement.content == "use spaces"
        assert [(each.relation, each.target) for each in statement.references] == [("supersedes", "use tabs")]


def test_a_reason_between_brackets() -> None:
    (statement,) = statements("DECISION: use tabs (because they are narrow).")
    assert (statement.content, statement.rationale) == ("use tabs", "they are narrow")

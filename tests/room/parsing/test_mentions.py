from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.model.speaker_names import clean_name, is_reserved
from relay.room.parsing.mentions import mentions, misspelt

AGENTS = ("CLAUDE", "CODEX", "GEMINI")


@pytest.mark.parametrize(
    ("why", "body", "expected"),
    [
        ("at the start", "@CLAUDE fix it", ("CLAUDE",)),
        ("in the middle", "could @codex look?", ("CODEX",)),
        ("at the end", "over to you, @Gemini", ("GEMINI",)),
        ("several, in order of appearance", "@gemini then @claude", ("GEMINI", "CLAUDE")),
        ("once each", "@claude @CLAUDE @Claude", ("CLAUDE",)),
        ("all of them", "@all hello", AGENTS),
        ("all, after one", "@codex and @all", ("CODEX", "CLAUDE", "GEMINI")),
        ("with punctuation", "(@claude), @codex: **@gemini**!", ("CLAUDE", "CODEX", "GEMINI")),
        ("possessive", "@claude's patch", ("CLAUDE",)),
        ("end of a sentence", "ask @claude. Then wait", ("CLAUDE",)),
        ("a colon without a space", "@claude:do it", ("CLAUDE",)),
        ("joined by a slash", "@claude/@codex please", ("CLAUDE", "CODEX")),
        ("a Chinese sentence has no spaces", "请@claude看一下", ("CLAUDE",)),
        ("a Korean particle", "@claude에게", ("CLAUDE",)),
        ("after an emoji", "🙏@claude", ("CLAUDE",)),
        ("in a quote", "> @claude said so", ("CLAUDE",)),
        ("after a span", "`x` @claude", ("CLAUDE",)),
        ("link text", "[doc](https://x.y/z)@claude", ("CLAUDE",)),
        ("no mention", "claude, are you there?", ()),
        ("an e-mail address", "mail ann@claude.ai or x.y+z@codex", ()),
        ("a longer name", "@CLAUDE2 @codexes @gemini_pro @claude-2", ()),
        ("an accent makes another word", "@claudeé", ()),
        ("a combining mark too", "@claude\u0301", ()),
        ("not an agent", "@bob @relay", ()),
        ("a span", "run `@claude` now", ()),
        ("a double span", "``a ` @claude``", ()),
        ("a fence", "```\n@claude\n```", ()),
        ("tildes, unclosed", "~~~\n@claude", ()),
        ("indented code", "see\n\n    @claude", ()),
        ("a URL", "https://example.com/@claude and https://x.y/?q=@codex,@gemini", ()),
        ("a bare www", "www.example.com/a=@claude", ()),
        ("a package", "npm install @claude/sdk", ()),
        ("a path", "node_modules/@claude", ()),
        ("a domain", "@claude.ai", ()),
        ("a fediverse handle", "@claude@mastodon.social", ()),
        ("doubled at", "@@claude", ()),
        ("dotless i is another letter", "@gemını", ()),
        ("nothing after the at", "@ @", ()),
    ],
)
def test_whom_a_message_addresses(why: str, body: str, expected: tuple[str, ...]) -> None:
    assert mentions(body, AGENTS) == expected, why


def test_a_name_within_a_name() -> None:
    agents = ("claude", "claude-2", "gpt-4.1")
    assert mentions("@claude-2 and @GPT-4.1.", agents) == ("claude-2", "gpt-4.1")
    assert mentions("@claude", agents) == ("claude",)


def test_the_steward_can_be_addressed_but_is_not_all() -> None:
    assert mentions("@relay help", AGENTS, also=("RELAY",)) == ("RELAY",)
    assert mentions("@all", AGENTS, also=("RELAY",)) == AGENTS


def test_nobody_to_mention() -> None:
    assert mentions("@all @claude", ()) == ()


@given(st.text(max_size=60), st.sampled_from(AGENTS), st.text(max_size=60))
def test_a_mention_between_blanks_is_found_where_there_is_no_code(left: str, name: str, right: str) -> None:
    def clean(text: str) -> str:
        return "".join(c for c in text if c not in "`~@:\t\r\n/" and not c.isspace()).replace("www.", "")

    assert mentions(f"{clean(left)} @{name.lower()} {clean(right)}", AGENTS) == (name,)


@given(st.text())
def test_any_text_gives_agents_once_each(body: str) -> None:
    found = mentions(body + "@claude", AGENTS)
    assert set(found) <= set(AGENTS)
    assert len(set(found)) == len(found)


@given(st.text(alphabet="`~@claude codex\n>-/.", max_size=80))
def test_nothing_in_a_fence_is_a_mention(body: str) -> None:
    fence = "~" * (body.count("~") + 3)
    assert mentions(f"{fence}\n{body}\n{fence}", AGENTS) == ()


@pytest.mark.parametrize(
    "piece", ["`", "` ", "@", "- ", ">", "www.", "://", "\\`", "@claude ", "- a\n", ">\n", "\t"]
)
def test_a_mebibyte_of_anything_is_read(piece: str) -> None:
    body = piece * (1_048_576 // len(piece))
    assert mentions(f"x {body}\n\nnow\n\n@codex", AGENTS)[-1:] == ("CODEX",)


@pytest.mark.parametrize(
    "name",
    [
        "CLAUDE",
        "claude",
        "  Claude ",
        "ＣＬＡＵＤＥ",
        "CLAUDE\u200b",
        "C\u00adL\u2060AUDE",
        "CLAUDE\ufe0f",
        "сlаudе",  # Cyrillic с, а, е
        "СОDЕХ",  # Cyrillic capitals
        "gèmini",
        "C.L.A.U.D.E",
        "relay",
        "Dispatcher",
        "all",
        "RELΑΥ",  # Greek capitals
        "𝐂𝐋𝐀𝐔𝐃𝐄",
        "ReIay",  # a capital i for an l
        "RE1AY",
        "re|ay",
        "D1SPATCHER",
        "dlspatcher",
        "C0DEX",
        "GEMlNI",
        "gernini",
        "CLᎪUDE",  # Cherokee
        "C\u2c9fDEX",  # Coptic
        "CLΑUDΕ",  # Greek capitals
        "gεmιnι",
    ],
)
def test_a_name_that_passes_for_anothers_is_reserved(name: str) -> None:
    assert is_reserved(name, AGENTS)


@pytest.mark.parametrize(
    "name", ["ann", "Ali", "ALI", "Al1", "Claudette", "Claud", "Ян", "李雷", "🙂", "relays", "", "code"]
)
def test_a_name_of_ones_own_is_not(name: str) -> None:
    assert not is_reserved(name, AGENTS)


@given(st.sampled_from(AGENTS), st.data())
def test_invisible_characters_never_free_a_name(name: str, data: st.DataObject) -> None:
    hidden = data.draw(st.lists(st.sampled_from("\u200b\u200c\u200d\u2060\ufeff\u00ad \u202e"), max_size=6))
    for char in hidden:
        at = data.draw(st.integers(0, len(name)))
        name = name[:at] + char + name[at:]
    assert is_reserved(name, AGENTS)


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("ann", "ann"),
        (" Ann Lee ", "Ann Lee"),
        ("e\u0301va", "\u00e9va"),
        ("李雷", "李雷"),
        ("x" * 32, "x" * 32),
        ("a@b", "a@b"),
    ],
)
def test_a_name_is_trimmed_and_composed(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("x" * 33, "at most 32"),
        ("a\nb", "U+000A"),
        ("a\u200bb", "U+200B"),
        ("a\x1b[31m", "U+001B"),
        ("[CLAUDE", "square bracket"),
        ("ann]", "square bracket"),
        ("@ann", "leave it out"),
        ("/ann", "leave it out"),
    ],
)
def test_a_name_that_cannot_be_one_says_what_to_do(name: str, says: str) -> None:
    with pytest.raises(ValueError, match="(?i)" + says.replace("+", r"\+")):
        clean_name(name)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("@CLUADE look", ("CLUADE", "CLAUDE")),
        ("please @claud, look", ("claud", "CLAUDE")),
        ("@CODXE and @GEMNI", ("CODXE", "CODEX")),
        ("@CLAUDE look", None),
        ("@all look", None),
        ("@bob look", None),
        ("mail ann@cluade.org", None),
        ("the package @cluade/sdk", None),
        ("`@CLUADE` in code", None),
    ],
)
def test_a_name_that_is_nearly_one(body: str, expected: tuple[str, str] | None) -> None:
    assert misspelt(body, ("CLAUDE", "CODEX", "GEMINI")) == expected

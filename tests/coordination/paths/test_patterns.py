from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.coordination.paths import overlap, patterns, targets
from relay.coordination.paths.patterns import BadPattern


def meets(a: str, b: str) -> bool:
    one, other = targets.target(a), targets.target(b)
    found = one.meets(other.kind, other.key)
    assert other.meets(one.kind, one.key) == found
    return found


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        # Every example of the issue.
        ("src/app.py", "src/**", True),
        ("src/a.py", "src", True),
        ("src/*.py", "src/a*", True),
        ("src/**/test_*.py", "src/core/**", True),
        ("src/{a,b}.py", "src/a.py", True),
        ("src/a*", "src/b*", False),
        ("app/[id]/page.tsx", "app/*/page.tsx", True),
        ("app/[id]/page.tsx", "app/i/page.tsx", False),
        # A path and a pattern cover what is below.
        ("src/app.py", "src/app.pyc", False),
        ("src", "src2", False),
        ("src/*", "src/a/b/c", True),
        # What lies below a match is covered, whatever its name.
        ("src/*.py", "src/a.py/b", True),
        ("pk/{next.js,react.js}", "pk/next.js/src/i.ts", True),
        ("*.js", "next.js/i.ts", True),
        ("*.js", "next.js/*.ts", True),
        ("{x.com,y.com}", "x.com/*.html", True),
        ("g18/*.py", "g18/pkg.py/deep/*.c", True),
        ("**/*.py", "src/a.py/**/x", True),
        ("*.py", "*.py/x", True),
        ("a.py", "{a.py/x,b}", True),
        # A last name with an extension is a file, unless the other one says that it is a folder.
        ("a.py", "*/x", False),
        ("*.py", "a*/x", False),
        ("*.py", "**/x", False),
        ("*.py", "**/x.py/y", True),
        ("**/*.md", "src/app.py", False),
        ("**/*.md", "src/app.md", True),
        ("**/*.md", "src", True),
        ("**/*.md", "Makefile", True),
        ("**/*.md", "**/*.py", False),
        ("**/*.md", "conf.d", True),
        ("**/*.md", ".github", True),
        ("**/*.md", "v1.2", True),
        ("**/*.md", "src/*.py/**", True),
        ("src/**/test_*.py", "src/core/util.py", False),
        ("src/**/test_*.py", "src/core", True),
        ("src/*.{js,ts}", "src/**/*.css", False),
        ("src/*.js*", "src/**/*.css", True),
        ("a.py/*", "a.py", True),
        ("a.py", "a.py/b", True),
        ("**/x.py/**", "x.py", True),
        ("src/*/x", "src", True),
        ("src/*/x", "src/a", True),
        ("src/*/x", "src/a/y", False),
        ("src/*/x", "src/y/*", True),
        ("src/*/x", "lib/**", False),
        ("**", "anything/at/all", True),
        ("**/x", "x", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/c", True),
        ("a/**/b", "b/**/a", False),
        ("**/a/*", "b/**/c", True),
        # Within a name.
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a?c", "a/c", False),
        ("a**b", "a/b", False),
        ("a**b", "axxb", True),
        ("*.py", "*.js", False),
        ("*.test.*", "a.*.ts", True),
        ("?", "??", False),
        ("*a", "b*", True),
        (".?", "?.", False),  # only "..", which is no name
        (".?x", "?.x", True),
        ("*", ".env", True),
        # Braces.
        ("{src,lib}/**", "lib/x", True),
        ("{src,lib}/**", "test/x", False),
        ("{a,b{c,d}}.py", "bd.py", True),
        ("{a,b{c,d}}.py", "b.py", False),
        ("{src/a,lib}/x", "src/a/x", True),
        ("{src/a,lib}/x", "src/b/x", False),
        ("test{,s}/**", "tests/x", True),
        ("test{,s}", "test", True),
        ("src/{,a/}b", "src/b", True),
        ("src/{./a,b/../c}", "src/c", True),
        ("src/{./a,b/../c}", "src/b", False),
        ("{{name}}/x", "{{name}}/x", True),
        ("{{name}}/x", "name/x", False),
        ("a{b", "a*", True),
        ("{a,b", "{a,b", True),
        ("{a}", "a", False),
        # Escapes.
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        (r"a\*", r"a\*", True),
        (r"\{a,b\}", "a", False),
        (r"{a\,b,c}", "a,b", True),
        (r"a\[b", "a[b", True),
        # Logical keys are about themselves only.
        ("api:GET /v1/users", "api:GET /v1/users", True),
        ("api:GET /v1/users", "api:GET /v1", False),
        ("api:x", "**", False),
        ("api:*", "api:x", False),
        ("./api:x", "api:x", False),
        ("./api:x", "*", True),
    ],
)
def test_overlap(a: str, b: str, expected: bool) -> None:
    assert meets(a, b) is expected


NAMES = ["".join(chars) for size in (1, 2) for chars in itertools.product("ab.", repeat=size)]
REAL = [name for name in NAMES if name not in (".", "..")]
REAL += ["a.b", "b.a", "a.a"]
EVERY = ["/".join(names) for size in (1, 2, 3) for names in itertools.product(REAL, repeat=size)]


@dataclass(frozen=True)
class Found:
    """An alternative among EVERY path, by regular expressions. `matched`: what it matches, by names; `folders`: such
    a path, and how many of its names are a folder that the alternative names; `file`: its end has an extension."""

    matched: frozenset[tuple[str, ...]]
    folders: frozenset[tuple[tuple[str, ...], int]]
    file: bool

    def meets(self, other: Found) -> bool:
        """Is there a path that this one matches, and the other one or a folder of it that may be one?"""
        return any(
            path[:size] in other.matched
            and (size == len(path) or not other.file or (path, size) in self.folders)
            for path in self.matched
            for size in range(1, len(path) + 1)
        )


def spelled(pattern: str) -> list[str]:
    """The pattern without its braces: the innermost group is written out first."""
    group = re.search(r"{([^{}]*)}", pattern)
    if group is None:
        return [pattern]
    before, after = pattern[: group.start()], pattern[group.end() :]
    return [text for one in group[1].split(",") for text in spelled(before + one + after)]


def expression(names: list[str]) -> re.Pattern[str]:
    chars = {"*": "[^/]*", "?": "[^/]"}
    many, folders = "[^/]*[^/]*/", "(?:[^/]+/)*"
    made = ("".join(chars.get(char) or re.escape(char) for char in name) + "/" for name in names)
    return re.compile("".join(folders if name == many else name for name in made))


@cache
def found(alternative: str) -> Found:
    names = alternative.split("/")
    whole = expression(names)
    matched = [tuple(path.split("/")) for path in EVERY if whole.fullmatch(path + "/")]
    named = [
        at
        for at, name in enumerate(names)
        if not {"*", "?"} & set(name) or (name.endswith(".a") and name != ".a")
    ]
    parts = [tuple(map(expression, (names[:at], [names[at]], names[at + 1 :]))) for at in named]
    folders = [
        (path, size)
        for path in matched
        for size in range(1, len(path))
        for part in parts
        if all(
            one.fullmatch("".join(f"{name}/" for name in some))
            for one, some in zip(part, (path[: size - 1], [path[size - 1]], path[size:]), strict=True)
        )
    ]
    return Found(frozenset(matched), frozenset(folders), re.search(r"[^/][.]a$", alternative) is not None)


#: Two of these need no name of more than two characters to meet.
PLAIN = ["a", "b", "*", "a*", "*b", "?", "a?", "*a*", ".a", "?b", "**", "ab", "b*a", ".?", "?."]
GROUPS = ["{a,b}", "{a,b*}", "a{a,b}", "{ab,?}", "{a,{b,.a}}", "*.a", "{a,b}.a"]
NAME = st.sampled_from([*PLAIN, *GROUPS])
PATTERN = st.lists(NAME, min_size=1, max_size=3).map("/".join)


@settings(max_examples=400, deadline=None)
@given(PATTERN, PATTERN)
def test_overlap_is_what_enumeration_finds(a: str, b: str) -> None:
    pairs = list(itertools.product(map(found, spelled(a)), map(found, spelled(b))))
    expected = any(one.meets(other) or other.meets(one) for one, other in pairs)
    # With `**` in both, what meets may be as long as both together: longer than what was enumerated.
    if expected or sum(name != "**" for name in (*a.split("/"), *b.split("/"))) <= 3:
        assert meets(a, b) is expected, (a, b)


@settings(max_examples=60, deadline=None)
@given(PATTERN)
def test_what_a_pattern_stands_for_it_meets(pattern: str) -> None:
    kind, key = targets.target(pattern).kind, targets.target(pattern).key
    expected = {path for text in spelled(pattern) for path in found(text).matched}
    for path in EVERY[::4]:
        names = tuple(path.split("/"))
        below = any(names[:size] in expected for size in range(1, len(names) + 1))
        assert overlap.stands_for(key, path) is below, path
        assert overlap.overlaps(kind, key, "path", path) or not below, path


@pytest.mark.parametrize(
    ("whole", "part", "expected"),
    [
        ("src/**", "src/*.py", True),
        ("src/**", "src/**/test_*.py", True),
        ("src/**", "src/a/b/**/{c,d}?/*", True),
        ("src/**", "{src,lib}/*.py", False),
        ("**/*.py", "src/a_*.py", True),
        ("**/*.py", "src/*", False),
        ("src/*", "src/**", False),  # which stands for a file `src`, too
        ("src/*", "src/*/x*", True),
        ("src/*/a*", "src/**/a*", False),
        ("src/{a*,b*}", "src/{ab*,b?}", True),
        ("src/?.py", "src/*.py", False),
        ("src/*.*", "src/a*.p?", True),
        ("**", "a*", True),
    ],
)
def test_a_pattern_in_a_pattern(whole: str, part: str, expected: bool) -> None:
    assert overlap.contains(whole, part) is expected


@settings(max_examples=300, deadline=None)
@given(PATTERN, PATTERN)
def test_what_is_contained_is_no_more_by_enumeration(whole: str, part: str) -> None:
    if overlap.contains(whole, part):
        files = [path for path in EVERY if overlap.stands_for(part, path)]
        assert all(overlap.stands_for(whole, path) for path in files), (whole, part)
    assert overlap.contains(part, part)


@settings(max_examples=300, deadline=None)
@given(st.text("ab*?{},/\\.[", min_size=1, max_size=12))
def test_a_target_is_the_same_when_it_is_given_again(text: str) -> None:
    try:
        one = targets.target(text)
    except targets.Refusal:
        return
    assert targets.target(one.path) == one
    assert one.meets(one.kind, one.key)
    if one.kind == "glob":
        assert patterns.parse(one.key).text == one.key
        assert one.base == "" or targets.target(targets.escaped(one.base)).meets("glob", one.key)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{a,b}" * 7, "alternatives"),
        ("*a" * 250, "too large"),
        ("{" + ",".join(f"*{n}" for n in range(60)) + "}{,x}", "alternatives"),
        ("src/*/../x", "wildcard"),
        ("{a,b}/../x", "wildcard"),
        ("{a,../..}/x", "out of the repository"),
        ("src\\app.py", "backslash"),
        ("src\\", "backslash"),
        ("{,.}", "root itself"),
    ],
)
def test_what_is_no_pattern_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(BadPattern, match=says) as refused:
        patterns.parse(text)
    assert refused.value.fix


def test_the_largest_patterns_can_be_compared() -> None:
    half = "*a" * (patterns.MAX_WEIGHT // 2 - 1)
    assert not overlap.overlaps("glob", half + "b", "glob", half + "c")
    assert overlap.overlaps("glob", half + "b", "glob", half + "*")

"""Whether two locks overlap, as PostgreSQL decides it: the same as relay.coordination.paths.overlap, over many
pairs."""

from __future__ import annotations

import itertools
import random

import asyncpg

from relay.coordination.paths import targets as paths
from relay.coordination.paths.overlap import overlaps, shape
from relay.model import Refusal
from tests import postgres
from tests.engines import SCHEMAS

#: What the rules turn on: folders, extensions, dots, wildcards within a name and as one, alternatives, odd ones.
NAMED = [
    "src",
    "src/a",
    "src/a.py",
    "src/app.py",
    "src/core/util.py",
    "a.py",
    "a.py/b",
    ".github",
    "v1.2",
    "conf.d",
    "Makefile",
    "app/[id]/page.tsx",
    "ä",
    "api:GET",
    "db:schema",
    "*",
    "**",
    "?",
    "??",
    ".?",
    ".*",
    "*.",
    "..*",
    "a*",
    "*a",
    "a*b",
    "a**b",
    "a?c",
    "**/*.md",
    "**/*.py",
    "src/*.py",
    "src/**",
    "src/**/test_*.py",
    "src/{a,b}.py",
    "{a,b}/{c,d}",
    "{a,{b,c}}/*",
    "src/*.{js,ts}",
    "src/**/*.css",
    "a/**/b",
    "b/**/a",
    "**/a/*",
    "**/x.py/**",
    "src/*/x",
    "*.test.*",
    "app/\\*/page.tsx",
    "{{name}}/*",
    "*.d",
    "*.git/**",
    "**/**",
    "ä*",
    "next.js/i.ts",
    "{next.js,x.com}",
    "*.py/x",
    "*.d/x",
    "*.APP/x",
    "*.js_2/x",
    "*.2/x",
    ".py/x",
    "*.?y/x",
    "**/*.py/a*",
    "{a.py/x,b}",
]
LETTERS = ("a", "b", ".", "*", "**", "?", "/", "/", "{a,b}", ".py", "{a.py,b}")
_ASK = """
SELECT relay_overlaps(ak, a, s::jsonb, bk, b, t::jsonb)
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
WITH ORDINALITY AS pairs (ak, a, s, bk, b, t, place) ORDER BY place
"""


def targets() -> list[tuple[str, str]]:
    """(kind, key) of named and of random locks; the same in every run."""
    chance = random.Random(4)
    drawn = ("".join(chance.choices(LETTERS, k=chance.randint(1, 6))) for _ in range(400))
    found: dict[tuple[str, str], None] = {}
    for text in [*NAMED, *drawn]:
        try:
            made = paths.target(text)
        except Refusal:
            continue  # what is no pattern is no lock
        found[made.kind, made.key] = None
    return list(found)


async def test_the_database_and_the_code_agree() -> None:
    every = targets()
    kinds = {kind for kind, _ in every}
    assert kinds == {"path", "glob", "key"}
    pairs = list(itertools.product(every[: len(NAMED)], repeat=2))
    pairs += random.Random(5).sample(list(itertools.product(every, repeat=2)), 4000)
    server = postgres.server()
    name = server.new_database(SCHEMAS)
    connection = await asyncpg.connect(server.dsn(name), server_settings={"search_path": "relay"})
    try:
        columns = [(ak, a, shape(ak, a), bk, b, shape(bk, b)) for (ak, a), (bk, b) in pairs]
        rows = await connection.fetch(_ASK, *map(list, zip(*columns, strict=True)))
    finally:
        await connection.close()
        server.drop_database(name)
    told = [row[0] for row in rows]
    expected = [overlaps(ak, a, bk, b) for (ak, a), (bk, b) in pairs]
    assert 0.1 < sum(expected) / len(expected) < 0.9
    wrong = [pair for pair, one, other in zip(pairs, told, expected, strict=True) if one is not other]
    assert wrong == []

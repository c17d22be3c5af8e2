"""The codebase of `relay demo --land`, its tests, and what its six agents do in it.

Invariant: the tests pass on each branch by itself, and on all of them together but for those of PAIR: both give the
number 4 to their article. git merges them, and no definition of either is used by the other, so only a test of the
merged tree tells.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

#: How the codebase tests itself.
TESTS = (sys.executable, "-B", "-m", "unittest", "discover", "-q", "-s", "tests", "-t", ".")
POLICY = {"name": "unit tests", "tier": 1, "executor": "inline", "patterns": ["*"], "run": list(TESTS)}
#: The test that fails where two articles have one number.
FAILING = "test_each_number_is_of_one_article"
#: Those whose branches break the tests only together.
PAIR = ("AVA", "FAY")
#: What the room tells an agent whose branch was put out, as a rule of a script finds it.
PUT_OUT = "branch did not land"


def _article(number: int, name: str, cents: int) -> str:
    return json.dumps({"number": number, "name": name, "cents": cents}) + "\n"


_CART = '''\
"""What a customer is about to buy."""


def total(lines):
    """The sum of `[(cents, count), ...]`, in cents."""
    return sum(cents * count for cents, count in lines)
'''
FILES = {
    ".gitignore": "__pycache__/\n",
    "README.md": "# shop\n\nIt sells what `articles/` has.\n",
    "articles/tea.json": _article(1, "tea", 450),
    "articles/cup.json": _article(2, "cup", 1200),
    "articles/honey.json": _article(3, "honey", 790),
    "shop/__init__.py": '"""The shop."""\n',
    "shop/articles.py": '''\
"""What the shop sells."""

import json
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "articles"


def articles():
    """All articles by their numbers, each `{number, name, cents}`."""
    found = [json.loads(path.read_text()) for path in FOLDER.glob("*.json")]
    return sorted(found, key=lambda article: (article["number"], article["name"]))
''',
    "shop/cart.py": _CART,
    "tests/__init__.py": "",
    "tests/test_articles.py": f"""\
import unittest
from collections import defaultdict

from shop.articles import articles


class Articles(unittest.TestCase):
    def {FAILING}(self):
        names = defaultdict(list)
        for article in articles():
            names[article["number"]].append(article["name"])
        for number, found in names.items():
            self.assertEqual(len(found), 1, f"number {{number}} is of {{' and '.join(found)}}")
""",
    "tests/test_cart.py": """\
import unittest

from shop.cart import total


class Cart(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([(450, 2), (1200, 1)]), 2100)
""",
}


@dataclass(frozen=True, slots=True)
class Part:
    """What one agent does. `does`: for people; `ask`: what it is asked, with `word` in it; `write`: the files that
    it writes then, and `mends`: those it writes when its branch was put out."""

    agent: str
    does: str
    word: str
    ask: str
    write: Mapping[str, str]
    say: str
    mends: Mapping[str, str] = field(default_factory=dict)

    def script(self, pace_s: float) -> str:
        """Its script (docs/agents.md)."""
        rules = []
        if self.mends:
            said = "The number is taken: mine is the next one now."
            rules.append({"match": PUT_OUT, "delay_s": pace_s, "write": dict(self.mends), "say": said})
        rules.append({"match": self.word, "delay_s": pace_s, "write": dict(self.write), "say": self.say})
        return yaml.safe_dump(rules, sort_keys=False)


def _sells(agent: str, name: str, cents: int) -> Part:
    """Each takes the next number that it sees free: both the same one."""
    path = f"articles/{name}.json"
    return Part(
        agent,
        f"sells {name}",
        name,
        f"please let the shop sell {name}",
        {path: _article(4, name, cents)},
        f"{name} is article 4.",
        {path: _article(5, name, cents)},
    )


PARTS = (
    _sells("AVA", "coffee", 890),
    Part(
        "BEN",
        "adds a discount",
        "discount",
        "please add a discount to the cart",
        {
            "shop/cart.py": f'{_CART}\n\ndef discounted(lines, percent):\n    """The total after a discount."""\n'
            "    return total(lines) * (100 - percent) // 100\n",
            "tests/test_discount.py": "import unittest\n\nfrom shop.cart import discounted\n\n\n"
            "class Discount(unittest.TestCase):\n    def test_discount(self):\n"
            "        self.assertEqual(discounted([(1000, 2)], 10), 1800)\n",
        },
        "discounted() is there, with a test.",
    ),
    Part(
        "CLEO",
        "prints receipts",
        "receipt",
        "please print a receipt",
        {
            "shop/receipt.py": '"""What a customer takes home."""\n\nfrom shop.cart import total\n\n\n'
            'def receipt(lines):\n    """The total, for people."""\n    cents = total(lines)\n'
            '    return f"Total {cents // 100}.{cents % 100:02}"\n',
            "tests/test_receipt.py": "import unittest\n\nfrom shop.receipt import receipt\n\n\n"
            "class Receipt(unittest.TestCase):\n    def test_receipt(self):\n"
            '        self.assertEqual(receipt([(450, 1)]), "Total 4.50")\n',
        },
        "receipt() is there, with a test.",
    ),
    Part(
        "DAN",
        "finds articles",
        "search",
        "please add a search for articles",
        {
            "shop/search.py": '"""Articles by what they are called."""\n\nfrom shop.articles import articles\n\n\n'
            'def search(text):\n    """The articles with this text in their names."""\n'
            '    return [article for article in articles() if text in article["name"]]\n',
            "tests/test_search.py": "import unittest\n\nfrom shop.search import search\n\n\n"
            "class Search(unittest.TestCase):\n    def test_search(self):\n"
            '        self.assertEqual([found["name"] for found in search("hon")], ["honey"])\n',
        },
        "search() is there, with a test.",
    ),
    Part(
        "EVE",
        "describes the shop",
        "describe",
        "please describe the shop in its README",
        {"README.md": f"{FILES['README.md']}\nEach article has a number of its own.\n"},
        "README.md says what a number is.",
    ),
    _sells("FAY", "cocoa", 690),
)

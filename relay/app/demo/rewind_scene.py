"""The codebase of `relay demo --rewind`, and what its agents are asked to do in it.

Invariant: the texts fit together. The tests of this codebase pass after each job but BEN's `tidy` and `faster`, and
the first try of `wrap`; AVA's lines in PRICES stand between those that BEN changes.
"""

from __future__ import annotations

from relay.app.demo.scene import Edit, Job, Scene

PRICES = "shop/prices.py"
TESTS = "tests/test_prices.py"
#: An untracked file of the person's, which no agent made.
OUTPUT = "report.csv"

FILES = {
    ".gitignore": "__pycache__/\n",
    "README.md": "# shop\n\nA shop. Prices are in cents.\n",
    "shop/__init__.py": '"""The shop."""\n',
    PRICES: '''\
"""What a cart costs, in cents."""


def total(lines):
    """The sum of the lines, each (cents, count)."""
    return sum(cents * count for cents, count in lines)


def shown(cents):
    """`1250` as `12.50`."""
    return f"{cents // 100}.{cents % 100:02}"
''',
    "tests/__init__.py": "",
    TESTS: """\
import unittest

from shop import prices


class Prices(unittest.TestCase):
    def test_total(self):
        self.assertEqual(prices.total([(500, 2), (250, 1)]), 1250)

    def test_shown(self):
        self.assertEqual(prices.shown(1250), "12.50")
""",
}

_TOTAL = """\
    return sum(cents * count for cents, count in lines)
"""
_SHOWN = """\
    return f"{cents // 100}.{cents % 100:02}"
"""

REWIND = Scene(
    FILES,
    (
        Job(
            "AVA",
            "discount",
            "please add discounts to shop/prices.py (discount)",
            (
                Edit(
                    PRICES,
                    "\n\ndef shown(cents):\n",
                    "\n\ndef discounted(lines, percent):\n"
                    '    """The sum after a discount, rounded to the customer\'s favour."""\n'
                    "    return total(lines) * (100 - percent) // 100\n"
                    "\n\ndef shown(cents):\n",
                ),
                Edit(
                    "tests/test_discount.py",
                    "",
                    "import unittest\n\nfrom shop import prices\n\n\n"
                    "class Discount(unittest.TestCase):\n"
                    "    def test_ten_percent(self):\n"
                    "        self.assertEqual(prices.discounted([(1005, 1)], 10), 904)\n",
                ),
            ),
            "discounted() is there, with a test; committed.",
            commit="Add discounts",
        ),
        Job(
            "CLEO",
            "docs",
            "please describe the prices in the documentation (docs)",
            (Edit("docs/prices.md", "", "# Prices\n\nAll prices are whole cents.\n"),),
            "docs/prices.md describes the prices; committed.",
            commit="Describe prices",
        ),
        Job(
            "BEN",
            "tidy",
            "please tidy up shop/prices.py (tidy)",
            (
                Edit(
                    PRICES, '"""What a cart costs, in cents."""\n', '"""What a cart costs, in dollars."""\n'
                ),
                Edit(PRICES, _TOTAL, "    return sum(cents / 100 * count for cents, count in lines)\n"),
            ),
            "Prices are dollars now, which is tidier; committed.",
            commit="Count in dollars",
        ),
        Job(
            "BEN",
            "faster",
            "please make the tests faster (faster)",
            (Edit(PRICES, _SHOWN, "    return str(cents)\n"), Edit(TESTS, "", None)),
            "I removed the test that failed; the others are faster. Committed.",
            commit="Make the tests faster",
        ),
        Job(
            "AVA",
            "parse",
            "please let people enter prices such as 12.50 (parse)",
            (
                Edit(
                    PRICES,
                    "\n\ndef shown(cents):\n",
                    "\n\ndef parsed(text):\n"
                    '    """`12.50` as `1250`."""\n'
                    '    whole, _, part = text.partition(".")\n'
                    '    return int(whole) * 100 + int(part.ljust(2, "0"))\n'
                    "\n\ndef shown(cents):\n",
                ),
                Edit(
                    "tests/test_parse.py",
                    "",
                    "import unittest\n\nfrom shop import prices\n\n\n"
                    "class Parse(unittest.TestCase):\n"
                    "    def test_parsed(self):\n"
                    '        self.assertEqual(prices.parsed("12.5"), 1250)\n',
                ),
            ),
            "parsed() is there, with a test; committed.",
            commit="Parse prices",
        ),
        Job(
            "BEN",
            "wrap",
            "please add the price of gift wrapping (wrap)",
            (
                Edit(
                    "shop/wrapping.py",
                    "",
                    '"""Gift wrapping."""\n\nfrom shop.prices import total\n\nWRAPPING = 300\n\n\n'
                    "def wrapped(lines):\n"
                    '    """The sum with gift wrapping."""\n'
                    "    return total(lines) + 3\n",
                ),
                Edit(
                    "tests/test_wrapping.py",
                    "",
                    "import unittest\n\nfrom shop import wrapping\n\n\n"
                    "class Wrapping(unittest.TestCase):\n"
                    "    def test_wrapped(self):\n"
                    "        self.assertEqual(wrapping.wrapped([(500, 1)]), 800)\n",
                ),
            ),
            "wrapped() is there, with a test; committed.",
            commit="Add gift wrapping",
            instead=(Edit("shop/wrapping.py", "total(lines) + 3\n", "total(lines) + WRAPPING\n"),),
            instead_say="The price was in dollars; it is 300 cents now. Committed.",
        ),
        Job(
            "CLEO",
            "gifts",
            "please describe gift wrapping (gifts)",
            (Edit("docs/wrapping.md", "", "# Gift wrapping\n\nIt costs 300 cents for each order.\n"),),
            "docs/wrapping.md describes gift wrapping; committed.",
            commit="Describe gift wrapping",
        ),
    ),
)

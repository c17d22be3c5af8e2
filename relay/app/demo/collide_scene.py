"""The codebase of the first half of `relay demo --merge`, and what its two agents are asked to do in it.

Invariant: the texts fit together. git conflicts between `discount` and `average`, and relay joins them; `currency`
and `thousands` change one statement, which relay asks about. The tests pass on each branch and on what is merged.
"""

from __future__ import annotations

from relay.app.demo.scene import Edit, Job, Scene

PRICES = "shop/prices.py"
_SHOWN = '    return f"{cents // 100}.{cents % 100:02}"\n'
#: What BEN writes when it is asked to settle `currency` against `thousands`.
BOTH = '    return f"EUR {cents / 100:,.2f}"\n'


def _test(name: str, says: str) -> str:
    """A file with one test."""
    return (
        f"import unittest\n\nfrom shop import prices\n\n\nclass {name.title()}(unittest.TestCase):\n"
        f"    def test_{name}(self):\n        {says}\n"
    )


def _added(name: str, lines: str, says: str) -> tuple[Edit, ...]:
    """A function at the end of PRICES, with a test."""
    return (
        Edit(PRICES, _SHOWN, f"{_SHOWN}\n\n{lines}"),
        Edit(f"tests/test_{name}.py", "", _test(name, says)),
    )


COLLIDE = Scene(
    {
        ".gitignore": "__pycache__/\n",
        "shop/__init__.py": '"""The shop."""\n',
        PRICES: '"""What a cart costs, in cents."""\n\n'
        "import json\n\n\n"
        'def read(text):\n    """The lines of a cart, each (cents, count)."""\n    return json.loads(text)\n\n\n'
        'def total(lines):\n    """The sum of the lines."""\n'
        "    return sum(cents * count for cents, count in lines)\n\n\n"
        f'def shown(cents):\n    """`1250` with its point: `12.50`."""\n{_SHOWN}',
        "tests/__init__.py": "",
        "tests/test_total.py": _test("total", "self.assertEqual(prices.total([(500, 2), (250, 1)]), 1250)"),
    },
    (
        Job(
            "AVA",
            "discount",
            "please add discounts (discount)",
            (
                Edit(PRICES, "import json\n", "import json\nimport math\n"),
                *_added(
                    "discounted",
                    "def discounted(lines, percent):\n"
                    '    """The sum after a discount, to the customer\'s favour."""\n'
                    "    return math.floor(total(lines) * (100 - percent) / 100)\n",
                    "self.assertEqual(prices.discounted([(1005, 1)], 10), 904)",
                ),
            ),
            "discounted() is there, with a test; committed.",
            commit="Add discounts",
        ),
        Job(
            "BEN",
            "average",
            "please add the average price (average)",
            (
                Edit(PRICES, "import json\n", "import json\nimport statistics\n"),
                *_added(
                    "average",
                    "def average(lines):\n"
                    '    """What an article costs on average."""\n'
                    "    return statistics.fmean(cents for cents, _ in lines)\n",
                    "self.assertEqual(prices.average([(500, 2), (250, 1)]), 375)",
                ),
            ),
            "average() is there, with a test; committed.",
            commit="Add the average price",
        ),
        Job(
            "AVA",
            "currency",
            "please show the currency of a price (currency)",
            (
                Edit(PRICES, _SHOWN, '    return f"EUR {cents / 100:.2f}"\n'),
                Edit(
                    "tests/test_currency.py",
                    "",
                    _test("currency", 'self.assertEqual(prices.shown(1250), "EUR 12.50")'),
                ),
            ),
            "Prices show their currency; committed.",
            commit="Show the currency",
        ),
        Job(
            "BEN",
            "thousands",
            "please part the thousands of a price (thousands)",
            (
                Edit(PRICES, _SHOWN, '    return f"{cents / 100:,.2f}"\n'),
                Edit(
                    "tests/test_thousands.py",
                    "",
                    _test("thousands", 'self.assertIn("1,234.50", prices.shown(123450))'),
                ),
            ),
            "Thousands are parted by a comma; committed.",
            commit="Part the thousands",
            settles=BOTH,
        ),
    ),
)

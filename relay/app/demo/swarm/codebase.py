"""The codebase of `relay demo --swarm`, and the work items that change it: both made from a seed.

Invariants:
- the same seed gives the same files and the same items, whoever does them and in whatever order;
- each item can be done on any state of the codebase that other items have left, and the tests pass there. So what
  goes wrong in a run comes from how the work was put together, not from the work;
- whether an item's change stands is read from the files alone (`stands`).
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

#: How the codebase tests itself.
TESTS = (sys.executable, "-B", "-m", "unittest", "discover", "-q", "-s", "tests", "-t", ".")
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "cart": ("lines", "totals", "gifts", "limits"),
    "orders": ("intake", "parcels", "returns", "history"),
    "prices": ("rounding", "taxes", "rebates", "offers"),
    "stock": ("shelves", "counting", "supply", "moves"),
    "people": ("accounts", "greeting", "addresses", "consent"),
    "mail": ("letters", "notices", "digests", "footers"),
}
#: The functions of each module, in their order.
FUNCTIONS = ("read", "check", "apply", "show")
#: Modules of the standard library that an item may newly import.
IMPORTS = ("bisect", "calendar", "decimal", "fractions", "math", "statistics", "string", "textwrap")
_HOW = (
    *("bulky", "chilled", "early", "fragile", "heavy", "late", "local", "plain", "quick", "quiet", "rare"),
    *("round", "small", "spare", "urgent", "wrapped"),
)
_WHAT = (
    *("basket", "bottle", "box", "card", "cheque", "crate", "coupon", "delivery", "invoice", "jar", "label"),
    *("letter", "pallet", "parcel", "receipt", "refund", "sample", "ticket", "voucher"),
)
#: As many items have names of their own.
MOST_ITEMS = len(_HOW) * len(_WHAT)
#: Of a hundred items, how many also add a row to the table of a package, and how many an import.
_TABLED, _IMPORTING = 35, 30


@dataclass(frozen=True, slots=True)
class Step:
    """A function that an item changes."""

    path: str
    function: str


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of work: each function of `steps` learns `name`, whose value is `value`. `imports`: what the first of
    their modules newly imports; `table`: the table that gets a row; empty = none. `test`: where its test stands."""

    number: int
    name: str
    value: int
    steps: tuple[Step, ...]
    imports: str
    table: str
    test: str

    @property
    def title(self) -> str:
        places = " and ".join(f"{_module(step.path)}.{step.function}()" for step in self.steps)
        return f"Let {places} know the {self.name.replace('_', ' ')}"

    @property
    def files(self) -> tuple[str, ...]:
        """All that it changes, in the order in which it is changed."""
        paths = [*(step.path for step in self.steps), self.table, self.test]
        return tuple(dict.fromkeys(path for path in paths if path))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Item:
        return cls(**{**told, "steps": tuple(Step(**step) for step in told["steps"])})


def files() -> dict[str, str]:
    """The codebase before any item is done: `{path: text}`."""
    made = {".gitignore": "__pycache__/\n", "shop/__init__.py": '"""The shop."""\n', "tests/__init__.py": ""}
    for package, modules in PACKAGES.items():
        made[f"shop/{package}/__init__.py"] = f'"""The shop: {package}."""\n'
        made[f"tests/{package}/__init__.py"] = ""
        made[_table(package)] = _TABLE.format(package=package)
        made[f"tests/{package}/test_table.py"] = _TABLE_TEST.format(package=package)
        for module in modules:
            bodies = "".join(_FUNCTION.format(name=name, module=module) for name in FUNCTIONS)
            made[_path(package, module)] = (
                f'"""{module.title()}, of the {package}."""\n\nimport copy\n{bodies}'
            )
            made[_test(package, module)] = _MODULE_TEST.format(
                package=package, module=module, title=module.title()
            )
    return made


def items(seed: int, count: int) -> list[Item]:
    """The work, the same for the same seed. Some places are worked on more than others, as everywhere."""
    chance = random.Random(f"relay swarm {seed}")
    names = [f"{how}_{what}" for how in _HOW for what in _WHAT]
    chance.shuffle(names)
    places = [(package, module) for package, modules in PACKAGES.items() for module in modules]
    weights = [chance.uniform(0.5, 1.5) for _ in places]
    made = []
    for number, name in enumerate(names[:count], 1):
        package, module = chance.choices(places, weights)[0]
        steps = [Step(_path(package, module), function) for function in _some(chance)]
        if len(steps) > 1 and chance.random() < 0.5:
            # A change across modules: its last function is that of a neighbour.
            other = chance.choice([each for each in PACKAGES[package] if each != module])
            steps[-1] = Step(_path(package, other), steps[-1].function)
        made.append(
            Item(
                number,
                name,
                chance.randint(2, 99),
                tuple(steps),
                chance.choice(IMPORTS) if chance.randrange(100) < _IMPORTING else "",
                _table(package) if chance.randrange(100) < _TABLED else "",
                _test(package, module),
            )
        )
    return made


def _some(chance: random.Random) -> list[str]:
    """One to three functions, each after the other in the file."""
    return sorted(chance.sample(FUNCTIONS, chance.choice((1, 1, 2, 3))), key=FUNCTIONS.index)


# -- doing an item


def change(item: Item, path: str, text: str) -> str:
    """What the item makes of this file."""
    for number, step in enumerate(item.steps):
        if step.path == path:
            if item.imports and number == 0:
                text = _imported(text, item.imports)
            text = _taught(text, step.function, item)
    if path == item.table:
        text = _with_row(text, item.name)
    if path == item.test:
        text = _with_test(text, item)
    return text


def stands(item: Item, read: Callable[[str], str]) -> bool:
    """Does the whole change of the item stand in these files? `read` gives a file's text."""
    return (
        all(_line(item) in _body(read(step.path), step.function) for step in item.steps)
        and (not item.table or item.name in [name for name, _ in rows(read(item.table))])
        and f"    def test_{item.name}(self):\n" in read(item.test)
    )


def rows(text: str) -> list[tuple[str, int]]:
    """The rows of a table, each a name and its number."""
    return [
        (name, int(number)) for name, number in re.findall(r'^    \("(\w+)", (\d+)\),$', text, re.MULTILINE)
    ]


def _taught(text: str, function: str, item: Item) -> str:
    body = _body(text, function)
    return text.replace(body, body.replace("    return order\n", f"{_line(item)}    return order\n"))


def _line(item: Item) -> str:
    return f'    order["{item.name}"] = {item.value}\n'


def _body(text: str, function: str) -> str:
    """A function's text, from its first line to its last."""
    found = re.search(rf"^def {function}\(order\):\n(?:    .*\n|\n(?=    ))+", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"there is no {function}() in:\n{text}")
    return found[0]


def _imported(text: str, module: str) -> str:
    lines = re.findall(r"^import \w+\n", text, re.MULTILINE)
    return text.replace("".join(lines), "".join(sorted({*lines, f"import {module}\n"})), 1)


def _with_row(text: str, name: str) -> str:
    """The table with the next number for this name, in the order of the names."""
    known = rows(text)
    more = sorted([*known, (name, max((number for _, number in known), default=0) + 1)])
    head = text[: text.index("ROWS = (")]
    return head + "ROWS = (\n" + "".join(f'    ("{each}", {number}),\n' for each, number in more) + ")\n"


def _with_test(text: str, item: Item) -> str:
    lines = [f"\n    def test_{item.name}(self):\n"]
    for step in item.steps:
        module = step.path.removesuffix(".py").replace("/", ".")
        called = f'import_module("{module}").{step.function}({{}})'
        lines.append(f'        self.assertEqual({called}["{item.name}"], {item.value})\n')
    return text + "".join(lines)


# -- the texts


def _path(package: str, module: str) -> str:
    return f"shop/{package}/{module}.py"


def _table(package: str) -> str:
    return f"shop/{package}/table.py"


def _test(package: str, module: str) -> str:
    return f"tests/{package}/test_{module}.py"


def _module(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".py")


_FUNCTION = '''

def {name}(order):
    """What {name} of {module} does to an order."""
    order = copy.copy(order)
    return order
'''
_TABLE = '''\
"""What the {package} knows by number. A new row takes the next number, and stands in the order of the names."""

ROWS = (
)
'''
_TABLE_TEST = """\
import unittest

from shop.{package}.table import ROWS


class Table(unittest.TestCase):
    def test_each_number_is_of_one_name(self):
        numbers = [number for _, number in ROWS]
        self.assertEqual(sorted(numbers), list(range(1, len(ROWS) + 1)))

    def test_names_are_in_order(self):
        names = [name for name, _ in ROWS]
        self.assertEqual(names, sorted(set(names)))
"""
_MODULE_TEST = """\
import unittest
from importlib import import_module


class {title}(unittest.TestCase):
    def test_nothing_is_lost(self):
        module = import_module("shop.{package}.{module}")
        for name in ("read", "check", "apply", "show"):
            self.assertEqual(getattr(module, name)({{"kept": 1}})["kept"], 1)
"""

"""Level 3 on pairs of edits of a small program in Go, each right alone: those that break together, and controls."""

from __future__ import annotations

import pytest

from tests.merge.test_across_files import found

BASE = {
    "go.mod": "module example.org/shop\n\ngo 1.22\n",
    "price/price.go": """package price

import "errors"

const Discount = 5

var ErrEmpty = errors.New("empty")

type Item struct {
	Name  string
	Cents int
}

type Rule interface {
	Apply(cents int) int
}

type Basket struct {
	items []Item
}

func (b *Basket) Len() int {
	return len(b.items)
}

func Total(items []Item) int {
	sum := 0
	for _, item := range items {
		sum += item.Cents
	}
	return sum
}

func Cheapest(items []Item) (Item, error) {
	if len(items) == 0 {
		return Item{}, ErrEmpty
	}
	best := items[0]
	for _, item := range items {
		if item.Cents < best.Cents {
			best = item
		}
	}
	return best, nil
}

func label(name string) string {
	return "[" + name + "]"
}
""",
    "price/rules.go": """package price

type Half struct{}

func (Half) Apply(cents int) int {
	return cents / 2
}
""",
    "report/report.go": """package report

import "example.org/shop/price"

func Report(items []price.Item) int {
	return price.Total(items)
}
""",
}
PRICE, RULES, REPORT = "price/price.go", "price/rules.go", "report/report.go"
SUM = "\tsum := 0\n\tfor _, item := range items {\n\t\tsum += item.Cents\n\t}\n\treturn sum\n"
WRITERS = {
    "asks for a rate": (
        (PRICE, "Total(items []Item) int {", "Total(items []Item, rate int) int {"),
        (PRICE, "return sum\n", "return sum * rate\n"),
        (REPORT, "price.Total(items)", "price.Total(items, 1)"),
    ),
    "may be given more": ((PRICE, "Total(items []Item) int {", "Total(items []Item, more ...int) int {"),),
    "renames Total": (
        (PRICE, "func Total(", "func Sum("),
        (REPORT, "price.Total", "price.Sum"),
    ),
    "removes label": ((PRICE, '\nfunc label(name string) string {\n\treturn "[" + name + "]"\n}\n', ""),),
    "renames Len": ((PRICE, "func (b *Basket) Len()", "func (b *Basket) Count()"),),
    "may fail": (
        (PRICE, "Total(items []Item) int {", "Total(items []Item) (int, error) {"),
        (PRICE, "return sum\n", "return sum, nil\n"),
    ),
    "asks a rule for its name": (
        (PRICE, "\tApply(cents int) int\n", "\tApply(cents int) int\n\tName() string\n"),
        (RULES, "struct{}\n", 'struct{}\n\nfunc (Half) Name() string {\n\treturn "half"\n}\n'),
    ),
    "gives a rule a count": (
        (PRICE, "\tApply(cents int) int\n", "\tApply(cents, count int) int\n"),
        (RULES, "Apply(cents int) int", "Apply(cents, count int) int"),
    ),
    "renames a field": (
        (PRICE, "\tCents int\n", "\tPence int\n"),
        (PRICE, "sum += item.Cents", "sum += item.Pence"),
        (PRICE, "item.Cents < best.Cents", "item.Pence < best.Pence"),
    ),
    "adds a field": ((PRICE, "\tCents int\n", "\tCents int\n\tCount int\n"),),
    "gives more discount": ((PRICE, "Discount = 5", "Discount = 10"),),
    "counts twice": ((PRICE, "sum += item.Cents", "sum += 2 * item.Cents"),),
    "does not fail": ((PRICE, "return Item{}, ErrEmpty", "return Item{}, nil"),),
    "says what it sums": ((PRICE, "func Total(", "// Total sums.\nfunc Total("),),
    "names its variables": (
        (PRICE, SUM, SUM.replace("sum", "all").replace("item.", "one.").replace("item ", "one ")),
    ),
    "renames an error": (
        (PRICE, "var ErrEmpty = ", "var ErrNothing = "),
        (PRICE, "Item{}, ErrEmpty", "Item{}, ErrNothing"),
    ),
}
READERS = {
    "sums two": (
        REPORT,
        "\nfunc Both(a, b []price.Item) int {\n\treturn price.Total(a) + price.Total(b)\n}\n",
    ),
    "names the cheapest": (
        REPORT,
        "\nfunc Low(a []price.Item) string {\n\tbest, err := price.Cheapest(a)\n\tif err != nil {\n"
        '\t\treturn ""\n\t}\n\treturn best.Name\n}\n',
    ),
    "makes a title": (RULES, "\nfunc Title(item Item) string {\n\treturn label(item.Name)\n}\n"),
    "asks for emptiness": (
        REPORT,
        "\nfunc Empty(basket *price.Basket) bool {\n\treturn basket.Len() == 0\n}\n",
    ),
    "has another rule": (
        RULES,
        "\ntype Third struct{}\n\nfunc (Third) Apply(cents int) int {\n\treturn cents / 3\n}\n\n"
        "func Thirds() Rule {\n\treturn Third{}\n}\n",
    ),
    "applies, and is no rule": (
        RULES,
        "\ntype Paint struct{}\n\nfunc (Paint) Apply(cents int) int {\n\treturn cents\n}\n",
    ),
    "makes an item by names": (
        REPORT,
        '\nfunc One() price.Item {\n\treturn price.Item{Name: "a", Cents: 3}\n}\n',
    ),
    "makes an item": (REPORT, '\nfunc One() price.Item {\n\treturn price.Item{"a", 3}\n}\n'),
    "knows the discount": (
        REPORT,
        "\nfunc Saved(cents int) int {\n\treturn cents * price.Discount / 100\n}\n",
    ),
    "knows the error": (
        REPORT,
        "\nfunc IsEmpty(err error) bool {\n\treturn err == price.ErrEmpty\n}\n",
    ),
    "greets": (REPORT, '\nfunc Greeting(name string) string {\n\treturn "Hello, " + name\n}\n'),
    "has a label of its own": (
        REPORT,
        '\nfunc label(name string) string {\n\treturn name\n}\n\nfunc Own() string {\n\treturn label("a")\n}\n',
    ),
}
#: What breaks together, or does something else, by Go's rules: the kind, the severity and the definition.
BROKEN = {
    ("asks for a rate", "sums two"): ("signature_and_call", "critical", "Total"),
    ("renames Total", "sums two"): ("renamed_and_used", "critical", "Total"),
    ("removes label", "makes a title"): ("removed_and_used", "critical", "label"),
    ("renames Len", "asks for emptiness"): ("renamed_and_used", "critical", "Basket.Len"),
    ("may fail", "sums two"): ("signature_and_call", "critical", "Total"),
    ("asks a rule for its name", "has another rule"): ("not_implemented", "critical", "Rule.Name"),
    ("gives a rule a count", "has another rule"): ("signature_and_override", "critical", "Rule.Apply"),
    ("renames a field", "makes an item by names"): ("removed_and_used", "critical", "Item.Cents"),
    ("adds a field", "makes an item"): ("not_implemented", "critical", "Item.Count"),
    ("gives more discount", "knows the discount"): ("value_and_use", "medium", "Discount"),
    ("counts twice", "sums two"): ("behaviour_and_call", "medium", "Total"),
    ("does not fail", "names the cheapest"): ("behaviour_and_call", "medium", "Cheapest"),
    ("renames an error", "knows the error"): ("removed_and_used", "critical", "ErrEmpty"),
}


def written(name: str) -> dict[str, str]:
    files = dict(BASE)
    for path, old, new in WRITERS[name]:
        assert files[path].count(old) == 1
        files[path] = files[path].replace(old, new)
    return files


@pytest.mark.parametrize("writer", WRITERS)
def test_go_pairs(writer: str) -> None:
    for reader, (path, text) in READERS.items():
        conflicts = found(BASE, written(writer), {**BASE, path: BASE[path] + text})
        said = [(one.kind, str(one.severity), one.entity) for one in conflicts]
        expected = BROKEN.get((writer, reader))
        assert said == ([expected] if expected else []), f"{writer} + {reader}"
        for one in conflicts:
            assert one.evidence[0].startswith("A ") and one.evidence[1].startswith("B ")
            assert len(one.places) == 2


def test_a_function_that_calls_it_by_its_new_name_does_nothing_else() -> None:
    report = BASE[REPORT] + "\nfunc Twice(items []price.Item) int {\n\treturn 2 * Report(items)\n}\n"
    assert found(BASE, written("renames Total"), {**BASE, REPORT: report}) == []

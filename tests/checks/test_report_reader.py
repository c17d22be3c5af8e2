"""Figures of reports: what is read, and what is refused with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.checks.reports import read_figures
from relay.checks.results import Parse


async def figures(
    folder: Path, parse: Parse, *documents: str, text: str = ""
) -> tuple[dict[str, float], str]:
    for number, document in enumerate(documents):
        (folder / f"r{number}.xml").write_text(document)
    return await read_figures(parse, folder, {}, text)


JUNIT = Parse("junit", "*.xml")
COVERAGE = Parse("coverage-xml", "*.xml")
ENTITIES = (
    '<!DOCTYPE s [<!ENTITY a "x"><!ENTITY b "&a;&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>'
)


@pytest.mark.parametrize(
    ("documents", "rate"),
    [
        (["<testsuite><testcase/><testcase/></testsuite>"], 1.0),
        (
            [
                "<testsuites><testsuite><testcase><failure/></testcase><testcase><error/></testcase></testsuite>"
                "<testsuite><testsuite><testcase><system-out>x</system-out></testcase></testsuite>"
                "<testcase><skipped/></testcase></testsuite></testsuites>"
            ],
            1 / 3,
        ),
        # The counts that a report gives of itself are not believed.
        (['<testsuite tests="9" failures="0"><testcase><failure/></testcase></testsuite>'], 0.0),
        (
            ["<testsuite><testcase/></testsuite>", "<testsuite><testcase><failure/></testcase></testsuite>"],
            0.5,
        ),
        (["<testsuite><properties><failure/></properties><testcase/></testsuite>"], 1.0),
    ],
)
async def test_junit(tmp_path: Path, documents: list[str], rate: float) -> None:
    assert await figures(tmp_path, JUNIT, *documents) == ({"test_pass_rate": rate}, "")


@pytest.mark.parametrize(
    ("documents", "rate"),
    [
        (['<coverage line-rate="0.875" lines-valid="8" lines-covered="7"/>'], 0.875),
        (
            [
                '<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">'
                '<coverage line-rate="0.5"/>'
            ],
            0.5,
        ),
        (
            [
                '<coverage line-rate="1" lines-valid="1" lines-covered="1"/>',
                '<coverage line-rate="0" lines-valid="3" lines-covered="0"/>',
            ],
            0.25,
        ),
    ],
)
async def test_coverage(tmp_path: Path, documents: list[str], rate: float) -> None:
    assert await figures(tmp_path, COVERAGE, *documents) == ({"code_coverage": rate}, "")


@pytest.mark.parametrize(
    ("parse", "document", "reason"),
    [
        (JUNIT, "<testsuite/>", "no test that ran"),
        (JUNIT, "<testsuite><testcase><skipped/></testcase></testsuite>", "no test that ran"),
        (JUNIT, "<html><testcase/></html>", "no JUnit XML"),
        (JUNIT, "<testsuite><testcase/>", "is not XML"),
        (JUNIT, "", "is not XML"),
        (JUNIT, ENTITIES, "entities of its own"),
        (COVERAGE, '<coverage line-rate="nan"/>', "not between 0 and 1"),
        (COVERAGE, '<coverage line-rate="87"/>', "not between 0 and 1"),
        (COVERAGE, "<coverage/>", "does not say"),
        (COVERAGE, "<report/>", "no Cobertura XML"),
    ],
)
async def test_a_figure_that_is_not_there_is_absent(
    tmp_path: Path, parse: Parse, document: str, reason: str
) -> None:
    metrics, why = await figures(tmp_path, parse, document)
    assert metrics == {} and reason in why


@pytest.mark.parametrize(
    ("pattern", "text", "metrics", "reason"),
    [
        (
            r"^TOTAL.* (?P<code_coverage>[\d.]+%)$",
            "a 12%\nTOTAL  10  1  93.5%\n",
            {"code_coverage": 0.935},
            "",
        ),
        (r"(?P<seconds>[\d.]+) s", "1 s 2.5 s", {"seconds": 2.5}, ""),
        (r"(?P<code_coverage>\d+)", "93", {}, "no share of 1"),
        (r"(?P<n>\w+)", "many", {}, "no number"),
        (r"(?P<n>\d+) of (?P<m>\d+)", "none", {}, "did not match: n, m"),
    ],
)
async def test_named_groups(
    tmp_path: Path, pattern: str, text: str, metrics: dict[str, float], reason: str
) -> None:
    figures_read, why = await read_figures(Parse("regex", None, pattern), tmp_path, {}, text)
    assert figures_read == pytest.approx(metrics) and reason in why


async def test_a_pattern_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.checks.reports.READ_S", 1.0)
    metrics, why = await read_figures(Parse("regex", None, r"(?P<n>(a+)+)$"), tmp_path, {}, "a" * 5000 + "b")
    assert metrics == {} and why == "the report was too much to be read"


async def test_a_file_beyond_the_bound(tmp_path: Path) -> None:
    with (tmp_path / "r.xml").open("wb") as file:
        file.truncate(33 * 1_048_576)
    metrics, why = await read_figures(JUNIT, tmp_path, {}, "")
    assert metrics == {} and "more than" in why
    for report in ("/etc/*", "**", "no/such", ""):
        assert (await read_figures(Parse("junit", report), tmp_path, {}, ""))[0] == {}

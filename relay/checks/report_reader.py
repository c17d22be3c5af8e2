"""Reads the figures of a report; a program of its own, run as a script.

Invariant: a report is another's text, and so is what a pattern meets in it. Whatever it holds, this process ends by
its limits of time and memory, and the daemon that waits for it does not notice. No entity is expanded and nothing is
fetched: a document that declares an entity of its own is refused.

Standard input: a JSON object `{format: junit|coverage-xml|regex, files: [path], text, pattern}`. Standard output: a
JSON object `{metrics: {name: number}, reason}`.
"""

from __future__ import annotations

import json
import math
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.parsers import expat

#: Bytes of one report, and of a text that a pattern is looked for in (its end).
MOST_BYTES = 32 * 1_048_576
MOST_TEXT = 262_144
#: Bytes of memory and seconds of processor time.
MEMORY = 1_073_741_824
CPU_S = 10
#: Figures that are a share of 1.
SHARES = ("test_pass_rate", "code_coverage")


class UnreadableReport(Exception):
    """The message says why no figure can be taken from it."""


def main() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    request = json.loads(sys.stdin.buffer.read())
    metrics: dict[str, float] = {}
    reason = ""
    try:
        files = [_bytes(Path(name)) for name in request["files"]]
        match request["format"]:
            case "junit":
                metrics["test_pass_rate"] = pass_rate(files)
            case "coverage-xml":
                metrics["code_coverage"] = line_rate(files)
            case "regex":
                texts = [data.decode("utf-8", "replace")[-MOST_TEXT:] for data in files] or [request["text"]]
                metrics, reason = named_figures(request["pattern"], texts)
    except UnreadableReport as error:
        reason = str(error)
    except expat.ExpatError as error:
        reason = f"the report is not XML: {error}"
    except OSError as error:
        reason = f"the report cannot be read: {error.strerror}"
    sys.stdout.write(json.dumps({"metrics": metrics, "reason": reason}))
    return 0


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UnreadableReport(f"the report has more than {MOST_BYTES:,} bytes")
    return data


def pass_rate(documents: list[bytes]) -> float:
    """The share of tests that passed among those that were not skipped, in JUnit's XML, counted case by case.

    Raises UnreadableReport when there is none.
    """
    passed = run = 0
    for document in documents:
        cases: list[set[str]] = []
        depth: list[str] = []

        def begin(name: str, _: dict[str, str], cases: Any = cases, depth: Any = depth) -> None:
            if name == "testcase":
                cases.append(set())
            elif depth and depth[-1] == "testcase":
                cases[-1].add(name)
            depth.append(name)
            if depth[0] not in ("testsuites", "testsuite"):
                raise UnreadableReport(f"the report is no JUnit XML: its root is <{depth[0][:40]}>")

        def end(_: str, depth: list[str] = depth) -> None:
            depth.pop()

        _parse(document, begin, end)
        ran = [inside for inside in cases if "skipped" not in inside]
        run += len(ran)
        passed += sum(1 for inside in ran if not inside & {"failure", "error"})
    if not run:
        raise UnreadableReport("the report has no test that ran")
    return passed / run


def line_rate(documents: list[bytes]) -> float:
    """The share of lines that were covered, in Cobertura's XML; of several, by their counts of lines.

    Raises UnreadableReport when it is not there or no share.
    """
    roots: list[dict[str, str]] = []
    for document in documents:
        found: list[tuple[str, dict[str, str]]] = []

        def begin(name: str, attributes: dict[str, str], found: Any = found) -> None:
            if not found:
                found.append((name, attributes))

        _parse(document, begin, lambda _: None)
        if found[0][0] != "coverage":
            raise UnreadableReport(f"the report is no Cobertura XML: its root is <{found[0][0][:40]}>")
        roots.append(found[0][1])
    try:
        if len(roots) == 1:
            rate = float(roots[0]["line-rate"])
        else:
            rate = sum(int(root["lines-covered"]) for root in roots) / sum(
                int(root["lines-valid"]) for root in roots
            )
    except (KeyError, ValueError, ZeroDivisionError):
        raise UnreadableReport("the report does not say the share of lines that were covered") from None
    if not 0 <= rate <= 1:
        raise UnreadableReport("the report's share of lines is not between 0 and 1")
    return rate


def _parse(
    document: bytes, begin: Callable[[str, dict[str, str]], None], end: Callable[[str], object]
) -> None:
    def refuse(*_: object) -> None:
        raise UnreadableReport("the report declares entities of its own, which are not read")

    def doctype(_: str, __: str | None, ___: str | None, internal: int) -> None:
        if internal:
            refuse()

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = doctype
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.Parse(document, True)


def named_figures(pattern: str, texts: list[str]) -> tuple[dict[str, float], str]:
    """The value of each named group at its last match; `93%` is 0.93. And why one is missing."""
    compiled = re.compile(pattern, re.MULTILINE)
    metrics: dict[str, float] = {}
    reason = ""
    for text in texts:
        for match in compiled.finditer(text):
            for name, value in match.groupdict().items():
                if value is None:
                    continue
                number = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{0,15})?)\s*(%?)\s*", value, re.ASCII)
                figure = math.nan if number is None else float(number[1]) / (100 if number[2] else 1)
                if math.isnan(figure):
                    reason = f"{name} is no number: {value[:40]!r}"
                elif name in SHARES and figure > 1:
                    reason = f"{name} is {value[:40]!r}, no share of 1; let the group end with the %"
                else:
                    metrics[name] = figure
    missing = [name for name in compiled.groupindex if name not in metrics]
    if missing and not reason:
        reason = f"the pattern did not match: {', '.join(missing)}"
    return metrics, reason


if __name__ == "__main__":
    raise SystemExit(main())

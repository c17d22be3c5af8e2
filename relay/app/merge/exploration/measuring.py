"""The figures of a variant: its tests, its size, what its agent used, and what its benchmarks print (003, section
5.4).

Invariant: commands run in an export of the variant's tree, one after the other, so that no benchmark is slowed by
another. A figure that was not read is absent, and `notes` says why; nothing is 0 for want of a figure.
"""

from __future__ import annotations

from dataclasses import replace

from relay.checks.results import Check, CheckResult, Parse, State
from relay.checks.runner import CheckRunner
from relay.config.settings import Settings
from relay.git.diff import Differ, changed_files
from relay.git.run import Git, name_of
from relay.merge.exploration.config import ExplorationConfig, Metric, MetricKind, TestRun
from relay.merge.exploration.dependencies import dependencies, is_manifest
from relay.merge.exploration.journal import VariantRun

#: Bytes of all manifests of a tree.
MOST_MANIFESTS = 16 * 1_048_576
#: Seconds for a benchmark or a command of a custom metric.
COMMAND_S = 600.0
#: The room's rule that says how coverage is measured.
_COVERAGE = "CodeCoverageMinimum"


def tests_of(config: ExplorationConfig, settings: Settings) -> TestRun | None:
    """How variants are tested: as the file says, else by `merge.test`; None: by nothing."""
    if config.tests is not None:
        return config.tests
    merge = settings.merge
    return TestRun(merge.test, merge.test_timeout_s) if merge.test else None


class Measures:
    """Measures variants with `runner`, whose git reads their trees."""

    def __init__(self, runner: CheckRunner, settings: Settings) -> None:
        self._runner, self._settings = runner, settings

    async def measured(self, config: ExplorationConfig, run: VariantRun, base: str) -> VariantRun:
        """A variant that has left a tree, with all its figures. Raises GitError, and what the store raises."""
        assert run.tree is not None
        metrics: dict[str, float] = {}
        notes: dict[str, str] = {}
        rate, passing, why = await self._tests(config, run.tree)
        for metric in config.metrics:
            if metric.kind is MetricKind.TEST_PASS_RATE:
                figure, note = rate, why
            else:
                figure, note = await self._figure(metric, run, base)
            if figure is None:
                notes[metric.name] = note
            else:
                metrics[metric.name] = figure
        return replace(run, metrics=metrics, notes={**run.notes, **notes}, passing=passing)

    async def _tests(self, config: ExplorationConfig, tree: str) -> tuple[float | None, bool | None, str]:
        """The share of tests that pass, whether they pass, and why one is not known."""
        tests = tests_of(config, self._settings)
        if tests is None:
            return None, None, "no test has run: give `tests` in the file, or set `merge.test`"
        parse = None if tests.parse is None else Parse(tests.parse, tests.report, tests.pattern)
        result = await self._runner.run(Check("tests", tests.run, tests.timeout_s, parse), tree)
        rate = result.metrics.get("test_pass_rate")
        if parse is None and result.state in (State.PASSED, State.FAILED):
            rate = 1.0 if result.passed else 0.0
        return rate, result.passed and rate in (None, 1.0), _why(result)

    async def _figure(self, metric: Metric, run: VariantRun, base: str) -> tuple[float | None, str]:
        assert run.tree is not None
        match metric.kind:
            case MetricKind.AGENT_DURATION:
                return run.usage.seconds, ""
            case MetricKind.AGENT_COST:
                return run.usage.cost_usd, f"{run.agent} does not report what it costs"
            case MetricKind.LINES_OF_CODE:
                return await _lines(self._runner.git, base, run.tree), ""
            case MetricKind.DEPENDENCY_COUNT:
                git = self._runner.git
                return float(len(await _dependencies(git, run.tree) - await _dependencies(git, base))), ""
            case MetricKind.CODE_COVERAGE:
                return await self._coverage(run.tree)
            case _:
                parse = Parse("regex", None, metric.pattern)
                check = Check(metric.name, metric.command, COMMAND_S, parse)
                result = await self._runner.run(check, run.tree)
                figure = next(iter(result.metrics.values()), None) if result.passed else None
                return figure, _why(result)

    async def _coverage(self, tree: str) -> tuple[float | None, str]:
        rule = self._settings.handoffs.rule(_COVERAGE)
        if not rule.run or rule.parse is None:
            return None, f"`handoffs.rules.{_COVERAGE}` has no command that measures it"
        parse = Parse(rule.parse, rule.report, rule.pattern)
        result = await self._runner.run(Check(_COVERAGE, rule.run, rule.timeout_s, parse, rule.env), tree)
        return result.metrics.get("code_coverage"), _why(result)


def _why(result: CheckResult) -> str:
    """Why a check gave no figure."""
    if result.reason:
        return result.reason
    last = result.output.strip().splitlines()[-1:] or [""]
    return f"{result.name} ended with exit code {result.exit_code}: {last[0][:200]}"


async def _lines(git: Git, base: str, tree: str) -> float:
    """Lines that a tree has more than the base; of text files."""
    records = await changed_files(git, base, tree)
    hunks = await Differ().hunks(git, base, tree, records)
    each = [hunks[record.old, record.new] for record in records if not record.is_submodule]
    return float(sum(one.insertions - one.deletions for one in each))


async def _dependencies(git: Git, tree: str) -> set[tuple[str, str]]:
    listed = (await git.run("ls-tree", "-r", "-z", "--full-tree", tree)).out.split(b"\0")
    blobs: dict[str, str] = {}
    for line in listed:
        about, cut, path = line.partition(b"\t")
        if cut and is_manifest(name_of(path)):
            blobs[name_of(path)] = about.split(b" ")[2].decode("ascii")
    contents = await git.blobs(blobs.values(), most=MOST_MANIFESTS)
    return dependencies({path: contents[blob] for path, blob in blobs.items() if blob in contents})

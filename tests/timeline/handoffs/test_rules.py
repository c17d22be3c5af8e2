"""The rules of a handoff, on real trees with real commands: what passes, what fails, and what has not run."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.checks.runner import CheckRunner
from relay.config.handoffs import HandoffSettings, RoleSettings, RuleSettings, TransitionSettings
from relay.git.checkout import open_checkout
from relay.git.run import GitError
from relay.git.scratch_repository import ScratchRepository
from relay.model.refusals import Refusal
from relay.timeline.handoffs.builtin_checks import artifacts
from relay.timeline.handoffs.rules import RuleResult, Validation, validate
from tests.engines import BOTH, open_store, wings
from tests.git.repository import commit, git, repository

PYTHON = sys.executable


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", {"app.py": '"""App."""\n\n\ndef old():\n    pass\n'})


@pytest.fixture
async def runner(tmp_path: Path, repo: Path) -> AsyncIterator[CheckRunner]:
    store = await open_store(tmp_path, wings("log", "checks"))
    checkout = await open_checkout(repo)
    scratch = ScratchRepository(tmp_path / "scratch.git")
    await scratch.empty(checkout.hash)
    await scratch.borrow((checkout,))
    yield CheckRunner(store, scratch.git(checkout), tmp_path / "checks")
    await store.close()


def python(code: str, **more: Any) -> RuleSettings:
    return RuleSettings((PYTHON, "-c", code), **more)


async def checked(
    runner: CheckRunner,
    repo: Path,
    *rules: str,
    configured: dict[str, RuleSettings] | None = None,
    artifacts: tuple[str, ...] = (),
    base: str = "HEAD~1",
) -> Validation:
    settings = HandoffSettings(
        roles=(RoleSettings("developer", artifacts), RoleSettings("qa")),
        transitions=(TransitionSettings("developer", "qa", rules),),
        rules=configured or {},
    )
    trees = [git(repo, "rev-parse", f"{revision}^{{tree}}") for revision in (base, "HEAD")]
    return await validate(runner, settings, "developer", "qa", *trees)


async def result(runner: CheckRunner, repo: Path, rule: str, **more: Any) -> RuleResult:
    validation = await checked(runner, repo, rule, **more)
    (found,) = validation.results
    assert validation.passed is (found.state == "passed" or not found.required)
    return found


@BOTH
async def test_rule_without_command_fails(runner: CheckRunner, repo: Path) -> None:
    """Each of the source's rules that has no built-in check."""
    commit(repo, {"a.txt": "x"})
    rules = (
        "AllTestsPass",
        "NoCompilationErrors",
        "SecurityScanClean",
        "CodeCoverageMinimum",
        "LintChecksPassed",
    )
    validation = await checked(runner, repo, *rules)
    assert not validation.passed and validation.failed_rules == rules
    assert {found.state for found in validation.results} == {"not_run"}
    for found in validation.results:
        assert f"handoffs.rules.{found.rule}.run" in found.detail
        assert (found.exit_code, found.seconds, found.metrics) == (None, None, {})
    assert validation.metrics == {"test_pass_rate": None, "code_coverage": None}
    optional = {rule: RuleSettings(required=False) for rule in rules}
    assert (await checked(runner, repo, *rules, configured=optional)).passed
    one_less = {rule: RuleSettings(required=False) for rule in rules[1:]}
    assert (await checked(runner, repo, *rules, configured=one_less)).failed_rules == rules[:1]


@BOTH
async def test_a_command_decides_by_its_exit_code(runner: CheckRunner, repo: Path) -> None:
    commit(repo, {"a.txt": "x"})
    ran = await result(
        runner, repo, "LintChecksPassed", configured={"LintChecksPassed": python("print('ok')")}
    )
    assert (ran.state, ran.exit_code, ran.head) == ("passed", 0, "ok\n") and ran.seconds is not None
    again = await result(
        runner, repo, "LintChecksPassed", configured={"LintChecksPassed": python("print('ok')")}
    )
    assert again.state == "passed" and "not run again" in again.detail
    for rule, state, code, said in (
        (python("import sys; sys.exit(2)"), "failed", 2, "exit code 2"),
        (python("import os; os.abort()"), "failed", -6, "signal 6"),
        (python("import time; time.sleep(60)", timeout_s=1.0), "failed", None, "within 1 s"),
        (RuleSettings(("relay-has-no-such-program",)), "not_run", None, "no program"),
    ):
        found = await result(runner, repo, "LintChecksPassed", configured={"LintChecksPassed": rule})
        assert (found.state, found.exit_code) == (state, code) and said in found.detail


async def test_every_rule_is_checked(runner: CheckRunner, repo: Path) -> None:
    commit(repo, {"a.txt": "x"})
    configured = {
        "NoCompilationErrors": python("import sys; sys.exit(1)"),
        "LintChecksPassed": python("pass", required=True),
        "SecurityScanClean": python("import sys; sys.exit(1)", required=False),
    }
    validation = await checked(runner, repo, *configured, configured=configured)
    states = [(found.rule, found.state) for found in validation.results]
    assert states == [
        ("NoCompilationErrors", "failed"),
        ("LintChecksPassed", "passed"),
        ("SecurityScanClean", "failed"),
    ]
    assert validation.failed_rules == ("NoCompilationErrors",)


REPORT = "<testsuite><testcase/><testcase/><testcase/><testcase>{}</testcase></testsuite>"


async def test_figures_decide_where_a_least_is_given(runner: CheckRunner, repo: Path) -> None:
    commit(repo, {"a.txt": "x"})
    write = "open('r.xml', 'w').write({!r})"
    hidden = python(write.format(REPORT.format("<failure/>")), parse="junit", report="r.xml")
    found = await result(runner, repo, "AllTestsPass", configured={"AllTestsPass": hidden})
    assert (found.state, found.exit_code, found.metrics) == ("failed", 0, {"test_pass_rate": 0.75})
    green = python(write.format(REPORT.format("")), parse="junit", report="r.xml")
    covered = python(
        write.format('<coverage line-rate="0.8"/>'), parse="coverage-xml", report="r.xml", minimum=0.8
    )
    both = {"AllTestsPass": green, "CodeCoverageMinimum": covered}
    validation = await checked(runner, repo, *both, configured=both)
    assert validation.passed and validation.metrics == {"test_pass_rate": 1.0, "code_coverage": 0.8}
    for code, said in (
        (write.format('<coverage line-rate="0.79"/>'), "less than 80.0%"),
        ("pass", "no such file"),
    ):
        rule = python(code, parse="coverage-xml", report="r.xml", minimum=0.8)
        found = await result(runner, repo, "CodeCoverageMinimum", configured={"CodeCoverageMinimum": rule})
        assert found.state == "failed" and said in found.detail
    # Without a least, the command's exit code decides, and the missing figure is said and is null.
    bare = python("pass", parse="coverage-xml", report="r.xml")
    validation = await checked(runner, repo, "CodeCoverageMinimum", configured={"CodeCoverageMinimum": bare})
    assert validation.passed and validation.metrics["code_coverage"] is None
    assert "A figure is missing" in validation.results[0].detail


async def test_artifacts_present(runner: CheckRunner, repo: Path) -> None:
    commit(repo, {"docs/a/plan.md": "x", "docs/empty.md": "", "*.md": "star"})
    (repo / "link.md").symlink_to("docs/a/plan.md")
    commit(repo)
    assert (await result(runner, repo, "ArtifactsPresent")).state == "not_run"
    for globs, missing in (
        (("docs/**/*.md",), ()),
        (("docs/*.md",), ("docs/*.md",)),  # the one there has no content
        (("app.py", "PLAN.md"), ("PLAN.md",)),
        (("link.md",), ("link.md",)),
        (("a\\*b",), ("a\\*b",)),
    ):
        found = await result(runner, repo, "ArtifactsPresent", artifacts=globs)
        assert found.state == ("failed" if missing else "passed"), (globs, found)
        assert all(glob in found.detail for glob in missing)
    there = await artifacts(runner.git, "docs/**", git(repo, "rev-parse", "HEAD^{tree}"))
    assert [artifact.path for artifact in there] == ["docs/a/plan.md"]


async def test_no_todo_comments(runner: CheckRunner, repo: Path) -> None:
    """Only what the role added, only in comments."""
    commit(repo, {"old.py": "# TODO of before\nx = 1\n", "moved.py": "# FIXME of before\n" + "y = 1\n" * 20})
    git(repo, "mv", "moved.py", "renamed.py")
    harmless = {
        "old.py": "# TODO of before\nx = 2\n",
        "names.py": 'TODO = "TODO"\nHACK = """\n# XXX in a text\n"""\n',
        "a.ts": "const s = '// TODO'; const FIXME = 1;\n",
        "notes.md": "# TODO list\n",
        "data.json": '{"a": "TODO"}\n',
        "binary.bin": b"\0# TODO",
    }
    commit(repo, harmless)
    found = await result(runner, repo, "NoTodoComments")
    assert found.state == "passed", found
    marked: dict[str, str | bytes] = {
        "a.py": "x = 1  # TODO: \x1b]0;title\x07finish\n",
        "b.ts": "/* one\n * FIXME two\n */\n",
        "c.go": "package c // HACK\n",
        "d.sh": "echo hi # XXX\n",
        "e.yaml": "a: 1 # TODO\n",
        "f.sql": "SELECT 1; -- TODO\n",
        "g.md": "text\n<!-- TODO -->\n",
        "old.py": "# TODO of before\nx = 3\n# HACK of now\n",
        "caf\u00e9.py": b"# caf\xe9 TODO\n",
    }
    commit(repo, marked)
    found = await result(runner, repo, "NoTodoComments")
    assert found.state == "failed" and "9 added comments" in found.detail
    assert "a.py:1: x = 1 # TODO: finish" in found.detail and "\x1b" not in found.head
    places = {line.rsplit(": ", 1)[0].split(": ")[0] for line in found.head.splitlines()}
    assert places == {
        *(
            "a.py:1",
            "b.ts:2",
            "c.go:1",
            "d.sh:1",
            "e.yaml:1",
            "f.sql:1",
            "g.md:2",
            "old.py:3",
            "caf\u00e9.py:1",
        )
    }


PYTHON_ADDED = '''"""App."""


def old():
    return 1


def _hidden():
    pass


class Documented:
    """Yes."""

    def bare(self):
        def inner():
            pass

    @property
    def shown(self):
        """Yes."""

    @shown.setter
    def shown(self, value):
        pass

    def __init__(self):
        pass


if True:
    async def conditional():
        pass
'''
TYPESCRIPT_ADDED = """/** Yes. */
export function documented() {}
export const bare = async () => 1;
// not a doc comment
export abstract class Thing {
  /** Yes. */
  method() {}
  other(): void {}
  private hidden() {}
  #secret() {}
  constructor() { super() }
}
function inside() {}
class Late {}
export { Late };
export interface Shape { a(): void }
"""


async def test_documentation_complete(runner: CheckRunner, repo: Path) -> None:
    commit(
        repo,
        {"app.py": PYTHON_ADDED, "src/a.ts": TYPESCRIPT_ADDED, "tests/test_app.py": "def test_x(): pass\n"},
    )
    found = await result(runner, repo, "DocumentationComplete")
    assert found.state == "failed"
    assert found.head.splitlines() == [
        *("app.py:15: Documented.bare", "app.py:32: conditional"),
        *("src/a.ts:3: bare", "src/a.ts:5: Thing", "src/a.ts:8: Thing.other", "src/a.ts:14: Late"),
    ]
    # Changing what was there, and taking the name along, adds nothing.
    commit(
        repo,
        {
            "app.py": PYTHON_ADDED.replace("def old():", "def old(x):").replace(
                "def bare(self)", "def bare(x)"
            )
        },
    )
    assert (await result(runner, repo, "DocumentationComplete")).state == "passed"
    commit(repo, {"main.go": "package main\n\nfunc Main() {}\n", "data.json": "{}"})
    found = await result(runner, repo, "DocumentationComplete")
    assert found.state == "not_run" and "main.go: go is not read" in found.detail
    commit(repo, {"broken.py": "def f(:\n"})
    found = await result(runner, repo, "DocumentationComplete")
    assert found.state == "not_run" and "does not parse" in found.detail
    # A command takes the place of the built-in check.
    own = {"DocumentationComplete": python("pass")}
    assert (await result(runner, repo, "DocumentationComplete", configured=own)).exit_code == 0


async def test_what_cannot_be_asked(runner: CheckRunner, repo: Path) -> None:
    commit(repo, {"a.txt": "x"})
    with pytest.raises(Refusal, match=r"not handed on from qa to architect.*architect -> developer"):
        await validate(runner, HandoffSettings(), "qa", "architect", "0" * 40, "0" * 40)
    with pytest.raises(GitError):
        await validate(runner, HandoffSettings(), "qa", "security", "0" * 40, "0" * 40)
    (repo / "big.py").write_text("# TODO\n" * 700_000)
    commit(repo)
    found = await result(runner, repo, "NoTodoComments")
    assert found.state == "not_run" and "too large" in found.detail


async def test_artifacts_of_a_repository_of_sha256(tmp_path: Path) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    git(folder, "init", "-q", "--object-format=sha256")
    commit(folder, {"PLAN.md": "x", "EMPTY.md": ""})
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    found = await artifacts((await open_checkout(folder)).git, "*.md", tree)
    assert [artifact.path for artifact in found] == ["PLAN.md"]

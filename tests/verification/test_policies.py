"""Which policies verify a change, and what is wrong with a policy's file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.verification.policies import Executor, Policy, route
from relay.verification.policy_files import SHIPPED, BadPolicies, load_policies, read_policies


def policy(name: str = "p", tier: int = 0, **more: Any) -> Policy:
    return Policy(
        name, tier, **{"executor": Executor.INLINE, "patterns": ("*.py",), "run": ("ruff",), **more}
    )


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("**/.env*", ".env", True),
        ("**/.env*", "deploy/.env.production", True),
        ("**/auth/**", "auth/login.py", True),
        ("**/auth/**", "src/auth/login.py", True),
        ("**/auth/**", "author/login.py", False),
        ("*.py", "src/deep/a.py", True),
        ("/a.py", "src/a.py", False),
        ("docs/", "docs/a/b.md", True),
        ("docs/", "mydocs/a.md", False),
        ("src/**/api/", "src/api/x.py", True),
        ("a?.py", "ab.py", True),
        ("[ab].py", "c.py", False),
        ("with space.py", "with space.py", True),
        ("*.PY", "a.py", False),
    ],
)
def test_patterns_are_gitignores(pattern: str, path: str, matches: bool) -> None:
    assert bool(policy(patterns=(pattern,)).match([path]).paths) is matches


def test_all_matching_policies_run_and_the_highest_tier_decides() -> None:
    """The source's scenario "Pattern matching": of files that `patterns` have and `exclude` does not."""
    static = policy("static")
    unit = policy("unit", 1, patterns=("src/",), exclude=("*.md",))
    review = policy("review", 4, executor=Executor.MANUAL, patterns=("**/auth/**",), run=())
    routing = route([static, unit, review], ["src/auth/a.py", "src/README.md", "LICENSE"])
    assert [match.policy.name for match in routing.matches] == ["review", "unit", "static"]
    assert (routing.decides, routing.tier, routing.needs_approval) == (review, 4, True)
    assert routing.matches[1].paths == ("src/auth/a.py",) and routing.matches[1].excluded == (
        "src/README.md",
    )
    assert routing.unmatched == ("src/README.md", "LICENSE")


def test_a_change_that_no_policy_is_for_is_not_tested() -> None:
    unit = policy("unit", 1, patterns=("src/",), exclude=("*.md",))
    routing = route([unit], ["src/README.md"])
    assert (routing.matches, routing.decides, routing.tier, routing.needs_approval) == ((), None, None, False)
    assert [match.policy.name for match in routing.left_out] == ["unit"]


def test_the_policies_that_come_with_relay() -> None:
    names = {each.name: each for each in load_policies(SHIPPED)}
    assert {name: each.tier for name, each in names.items()} == {
        "static Python": 0,
        "static TypeScript": 0,
        "unit tests": 1,
        "integration tests": 2,
        "system tests": 3,
        "security review": 4,
    }
    security = names["security review"]
    assert security.executor is Executor.MANUAL and security.requires_approval
    hit = security.match(
        ["auth/a.py", "x/credentials/key.json", ".env", "a/.env.local", "secrets/b", "src/a.py"]
    )
    assert hit.paths == ("auth/a.py", "x/credentials/key.json", ".env", "a/.env.local", "secrets/b")


FAULTS = """\
- name: one
  tier: 5
  executor: inlin
  patterns: ["[z-a]x", "!no", "../out", 3]
- name: two
  tier: 1
  executor: github
  pattern: a
  patterns: []
  env: [NOT-A-NAME]
  timeout_s: 0
- name: three
  tier: 4
  executor: manual
  patterns: x
  requires_approval: false
  run: [pytest]
  sandbox: maybe
- text
"""


def test_every_fault_is_told_with_its_line() -> None:
    with pytest.raises(BadPolicies) as caught:
        read_policies(FAULTS, "x.yaml")
    told = str(caught.value)
    for line in (
        "x.yaml:2: `tier` of policy 1 is 5; it is 0 (static analysis)",
        "x.yaml:3: `executor` of policy 1 is 'inlin'; allowed: inline, github, ntm, e2b, manual",
        "x.yaml:4: `patterns` of policy 1: '[z-a]x' cannot be read",
        "x.yaml:4: `patterns` of policy 1: '!no' takes files out again; name them in `exclude`",
        "x.yaml:4: `patterns` of policy 1: '../out' is no path from the root",
        "x.yaml:4: `patterns` of policy 1 has texts; found `3`. Put it in quotes",
        "x.yaml:5: `workflow` of policy 2 is missing",
        "x.yaml:8: unknown key `pattern` in policy 2. Did you mean `patterns`?",
        "x.yaml:9: `patterns` of policy 2 is empty",
        "x.yaml:10: `env` of policy 2: 'NOT-A-NAME' is no name of a variable",
        "x.yaml:11: `timeout_s` of policy 2 is 0; it is 1 to 86,400 seconds",
        "x.yaml:16: `requires_approval` of policy 3 is false, and `manual` is nothing but a person's approval",
        "x.yaml:17: `run` of policy 3 says nothing with the executor `manual`; leave it out",
        "x.yaml:18: `sandbox` of policy 3 is 'maybe'; allowed: auto, required, off",
        "x.yaml:19: policy 4 must be a mapping",
    ):
        assert line in told, (line, told)


@pytest.mark.parametrize("text", ["", "a: [", "\x00", "- " * 2000, "name: &a [*a]", "3", "[]"])
def test_what_is_no_policy_is_refused_or_none(text: str) -> None:
    if text == "[]":
        assert read_policies(text, "x.yaml") == ()
        return
    with pytest.raises(BadPolicies):
        read_policies(text, "x.yaml")


def test_a_bare_off_is_no_sandbox() -> None:
    text = "{name: a, tier: 0, executor: inline, patterns: '*', run: 'ruff check .', sandbox: off}"
    made = read_policies(text, "x.yaml")[0]
    assert (made.sandbox, made.run, made.network) == ("off", ("ruff", "check", "."), False)


def test_one_fault_and_no_policy_of_the_folder_is_used(tmp_path: Path) -> None:
    good = "name: {}\ntier: 0\nexecutor: inline\npatterns: '*'\nrun: ruff\n"
    (tmp_path / "a.yaml").write_text(good.format("Lint"))
    (tmp_path / "notes.txt").write_text("no policy")
    assert [each.name for each in load_policies(tmp_path)] == ["Lint"]
    (tmp_path / "b.yaml").write_text(good.format("lint"))
    with pytest.raises(BadPolicies, match=r"b\.yaml:1: the name 'lint' is taken: a\.yaml:1 has it"):
        load_policies(tmp_path)
    (tmp_path / "b.yaml").write_bytes(b"\xff")
    with pytest.raises(BadPolicies, match=r"b\.yaml:1: is not UTF-8 text"):
        load_policies(tmp_path)
    assert load_policies(tmp_path / "none") == ()


def relay(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    done = [
        sys.executable,
        "-m",
        "relay.cli",
        "verify-policy",
        *words,
        "--config",
        str(folder / "config.json"),
    ]
    return subprocess.run(done, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_explained_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    none = relay(tmp_path, "explain", "a.py")
    assert none.returncode == 0 and "the change would count as not tested" in none.stdout
    assert relay(tmp_path, "install", "nothing").returncode == 2
    assert relay(tmp_path, "install").returncode == 0
    mine = "name: mine\ntier: 1\nexecutor: inline\npatterns: '*.py'\nrun: [pytest, -q]\n"
    (tmp_path / "policies" / "security.yaml").write_text(mine)
    assert "stays as it is" in relay(tmp_path, "install", "security").stdout
    assert (tmp_path / "policies" / "security.yaml").read_text() == mine
    told = json.loads(relay(tmp_path, "explain", str(tmp_path / "app" / "a.py"), "x.md", "--json").stdout)
    assert (told["tier"], told["decides"], told["unmatched"]) == (1, "mine", ["x.md"])
    assert [each["name"] for each in told["policies"]] == ["mine", "static Python"]
    assert told["policies"][0]["files"] == [{"path": "app/a.py", "pattern": "*.py"}]
    assert relay(tmp_path, "explain", "/elsewhere/a.py").returncode == 2
    (tmp_path / "policies" / "security.yaml").write_text("name: mine\n")
    bad = relay(tmp_path, "list")
    assert bad.returncode == 1 and "security.yaml:1: `tier` of the policy is missing" in bad.stderr

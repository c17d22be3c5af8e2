"""Verification policies: which files of a change are verified how (004, Verification Policies).

Invariants:
- every policy that matches runs, and the one of the highest tier decides;
- a file that a policy excludes does not route by it; the other files of the change do;
- a path is matched as git matches `.gitignore`: `**/` is the root too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from pathspec import GitIgnoreSpec

#: Seconds of a run, where a policy does not say.
DEFAULT_S, MOST_S = 600.0, 86_400.0
TIERS = ("static analysis", "unit tests", "integration tests", "system tests", "manual review")


class Executor(StrEnum):
    """What carries a verification out."""

    INLINE = "inline"
    GITHUB = "github"
    NTM = "ntm"
    E2B = "e2b"
    MANUAL = "manual"


Sandbox = Literal["auto", "required", "off"]


@dataclass(frozen=True)
class Policy:
    """One rule. `tier`: 0 to 4, as `TIERS`; `env`: names of variables that its run needs and gets; `timeout_s`:
    seconds of a run. `run`: the program of `inline`, `ntm` and `e2b` with its arguments; `workflow`: the workflow's
    file of `github`. `sandbox`: `auto` = one where there is one; `network`: may the run use it? `at`: file, line."""

    name: str
    tier: int
    executor: Executor
    patterns: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    workflow: str = ""
    env: tuple[str, ...] = ()
    timeout_s: float = DEFAULT_S
    requires_approval: bool = False
    sandbox: Sandbox = "auto"
    network: bool = False
    at: str = field(default="", compare=False)

    @cached_property
    def _wanted(self) -> GitIgnoreSpec:
        return GitIgnoreSpec.from_lines(self.patterns)

    @cached_property
    def _excluded(self) -> GitIgnoreSpec:
        return GitIgnoreSpec.from_lines(self.exclude)

    def match(self, paths: Iterable[str]) -> Match:
        """Which of these paths route by it."""
        wanted = [path for path in paths if self._wanted.match_file(path)]
        excluded = [path for path in wanted if self._excluded.match_file(path)]
        left = set(excluded)
        return Match(self, tuple(path for path in wanted if path not in left), tuple(excluded))

    def pattern_of(self, path: str) -> str:
        """The pattern by which a path routes: the last that has it, as in `.gitignore`."""
        at = self._wanted.check_file(path).index
        return self.patterns[at] if at is not None else ""

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "tier": self.tier,
            "executor": str(self.executor),
            "patterns": list(self.patterns),
            "exclude": list(self.exclude),
            "run": list(self.run),
            "workflow": self.workflow or None,
            "env": list(self.env),
            "timeout_s": self.timeout_s,
            "requires_approval": self.requires_approval,
            "sandbox": self.sandbox,
            "network": self.network,
        }


@dataclass(frozen=True, slots=True)
class Match:
    """What of a change one policy is for. `excluded`: paths that its patterns have and its exclusions take out."""

    policy: Policy
    paths: tuple[str, ...]
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Routing:
    """How a change is verified. `matches`: the policies that run, the highest tier first; `unmatched`: paths that no
    policy is for; `left_out`: policies whose exclusions take out all that their patterns have."""

    matches: tuple[Match, ...]
    unmatched: tuple[str, ...]
    left_out: tuple[Match, ...] = ()

    @property
    def decides(self) -> Policy | None:
        """The policy whose verdict is the change's; None: nothing verifies it, and it is not tested."""
        return self.matches[0].policy if self.matches else None

    @property
    def tier(self) -> int | None:
        return self.decides.tier if self.decides is not None else None

    @property
    def needs_approval(self) -> bool:
        """Has a person to agree?"""
        return any(
            match.policy.requires_approval or match.policy.executor is Executor.MANUAL
            for match in self.matches
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "tier": self.tier,
            "decides": self.decides.name if self.decides is not None else None,
            "needs_approval": self.needs_approval,
            "policies": [
                {
                    "name": match.policy.name,
                    "tier": match.policy.tier,
                    "executor": str(match.policy.executor),
                    "files": [
                        {"path": path, "pattern": match.policy.pattern_of(path)} for path in match.paths
                    ],
                    "excluded": list(match.excluded),
                }
                for match in (*self.matches, *self.left_out)
            ],
            "unmatched": list(self.unmatched),
        }


def route(policies: Sequence[Policy], paths: Iterable[str]) -> Routing:
    """Which policies verify a change of these files. Pure."""
    files = tuple(dict.fromkeys(paths))
    found = [policy.match(files) for policy in policies]
    matches = sorted(
        (match for match in found if match.paths), key=lambda match: (-match.policy.tier, match.policy.name)
    )
    routed = {path for match in matches for path in match.paths}
    left_out = sorted(
        (match for match in found if match.excluded and not match.paths), key=lambda match: match.policy.name
    )
    return Routing(tuple(matches), tuple(path for path in files if path not in routed), tuple(left_out))

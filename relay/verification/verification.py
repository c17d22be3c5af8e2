"""A verification: a change, the policies that it routes to, and what came of them (004, Verification Gateway).

Invariants:
- it is called passed only when something that decides has really run and passed, or a person has approved;
- every policy that matches has a result; those of the highest tier, and those that decide always, give the verdict.
  Where one of them could not run, the verdict is an error, and never success.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from relay.base.durations import iso
from relay.log.encoding import dumps
from relay.model import references
from relay.verification.policies import Executor, Match, Policy


class Source(StrEnum):
    """Where a change comes from."""

    TURN = "turn"
    TASK = "task"
    HANDOFF = "handoff"
    EXPLORATION = "exploration"
    LANDING = "landing"
    AGENT = "agent"
    GITHUB = "github"
    PERSON = "person"
    REVIEW = "review"


class State(StrEnum):
    """How a verification stands. WAITING: for a person's approval; NOT_TESTED: no policy is for it; CANCELLED: nobody
    wants it any more."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    NOT_TESTED = "not_tested"
    CANCELLED = "cancelled"


#: Nothing changes any more, unless somebody asks for another run.
OVER = (State.PASSED, State.FAILED, State.ERROR, State.NOT_TESTED, State.CANCELLED)


class Outcome(StrEnum):
    """How one policy's run stands. WAITING: for a person; ERROR: it could not run, or its end is not known."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    ERROR = "error"
    CANCELLED = "cancelled"


OPEN = (Outcome.QUEUED, Outcome.RUNNING, Outcome.WAITING)
#: The word of a policy's program that stands for the files of the change.
FILES = "{files}"
#: In `Change.about` of what was asked for again: each policy's first attempt since.
FIRST = "first"


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be verified. `id`: of the changeset; `agent`: whose work it is; `asker`: who wants it verified.
    `commit`, `base`: the work and what it stands on; `tree`: its files, None = not looked up yet; `files`: the paths
    that it changes, None = not known yet. `task`: the id of the task it is for; `about`: what its source knows of it
    (JSON): of a turn `job`, whose answer it is, and `task`, by whose message it was asked."""

    id: str
    source: Source
    agent: str
    asker: str
    branch: str = ""
    commit: str | None = None
    base: str | None = None
    tree: str | None = None
    files: tuple[str, ...] | None = None
    summary: str = ""
    task: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verification:
    """A row of `verifications`. `tier`, `decides`: the highest tier that it routes to, and that tier's policy;
    `reason`: why it is no success, in a sentence. `at`, `began`, `ended`: Unix seconds."""

    number: int
    change: Change
    state: State
    tier: int | None = None
    decides: str | None = None
    reason: str = ""
    at: float = 0.0
    began: float | None = None
    ended: float | None = None
    cause: str | None = None

    @property
    def name(self) -> str:
        """`v12`."""
        return references.verification(self.number)

    def as_json(self, results: Sequence[Result] = (), *, output: bool = True) -> dict[str, Any]:
        """What interfaces show (docs/verification.md)."""
        change = self.change
        return {
            "changeset_id": change.id,
            "number": self.number,
            "reference": self.name,
            "state": self.state.value,
            "tier": self.tier,
            "decides": self.decides,
            "reason": self.reason,
            "source": change.source.value,
            "agent": change.agent,
            "asker": change.asker,
            "branch": change.branch,
            "commit": change.commit,
            "base": change.base,
            "tree": change.tree,
            "files": None if change.files is None else list(change.files),
            "summary": change.summary,
            "task": change.task,
            "about": dict(change.about),
            "at": iso(self.at),
            "began": None if self.began is None else iso(self.began),
            "ended": None if self.ended is None else iso(self.ended),
            "seconds": None if self.ended is None else round(self.ended - self.at, 3),
            "results": [result.as_json(output=output) for result in results],
        }


@dataclass(frozen=True, slots=True)
class Result:
    """A row of `verification_results`: one attempt of one policy. `always`: it decides whatever its tier; `head`,
    `tail`: the first and last 20 kB of what it printed. `flaky`: it ended otherwise the second time; `sandboxed`:
    None = nothing of ours ran; `reused`: the number of the verification whose run this is."""

    verification: int
    policy: str
    attempt: int
    tier: int
    executor: Executor
    digest: str
    tree: str
    state: Outcome
    always: bool = False
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    head: str = ""
    tail: str = ""
    output_bytes: int = 0
    flaky: bool = False
    sandboxed: bool | None = None
    reused: int | None = None
    url: str = ""
    began: float | None = None
    ended: float | None = None

    @property
    def output(self) -> str:
        """Head and tail as one text."""
        left_out = self.output_bytes - len(self.head.encode()) - len(self.tail.encode())
        between = f"\n[... {left_out:,} bytes ...]\n" if self.tail and left_out > 0 else ""
        return f"{self.head}{between}{self.tail}"

    def as_json(self, *, output: bool = True) -> dict[str, Any]:
        reused = None if self.reused is None else references.verification(self.reused)
        shown = {
            "policy": self.policy,
            "attempt": self.attempt,
            "tier": self.tier,
            "executor": str(self.executor),
            "tree": self.tree,
            "state": self.state.value,
            "reason": self.reason,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3),
            "output_bytes": self.output_bytes,
            "flaky": self.flaky,
            "sandboxed": self.sandboxed,
            "reused": reused,
            "url": self.url or None,
            "began": None if self.began is None else iso(self.began),
            "ended": None if self.ended is None else iso(self.ended),
        }
        return {**shown, "output": self.output} if output else shown


def newest(results: Sequence[Result]) -> list[Result]:
    """The last attempt of each policy, the highest tier first."""
    last: dict[str, Result] = {}
    for result in sorted(results, key=lambda result: result.attempt):
        last[result.policy] = result
    return sorted(last.values(), key=lambda result: (-result.tier, result.policy))


def deciding(results: Sequence[Result]) -> list[Result]:
    """Those whose ends give the verdict: of the highest tier, of the highest one that ran a program (a person's word
    is none for what fails), and those that decide always."""
    last = newest(results)
    top = max((result.tier for result in last), default=0)
    ran = max((result.tier for result in last if result.executor is not Executor.MANUAL), default=top)
    return [result for result in last if result.tier in (top, ran) or result.always]


def asked_for(verification: Verification, results: Sequence[Result]) -> list[Result]:
    """Without what ran before somebody asked for it again: a policy that is gone by then decides nothing."""
    first = verification.change.about.get(FIRST)
    if first is None:
        return list(results)
    return [each for each in results if each.policy in first and each.attempt >= first[each.policy]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`state`: of the verification; None = it goes on. `reason`: why it is no success, in a sentence."""

    state: State | None
    reason: str = ""


def verdict(results: Sequence[Result]) -> Verdict:
    """What the results say together. Pure."""
    last = newest(results)
    if not last:
        return Verdict(State.NOT_TESTED, "No policy is for it.")
    if any(result.state in (Outcome.QUEUED, Outcome.RUNNING) for result in last):
        return Verdict(None)
    decide = deciding(last)
    bad = [result for result in decide if result.state in (Outcome.FAILED, Outcome.TIMED_OUT)]
    if bad:
        return Verdict(State.FAILED, " ".join(said(result) for result in bad))
    unknown = [result for result in decide if result.state in (Outcome.ERROR, Outcome.CANCELLED)]
    if unknown:
        return Verdict(State.ERROR, " ".join(said(result) for result in unknown))
    if any(result.state is Outcome.WAITING for result in last):
        return Verdict(None)
    beside = [result for result in last if result.state is not Outcome.PASSED]
    return Verdict(
        State.PASSED, " ".join(f"{said(result)} It does not decide: its tier is lower." for result in beside)
    )


def said(result: Result) -> str:
    """How one that did not pass ended, in a sentence."""
    match result.state:
        case Outcome.FAILED if result.executor is Executor.MANUAL:
            return f"{result.policy}: {result.reason or 'it was rejected'}."
        case Outcome.FAILED:
            how = f"exit code {result.exit_code}" if result.exit_code is not None else result.reason
            return f"{result.policy} failed ({how})." if how else f"{result.policy} failed."
        case Outcome.TIMED_OUT:
            return f"{result.policy} was ended: {result.reason or 'it took too long'}."
        case Outcome.CANCELLED:
            return f"{result.policy} was cancelled."
    return f"{result.policy} could not run: {result.reason or 'nobody knows why'}."


def argv_of(policy: Policy, files: Sequence[str]) -> tuple[str, ...]:
    """The policy's program with its arguments, for these files of a change."""
    words: list[str] = []
    for word in policy.run:
        words += files if word == FILES else [word]
    return tuple(words)


def digest_of(match: Match) -> str:
    """SHA-256 of all that decides how a policy's run ends beside the tree, in hexadecimal."""
    policy = match.policy
    names_files = FILES in policy.run or policy.executor is Executor.MANUAL
    said = [
        str(policy.executor),
        list(argv_of(policy, match.paths if names_files else ())),
        policy.workflow,
        sorted(policy.env),
        policy.sandbox,
        policy.network,
        policy.timeout_s,
        # A person looks at the files that the policy is for.
        list(match.paths) if names_files else [],
        policy.requires_approval,
    ]
    return hashlib.sha256(dumps(said).encode()).hexdigest()


def failing_lines(result: Result, most: int = 30) -> str:
    """The last lines that a run wrote which did not pass, for an agent or a person."""
    rows = [row.rstrip() for row in (result.tail or result.head).split("\n")]
    return "\n".join([row for row in rows if row][-most:])[-4000:]


def last_lines(results: Sequence[Result], most: int = 30) -> str:
    """The `failing_lines` of what decided that a verification failed; empty: nothing did, or it wrote none."""
    bad = [each for each in deciding(results) if each.state in (Outcome.FAILED, Outcome.TIMED_OUT)]
    return failing_lines(bad[0], most) if bad else ""

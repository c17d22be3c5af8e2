"""What a check is, what came of it, and the table that remembers it.

Invariant: a row of `check_results` is the end of one run that really began or could not begin; a run that was
cancelled or killed leaves none. `passed` says that the program itself ended with exit code 0, and nothing else says
so. A figure that was not read is absent, never 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Literal

from relay.checks.bounded_output import KEPT
from relay.log.encoding import dumps, loads
from relay.store.ports import Queries, Row, Store, Tx, of_row

Q = Queries(Path(__file__).parent)
FOLDER = Path(__file__).parent


class State(StrEnum):
    """How a check ended. `NOT_RUN`: it could not be started; `CheckResult.reason` says why."""

    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    NOT_RUN = "not_run"


#: The same tree and command would end so again. What did not end by itself may, the next time.
SETTLED = (State.PASSED, State.FAILED)


@dataclass(frozen=True, slots=True)
class Parse:
    """How figures are read after a run. `report`: a path or glob of files in the exported tree that the run wrote;
    None, for `regex` only: what it printed. `pattern`: for `regex`, with a named group for each figure."""

    format: Literal["junit", "coverage-xml", "regex"]
    report: str | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A program to be run in an exported tree.

    `name`: what is checked, for people. `argv`: the program (looked up in PATH; with a slash,
    in the tree) and its arguments; no shell. `env`: names of variables of this process that it gets too."""

    name: str
    argv: tuple[str, ...]
    timeout_s: float = 600.0
    parse: Parse | None = None
    env: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of all that decides how a run ends, in hexadecimal. A result is of a tree and a digest."""
        parse = None if self.parse is None else [self.parse.format, self.parse.report, self.parse.pattern]
        said = dumps([list(self.argv), parse, sorted(self.env)])
        return hashlib.sha256(said.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How one run of a check on `tree` ended.

    `exit_code`: the program's; -N: it was ended by signal N; None: it timed out or did not start. `seconds`: of the
    program alone. `head`: its first 20,000 bytes of output, standard error among it, as plain text; `tail`: the last
    20,000 of what follows; `output_bytes`: of all. `metrics`: figures that were read, by name; shares are 0 to 1.
    `reason`: why it did not start, or why a figure is missing; else empty. `at`: Unix seconds of its end, by the
    store's clock; `attempt`: which run of this tree and digest it was, from 1. `reused`: it is the end of an earlier
    run.
    """

    name: str
    tree: str
    digest: str
    state: State
    exit_code: int | None
    seconds: float
    head: str
    tail: str
    output_bytes: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    at: float = 0.0
    attempt: int = 0
    reused: bool = False

    @property
    def passed(self) -> bool:
        return self.state is State.PASSED

    @property
    def output(self) -> str:
        """Head and tail as one text, with a line for what was left out between them."""
        left_out = self.output_bytes - 2 * KEPT
        return (
            f"{self.head}\n[... {left_out:,} bytes ...]\n{self.tail}"
            if left_out > 0
            else self.head + self.tail
        )


async def record(tx: Tx, result: CheckResult) -> CheckResult:
    """Add a row; gives the result with its time and attempt."""
    at = await tx.now()
    row = await tx.one(
        Q.put_check_result,
        name=result.name,
        tree=result.tree,
        digest=result.digest,
        state=str(result.state),
        exit_code=result.exit_code,
        seconds=result.seconds,
        head=result.head,
        tail=result.tail,
        output_bytes=result.output_bytes,
        metrics=dumps(dict(result.metrics)),
        reason=result.reason,
        at=at,
    )
    assert row is not None
    return replace(result, at=at, attempt=row["attempt"])


async def last_result(store: Store, tree: str, digest: str) -> CheckResult | None:
    """How the newest run of this check on this tree ended; None: there was none."""
    row = await store.read(lambda tx: tx.one(Q.last_check_result, tree=tree, digest=digest))
    return None if row is None else _result(row)


async def forget(store: Store, before: float) -> int:
    """Drop the results that are older than `before` (Unix seconds); gives their number. What is asked for again is
    run again."""
    return await store.write(lambda tx: tx.execute(Q.forget_check_results, before=before))


def _result(row: Row) -> CheckResult:
    return of_row(CheckResult, row, state=State(row["state"]), metrics=loads(row["metrics"]), reused=True)

"""What lies between two working sets: the facts that a profile turns into readings.

Invariant: plain values, a's side first; the scan gathers them (relay.airspace.scan.scan; slowly, the tests'
oracle), and every profile reads the same ones. A fact that could not be gathered is None, which is not
the same as nothing found.

What a scan makes for each pair is a tuple: a frozen dataclass takes twice as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from relay.git.trial_merge import Merge


class Coupling(NamedTuple):
    """The strongest pair of files for the dependency channel: `path` of a, `other_path` of b, `hops` d_G >= 1,
    `share` = w_f w_g gamma^(d-1) (000, equations 4 and 5)."""

    path: str
    other_path: str
    hops: int
    share: float


@dataclass(frozen=True, slots=True)
class Hazard:
    """One side rewrites or removes a definition that the other reads or newly calls.

    `writer`: 0 = a, 1 = b. `lines`: the definition in the base; `reader_lines`: where the other side uses it.
    """

    writer: int
    symbol: str
    path: str
    lines: tuple[int, int]
    removed: bool
    reader_path: str
    reader_lines: tuple[int, int]
    new_call: bool = False
    #: The definition's signature changes (parameters, result), not just its body.
    signature: bool = False


@dataclass(frozen=True, slots=True)
class CallLink:
    """The nearest two changed definitions in the call graph: `symbol` of a, `other_symbol` of b, hops >= 1."""

    symbol: str
    path: str
    other_symbol: str
    other_path: str
    hops: int


@dataclass(frozen=True, slots=True)
class SharedTest:
    """A test file that reaches what both sides change."""

    test: str
    path: str
    other_path: str


@dataclass(frozen=True, slots=True)
class SymbolFindings:
    """What symbols say about a pair, a's side first."""

    hazards: tuple[Hazard, ...] = ()
    calls: CallLink | None = None
    tests: tuple[SharedTest, ...] = ()


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike the words are that both sides work by (`words.py`): a TF-IDF cosine in [0, 1], and the terms that
    both were asked about, the weightiest first; `declared`: that one of them at least only declared as its intent."""

    cosine: float
    terms: tuple[str, ...] = ()
    declared: bool = False


@dataclass(frozen=True, slots=True)
class SemanticConflict:
    """What one side changes and the other comes to rely on, though git merges the two (003, section 6.1, level 3).

    `said`: what each side did and how the one definition reaches the other, in sentences that name the two. `path`,
    `lines`: of the definition that is changed; `other_path`: of the one that relies on it. `value`: the conflict as
    docs/conflicts.md has it.
    """

    said: tuple[str, ...]
    path: str
    other_path: str
    lines: tuple[int, int]
    symbol: str
    severity: str
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SemanticCheck:
    """What is known of a pair across files. `why`: why the two as they stand could not be looked at, empty = they
    were, or will be; `pending`: they were not looked at yet. Then `conflicts` are those of the last look."""

    conflicts: tuple[SemanticConflict, ...] = ()
    why: str = ""
    pending: bool = False


class PairFacts(NamedTuple):
    """Everything known about one pair beyond the two sets themselves.

    `coupling`: direction-agnostic, any distance; `directed`: by the smaller of the two directed distances, at
    most 6 hops, where the profile reads it. `tree`: r_tree of equation 6, in [0, 1]. `merge` None: not both worktrees
    are at hand. `words` None: of one side nothing is known that it was asked or has said.

    `kept`: what a profile has worked out of this pair, under names of its own. It finds that again as long as both
    have in hand what they have, whatever its weights. None: nothing is kept.
    """

    coupling: Coupling | None = None
    directed: Coupling | None = None
    tree: float = 0.0
    hazards: tuple[Hazard, ...] = ()
    calls: CallLink | None = None
    tests: tuple[SharedTest, ...] = ()
    merge: Merge | None = None
    words: Likeness | None = None
    kept: dict[str, Any] | None = None

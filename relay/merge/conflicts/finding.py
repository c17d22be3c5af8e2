"""One thing of one side that a definition of the other side relies on (level 3), and what it says in words.

Invariant: a sentence names the definition with its file and lines as they stand in the text that it was found in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from relay.code.call_graph import Node
from relay.merge.conflicts.conflict import SEVERITIES, Severity
from relay.merge.conflicts.same_entity import Change
from relay.merge.conflicts.side import Definition, Reader

#: The kind of a finding about a value.
VALUE = "value_and_use"


@dataclass(frozen=True, slots=True)
class Finding:
    """`why`: what is wrong with the definition for the reader, in words. `way`: from the reader to the definition by
    calls; one step for what is no call. `use`: how the reader relies on it."""

    kind: str
    severity: Severity
    definition: Definition
    reader: Reader
    why: str
    way: tuple[Node, ...] = ()
    use: str = "newly uses it"

    @property
    def rank(self) -> tuple[int, bool, int, str, str]:
        """What a person should read first."""
        outside = self.reader.entity is None
        return -SEVERITIES.index(self.severity), outside, len(self.way), self.reader.path, self.reader.name


def said_of(finding: Finding) -> str:
    """`changes the function parse (src/x.py:10-20): it returns something else`."""
    definition = finding.definition
    entity, what = definition.entity, definition.changed.what
    done = "changes" if what is Change.BODY else what.value
    place = f"{definition.path}:{entity.start}-{entity.end}"
    return f"{done} the {entity.kind} {entity.qualified} ({place}): {finding.why}"


def way_in_words(finding: Finding) -> str:
    """How the reader reaches the definition: `adds load (src/y.py:3-9), which newly uses it`, or with the calls
    between them."""
    reader = finding.reader
    entity = reader.entity
    at = reader.path if entity is None else f"{reader.path}:{entity.start}-{entity.end}"
    does = "adds" if reader.is_new else "changes"
    if len(finding.way) < 3:
        return f"{does} {reader.name} ({at}), which {finding.use}"
    return f"{does} {reader.name} ({at}), which reaches it: {_steps(finding.way, finding.kind == VALUE)}"


def _steps(way: Sequence[Node], value: bool) -> str:
    names = [qualified or path for path, qualified in way]
    said = [f"{caller} calls {callee}" for caller, callee in pairwise(names)]
    if value:
        said[-1] = f"{names[-2]} uses {names[-1]}"
    return ", ".join(said)

"""The merge of one file as bytes: what may not be text, and what goes wrong on the way.

Invariant: there is an answer for every file, and none is worse than git's: a binary file, one that is too large, one
that takes too long and a step that fails get git's own answer.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType

from relay.merge.text.git_text import GitText
from relay.merge.text.ladder import Conflict, Labels, Merged, git_alone, merge_text
from relay.merge.text.lines import three_way

#: Bytes at a file's beginning in which git looks for a zero byte.
LOOKED_AT = 8000
#: What a conflict of a file says that is no text.
BINARY_KIND = "both changed a binary file"
#: How a warning begins that says nothing of the merge but that git alone made it.
GITS_OWN = "git's own answer"


@dataclass(frozen=True, slots=True)
class MergedFile:
    """The merge of one file: as `Merged`, in bytes."""

    data: bytes
    by: str
    conflicts: tuple[Conflict, ...] = ()
    warnings: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.conflicts


class TooLong(Exception):
    """A merge took longer than it may."""


def is_binary(data: bytes) -> bool:
    """As git sees it: with a zero byte among the first 8,000."""
    return b"\0" in data[:LOOKED_AT]


def merge_file(
    git: GitText,
    base: bytes,
    ours: bytes,
    theirs: bytes,
    path: str = "",
    labels: Labels | None = None,
    timeout_s: float = 0.0,
    *,
    ladder: bool = True,
) -> MergedFile:
    """Merge three versions of a file. `path` gives the language; `timeout_s` 0 = none, else the caller must be the
    main thread; `ladder`: go on where git conflicts. Raises GitTextError where git itself does not answer."""
    trivial = three_way(base, ours, theirs)
    if trivial is not None:
        return MergedFile(trivial, "trivial")
    if any(map(is_binary, (base, ours, theirs))):
        lines = (1, ours.count(b"\n") + 1)
        return MergedFile(ours, "git", (Conflict(lines, "", BINARY_KIND, "high"),))
    texts = [data.decode("utf-8", "surrogateescape") for data in (base, ours, theirs)]
    try:
        with time_limit(timeout_s):
            merge = partial(merge_text, path=path) if ladder else git_alone
            merged = merge(git, texts[0], texts[1], texts[2], labels=labels)
    except (TooLong, RecursionError, ValueError, LookupError, TypeError, AssertionError) as error:
        merged = git_alone(git, texts[0], texts[1], texts[2], labels)
        why = "it took too long" if isinstance(error, TooLong) else f"{type(error).__name__}: {error}"
        merged = Merged(merged.text, merged.by, merged.conflicts, (f"{GITS_OWN}: {why}",))
    data = merged.text.encode("utf-8", "surrogateescape")
    return MergedFile(data, merged.by, merged.conflicts, merged.warnings, merged.steps)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooLong in what runs longer; 0 = it may. The caller must be the main thread."""
    if not seconds:
        yield
        return

    def late(_signal: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

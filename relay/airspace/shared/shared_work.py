"""What one agent has in hand, as the members of a fleet tell each other: paths, line ranges, commits, and what git
said where the agent lives (docs/fleet.md).

Invariants: plain values that are the same as long as the work is, so a member writes them when something changed;
ages are told as times, since weights fade. No text of a file but where the member shares texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from relay.git.merge_state import Lines, UnsettledFile
from relay.git.trial_merge import JoinedFile, Merge, Target, Trial, Verdict
from relay.model.working_set import Change, FileTouch, Span, WorkingSet, recency

#: What of a worktree is told for the lists of worktrees alone.
_LISTED = ("ahead", "dirty", "changed", "insertions", "deletions", "own", "merging")


@dataclass(frozen=True, slots=True)
class SharedWork:
    """`files`: each with the time of its last change (Unix seconds); `commit`: the snapshot of all of it; `behind`:
    commits of its main branch that it has not got.

    `target`, `trial`: the main branch where the agent lives, and what came of trying to merge the work into it;
    `merges`: of the other agents there, those that git was asked about. `pushed`: the remote has `commit`;
    `coming`: it is on its way there, or from there to here.
    `texts`: by path, where its member shares texts. `ahead`, `dirty`, `changed` (files), `insertions`, `deletions`,
    `own`, `merging`: of the worktree, as its member lists it; while a merge is under way there, the work before it is
    the first parent of `commit`.

    What follows is known to who reads it: the `member` where it lives, `away`: that one is not here now;
    `at_hand`: `commit` was fetched.
    """

    agent: str
    files: tuple[tuple[FileTouch, float], ...] = ()
    started_at: float = 0.0
    committed: float = 0.0
    branch: str = ""
    messages: tuple[str, ...] = ()
    commit: str = ""
    behind: int | None = None
    unsettled: tuple[UnsettledFile, ...] = ()
    target: Target | None = None
    trial: Trial | None = None
    merges: Mapping[str, Merge] = field(default_factory=dict)
    pushed: bool = False
    coming: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)
    ahead: int = field(default=0, kw_only=True)
    dirty: bool = field(default=False, kw_only=True)
    changed: int = field(default=0, kw_only=True)
    insertions: int = field(default=0, kw_only=True)
    deletions: int = field(default=0, kw_only=True)
    own: bool = field(default=True, kw_only=True)
    merging: bool = field(default=False, kw_only=True)
    member: str = field(default="", kw_only=True)
    away: bool = field(default=False, kw_only=True)
    at_hand: bool = field(default=False, kw_only=True)

    @property
    def side(self) -> str:
        """As `Work.side`: what it is on top of, while conflicts of a merge stand in its files."""
        return f"{self.commit}^1" if self.merging and self.unsettled else self.commit

    @property
    def marked(self) -> tuple[UnsettledFile, ...]:
        """The files of `side` that have markers."""
        return () if self.merging else self.unsettled

    @property
    def paths(self) -> frozenset[str]:
        """Every path that it touches, both sides of renames."""
        return frozenset(path for touch, _ in self.files for path in touch.paths)

    @property
    def moved(self) -> bool:
        return any(touch.new_path is not None for touch, _ in self.files)

    def working_set(self, *, now: float, half_life_s: float) -> WorkingSet:
        """W_a at `now`: weights are of this moment."""
        files = tuple(
            FileTouch(
                touch.path,
                touch.change,
                touch.lines,
                recency(now - at, half_life_s),
                touch.new_path,
                touch.binary,
                touch.churn,
                touch.length,
            )
            for touch, at in self.files
        )
        return WorkingSet(self.agent, files, started_at=self.started_at, committed=self.committed)

    def as_json(self, offset_s: float = 0.0) -> dict[str, Any]:
        """As it is told. `offset_s`: what the clock that all members count by is ahead of this machine's."""
        return {
            "files": [
                {
                    "path": touch.path,
                    "change": str(touch.change),
                    "lines": [
                        [span.start, span.end, span.new_count, span.checksum, span.unit]
                        for span in touch.lines
                    ],
                    "new_path": touch.new_path,
                    "binary": touch.binary,
                    "churn": touch.churn,
                    "length": touch.length,
                    "at": at + offset_s,
                }
                for touch, at in self.files
            ],
            "started_at": self.started_at + offset_s if self.started_at else 0.0,
            "committed": self.committed,
            "branch": self.branch,
            "messages": list(self.messages),
            "commit": self.commit,
            "behind": self.behind,
            "unsettled": _lines_json(dict(self.unsettled)),
            "target": None if self.target is None else asdict(self.target),
            "trial": None if self.trial is None else _trial_json(self.trial),
            "merges": {
                other: {"conflicts": list(merge.conflicts), "joined": _joined_json(merge.joined)}
                for other, merge in self.merges.items()
            },
            "pushed": self.pushed,
            "coming": self.coming,
            "texts": dict(self.texts),
            **{name: getattr(self, name) for name in _LISTED},
        }


def of_json(agent: str, value: Mapping[str, Any]) -> SharedWork:
    """What another member told of an agent."""
    target, trial = value["target"], value["trial"]
    # A member that is not updated yet tells none of these.
    listed: dict[str, Any] = {"changed": len(value["files"])}
    listed |= {name: value[name] for name in _LISTED if name in value}
    return SharedWork(
        agent,
        tuple((_touch(file), file["at"]) for file in value["files"]),
        value["started_at"],
        value["committed"],
        value["branch"],
        tuple(value["messages"]),
        value["commit"],
        value["behind"],
        tuple(_lines(value["unsettled"]).items()),
        None if target is None else Target(target["branch"], target["commit"]),
        None if trial is None else _trial(trial),
        {
            other: Merge(tuple(merge["conflicts"]), joined=_joined(merge["joined"]))
            for other, merge in value["merges"].items()
        },
        value["pushed"],
        value["coming"],
        value["texts"],
        **listed,
    )


def _touch(file: Mapping[str, Any]) -> FileTouch:
    return FileTouch(
        file["path"],
        Change(file["change"]),
        tuple(Span(*span) for span in file["lines"]),
        new_path=file["new_path"],
        binary=file["binary"],
        churn=file["churn"],
        length=file["length"],
    )


def _trial_json(trial: Trial) -> dict[str, Any]:
    return {
        "verdict": None if trial.verdict is None else str(trial.verdict),
        "paths": list(trial.paths),
        "lines": _lines_json(trial.lines),
        "unrelated": trial.unrelated,
        "unsettled": trial.unsettled,
        "joined": _joined_json(trial.joined),
    }


def _trial(value: Mapping[str, Any]) -> Trial:
    return Trial(
        None if value["verdict"] is None else Verdict(value["verdict"]),
        tuple(value["paths"]),
        _lines(value["lines"]),
        value["unrelated"],
        value["unsettled"],
        _joined(value["joined"]),
    )


def _joined_json(joined: tuple[JoinedFile, ...]) -> list[list[Any]]:
    return [[file.path, list(file.by)] for file in joined]


def _joined(value: Any) -> tuple[JoinedFile, ...]:
    return tuple(JoinedFile(path, tuple(by)) for path, by in value)


def _lines_json(lines: Mapping[str, Lines]) -> dict[str, list[list[int]]]:
    return {path: [list(span) for span in spans] for path, spans in lines.items()}


def _lines(value: Mapping[str, Any]) -> dict[str, Lines]:
    return {path: tuple((span[0], span[1]) for span in spans) for path, spans in value.items()}

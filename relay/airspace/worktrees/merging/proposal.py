"""What a person decides on before a merge: how it is wanted, its message, and whose names stand on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from relay.airspace.worktrees.commit_message import BranchCommit
from relay.airspace.worktrees.merging.wording import joined_words, warned
from relay.airspace.worktrees.room import KnownTests
from relay.config.command_line import command
from relay.git.checkout import Checkout
from relay.git.run import Git, name_of
from relay.git.signing import Signature
from relay.git.snapshot import Snapshot
from relay.git.trial_merge import ConflictPart, JoinedFile, Merge
from relay.model import Refusal

#: Bytes of a commit's message that a person may write.
MOST_MESSAGE = 65_536
#: Digits of a tree's id that name it.
LEAST_DIGITS = 7


@dataclass(frozen=True, slots=True)
class MergeSource:
    """What is to be merged: `agent`'s checkout as it was seen. `own`: relay made this worktree; `person`: a person
    works in it. `since`: when the work began, Unix seconds."""

    agent: str
    checkout: Checkout
    snapshot: Snapshot
    own: bool
    person: bool = False
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How somebody wants it merged. `squash`: as one commit; `text`: the message, empty = the proposed one; `head`:
    the work as it was shown, empty = as it is now; `joined`: the merged tree that they were shown and want, although
    relay joined some of its files: its id or the first digits of that; empty = none was shown; `untested`: they
    want it although the tests fail on it; `anyway`: they want it although the branch's own tests failed;
    `trailers`: lines at the message's end, whatever the text is; `unseen`: no person has decided on it, so what the
    room itself goes by is not merged."""

    squash: bool = False
    text: str = ""
    head: str = ""
    joined: str = ""
    untested: bool = False
    anyway: bool = False
    trailers: tuple[str, ...] = ()
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """A merge that can be made, as a person decides on it. `message` is committed as it stands, with the
    trailers that name an event of the log behind it; `text` is what of it a person may change, `trailers` the lines
    that name everybody else who contributed. `note` says whose name stands
    in for one that git does not know; empty when git knows. `decided`: a person's word that another goes first.
    `joined`: the files that relay joins and git could not; `diff`: what the merge changes in them; `tree`: the merged
    tree; `warnings`: what looks wrong in what git merged by itself, each with its path;
    `tests`: what the room's tests say of the branch;
    `settled`: the places of which somebody has said what stands there (`ConflictPart.id`)."""

    branch: str
    into: str
    squash: bool
    head: str
    text: str
    trailers: tuple[str, ...]
    message: str
    author: Signature
    committer: Signature
    note: str
    commits: int
    files: int
    decided: str = ""
    joined: tuple[JoinedFile, ...] = ()
    diff: str = ""
    tree: str = ""
    settled: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    tests: KnownTests = field(default_factory=KnownTests)

    @property
    def to_look_at(self) -> str:
        """What a person should look at in it, in sentences with a blank before each; empty: nothing."""
        joined = f" relay joined {joined_words(self.joined)}." if self.joined else ""
        return joined + (f" {warned(self.warnings)}" if self.warnings else "")

    def check(self, agent: str, options: MergeOptions) -> None:
        """Raise Refusal where the branch's tests failed and nobody wants it anyway, or relay joins files and it is
        not the merge that somebody saw."""
        if self.tests.failed and not options.anyway:
            raise FailedTests(agent, self.tests.said)
        seen = options.joined
        if self.joined and not (len(seen) >= LEAST_DIGITS and self.tree.startswith(seen.lower())):
            raise NotAccepted(agent, self, seen)

    def as_json(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "into": self.into,
            "method": "squash" if self.squash else "merge",
            "head": self.head,
            "text": self.text,
            "trailers": list(self.trailers),
            "message": self.message,
            "author": str(self.author),
            "committer": str(self.committer),
            "note": self.note,
            "decided": self.decided,
            "commits": self.commits,
            "files": self.files,
            "joined": [file.as_json() for file in self.joined],
            "diff": self.diff,
            "tree": self.tree,
            "warnings": list(self.warnings),
            "tests": self.tests.said,
            "tests_failed": self.tests.failed,
        }


@dataclass(frozen=True, slots=True)
class MergeResult:
    """`commit` is now the head of the branch that was merged into; `committed`: relay committed the open work first.
    `left` says why the agent's own worktree could not be brought up to it; empty when it was. `kept`: the ref that
    holds what a squash made one commit of."""

    proposal: Proposal
    commit: str
    committed: bool
    left: str
    kept: str


@dataclass(frozen=True, slots=True)
class DiscardResult:
    """The ref `kept` holds the work that was on `branch`, which stands on `main` now. `files`: those it changed."""

    branch: str
    kept: str
    main: str
    commits: int
    files: int


@dataclass(frozen=True, slots=True)
class MergeOnto:
    """A merge that no branch has yet: its commit."""

    proposal: Proposal
    commit: str


class FailedTests(Refusal):
    """The tests of the branch failed. `said`: as of `KnownTests`."""

    def __init__(self, agent: str, said: str) -> None:
        super().__init__(
            f"Nothing is merged: {said[:1].lower()}{said[1:]}",
            f"`/land @{agent}` tests it once more, and lands it only if that passes. To merge it all the same: "
            f"{command(f'worktrees merge {agent} --anyway')}, or `/merge @{agent} anyway` in the room.",
            code="tests_failed",
        )


class NotAccepted(Refusal):
    """relay joins files in which git conflicts, and nobody has seen what comes of it, or it has changed since."""

    def __init__(self, agent: str, proposal: Proposal, seen: str) -> None:
        count = len(proposal.joined)
        files = f"{count} file{'s' * (count != 1)} in which git conflicts ({joined_words(proposal.joined)})"
        since = "what relay joins has changed since it was shown; now it is " if seen else "relay joins "
        super().__init__(
            f"Nothing is merged yet: {since}{files}.",
            f"{command(f'worktrees merge {agent} --dry-run')} shows it. `--joined {proposal.tree[:12]}` instead of "
            "`--dry-run` merges it so.",
        )
        self.proposal = proposal


async def branch_history(git: Git, main: str, head: str | None) -> tuple[list[BranchCommit], list[Signature]]:
    """The commits that a branch has before the main branch, the oldest first, and everybody they name as author."""
    if head is None:
        return [], []
    all_of = ("log", "--no-merges", "--topo-order", f"{main}..{head}")
    fields = "--format=%an%x00%ae%x00%s%x00%(trailers:key=Co-authored-by,valueonly,unfold)%x00"
    parts = name_of((await git.run(*all_of, fields, "--")).out).split("\0")[:-1]
    # Only of a commit that stands alone does the body become the message.
    body = name_of((await git.run(*all_of, "--format=%b", "--")).out) if len(parts) == 4 else ""
    commits: list[BranchCommit] = []
    people: dict[str, Signature] = {}
    for at in range(len(parts) - 4, -1, -4):
        name, email, subject, coauthors = parts[at : at + 4]
        commits.append(BranchCommit(subject, body))
        named_here = [(name.strip(), email), *(_person(line) for line in coauthors.splitlines())]
        for who, address in named_here:
            if who and address:
                people.setdefault(address.lower(), Signature(who, address))
    return commits, list(people.values())


def _person(line: str) -> tuple[str, str]:
    """`Name <address>` of a trailer; two empty texts for what is none."""
    name, _, rest = line.strip().partition(" <")
    return (name, rest[:-1]) if rest.endswith(">") and not set("<> ") & set(rest[:-1]) else ("", "")


async def with_trailers(git: Git, text: str, trailers: Sequence[str]) -> str:
    """The message with these lines at its end, by git's own rules of where they stand; none twice. In the scratch,
    where no configuration can name a command for a trailer."""
    if not trailers:
        return text
    words = [word for trailer in trailers for word in ("--trailer", trailer)]
    asked = ("interpret-trailers", "--no-divider", "--if-exists", "addIfDifferent", *words)
    return (await git.run(*asked, stdin=text.encode())).out.decode()


def unknown_person_note(checkout: Checkout, committer: Signature) -> str:
    return (
        f"git knows no name and e-mail address in {checkout.top}, so {committer} is the committer. To set yours: "
        '`git config --global user.name "Your Name"` and `git config --global user.email you@example.org`.'
    )


@dataclass(frozen=True, slots=True)
class Resolvable:
    """An agent's work (at `commit`) against the main branch (at `into_at`). `merge`: what comes of merging it now,
    None = git cannot tell; `nothing`: that leaves the main branch as it is; `begun`: relay has begun to merge the
    main branch into the agent's; `edited`: somebody has changed its files since. `member`: the other relay of the
    fleet where its branch is, empty = it is here."""

    merge: Merge | None
    into_at: str
    commit: str
    nothing: bool = False
    begun: bool = False
    edited: bool = False
    member: str = ""

    @property
    def parts(self) -> Sequence[ConflictPart]:
        return () if self.merge is None else self.merge.parts

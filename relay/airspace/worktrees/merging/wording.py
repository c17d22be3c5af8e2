"""What an agent is told whose branch the main branch is merged into.

Invariant: names and paths come from outside; they enter on one line, and no backtick of theirs ends a code span.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relay.base.terminal_text import flat as one_line
from relay.git.merge_state import UnsettledFile, located
from relay.git.trial_merge import JoinedFile
from relay.model import references

#: Files that one line names before it only counts.
MOST_FILES = 3
#: Names of files that a refusal lists.
MOST_NAMED = 8


def take_in(branch: str) -> str:
    """What an agent does to take the main branch in."""
    return (
        f"merge {branch} into your branch. In a worktree that relay made, relay has run `git merge {branch}` when "
        "your turn begins: resolve the conflicts by editing the files, so that the work of both sides stays, and run "
        "the tests; relay commits at the end of your turn. In a checkout of your own, commit what you have, run "
        f"`git merge {branch}`, resolve the conflicts and commit. Then say what you did."
    )


def listed(files: Sequence[UnsettledFile]) -> str:
    """Files with the lines of their conflicts: "src/cart.py (lines 3-9)"."""
    return some([flat(located(*file)) for file in files])


def some(items: Sequence[str], most: int = MOST_FILES) -> str:
    """The first few, and how many more."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")


def joined_words(files: Sequence[JoinedFile], most: int = MOST_FILES) -> str:
    """Files that relay joined, and how: "src/cart.py by imports and additions"."""
    return some([flat(str(file)) for file in files], most)


def room_asked(conflicts: Sequence[str]) -> str:
    """That people are asked about these: "The room is asked about c1, c2: `/resolve c1 1` to `5`."."""
    return f"The room is asked about {', '.join(conflicts)}: `/resolve {conflicts[0]} 1` to `5`."


def warned(warnings: Sequence[str]) -> str:
    """What looks wrong in what git merged by itself."""
    return f"git merged it without a conflict, and yet look at {some([flat(each) for each in warnings])}."


def would_undo(hit: Mapping[str, str]) -> str:
    """What a merge of a branch would undo of others' work. `hit`: as of `merging.undone`."""
    verb = "bring back" if hit["did"] == "took back" else "undo"
    return f"would {verb} what {flat(hit['agent'])} {hit['did']} in {flat(hit['path'])}"


def undoes(hit: Mapping[str, str]) -> str:
    """What a branch undoes of others' work, with its path: a warning. `hit`: as of `merging.undone`."""
    verb = "brings back" if hit["did"] == "took back" else "undoes"
    return f"{hit['path']}: it {verb} what {hit['agent']} {hit['did']} (commit {hit['commit'][:9]})"


def some_paths(paths: Sequence[str]) -> str:
    """Some of these paths, for a refusal."""
    return some(paths, MOST_NAMED)


def to_clean(files: Sequence[UnsettledFile]) -> str:
    """What an agent is told whose commits have conflict markers in them."""
    return (
        f"Your branch has main's commits already, but conflict markers are left in {listed(files)}. Resolve them by "
        "editing the files, so that the work of both sides stays; relay commits the files before they are merged."
    )


def to_settle(branch: str, files: Sequence[UnsettledFile]) -> str:
    """What an agent is told whose branch relay is merging the main branch into."""
    branch = flat(branch)
    if not files:
        return (
            f"relay has begun to merge {branch} into your branch, in your worktree, and no marker is left. Finish "
            "what is not done: keep the work of both. relay commits at the end of your turn."
        )
    text = (
        f"relay has begun to merge {branch} into your branch, in your worktree. In conflict: {listed(files)}. "
        "Resolve the markers by editing; relay commits at the end of your turn, and no git is needed. Between "
        "`<<<<<<<` and `|||||||` stands your side, up to `=======` what both began from, up to `>>>>>>>` the side "
        f"of {branch}. Keep the work of both, and leave no marker. To delete a file, delete it."
    )
    plain = [flat(path) for path, spans in files if not spans]
    if plain:
        text += (
            f" Git puts no markers into {', '.join(plain[:MOST_FILES])}: your side stands there. Replace the file or "
            "delete it; if it is to stay as it is, say so: a person has to `git add` it."
        )
    return text


def merge_under_way(agent: str, files: Sequence[UnsettledFile]) -> str:
    """What people read above a branch, while a merge into it is under way. `files`: those that are not settled."""
    said = f"A merge is under way in {agent}'s worktree"
    if not files:
        return f"{said}. No conflict is left in it."
    where = some([flat(path) for path, _ in files], MOST_NAMED)
    return f"{said}, with conflicts in {where}. You see what the branch itself changes there, without git's markers."


def needless(branch: str) -> str:
    """Why a branch does not merge that main has no conflict with: what people read everywhere."""
    branch = flat(branch)
    return f"a merge of {branch} is under way in its worktree, and {branch} has no conflict with its branch any more"


def stuck(branch: str, *, is_needless: bool) -> str:
    """The same in a few words, and of a branch that conflicts."""
    return (
        f"has a needless merge of {flat(branch)} under way"
        if is_needless
        else f"conflicts with {flat(branch)}"
    )


def taken_in(branch: str, joined: Sequence[JoinedFile] = ()) -> str:
    """What an agent is told whose branch has the main branch's work already."""
    branch = flat(branch)
    said = f"relay has merged {branch} into your branch and committed it. "
    if joined:
        said += f"git alone could not: relay joined {joined_words(joined)}. Look at these files. "
    return said + "Run the tests; mend what does not work."


def flat(text: str) -> str:
    """On one line, without backticks."""
    return one_line(text.replace("`", "'"))


def about_said(about: Mapping[str, Any]) -> str:
    """What a branch is about, of its row: "Round the totals (m3)"."""
    return str(about["text"]) + (f" ({references.message(about['number'])})" if about["number"] else "")

"""What a command of git writes in the checkout, by its words (git 2.39)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from relay.code.shell.calls import Call, Found, Target, Word, behind, named
from relay.code.shell.patches import patched, text_of
from relay.code.shell.utilities import copied

_GIT_VALUED = "-C -c --git-dir --work-tree --namespace"


def git(call: Call) -> Found:
    rest = behind(call.words, _GIT_VALUED)
    if not rest or rest[0] is None:
        return [], ""
    at = _before(call.words, rest)
    folder = next((at[i + 1] for i, word in enumerate(at[:-1]) if word == "-C"), None) or ""
    cwd = os.path.join(call.cwd, folder) if call.cwd is not None else None
    inner = Call(rest[0], tuple(rest[1:]), call.given, cwd)
    targets, unknown = _git_targets(inner)
    if folder:
        targets = [Target(os.path.join(folder, each.path), each.below, each.sure) for each in targets]
    return targets, unknown


def _brought_back(call: Call, paths: Sequence[Word]) -> Found:
    """The files of a commit that are put in place: of a folder, only those that differ."""
    targets, unknown = named(call, paths, below=True)
    within = [os.path.isdir(os.path.join(call.cwd or "/", each.path)) for each in targets]
    return [replace(each, sure=not folder) for each, folder in zip(targets, within, strict=True)], unknown


def _before(words: Sequence[Word], rest: Sequence[Word]) -> Sequence[Word]:
    return words[: len(words) - len(rest)]


def _git_targets(call: Call) -> Found:
    tree = f"`git {call.name}`, which writes what differs in the checkout"
    words = call.words
    paths = list(words[words.index("--") + 1 :]) if "--" in words else None
    match call.name:
        case "checkout":
            if paths:
                return _brought_back(call, paths)
            if call.has("-b", "-B", "--orphan") and len(call.split("-b -B --orphan")[1]) == 0:
                return [], ""
            operands = call.split("-b -B --orphan")[1]
            there = [
                word
                for word in operands
                if word and call.cwd and os.path.lexists(os.path.join(call.cwd, word))
            ]
            if there and (len(operands) > 1 or "/" in there[0] or "." in there[0]):
                return _brought_back(call, [word for word in operands if word in there])
            return [], tree
        case "restore":
            if call.has("--staged", "-S") and not call.has("--worktree", "-W"):
                return [], ""
            operands = call.split("-s --source --pathspec-from-file")[1]
            return _brought_back(call, paths or operands)
        case "rm":
            return (
                ([], "")
                if call.has("--cached", "-n", "--dry-run")
                else named(call, call.split()[1], below=True)
            )
        case "mv":
            return copied(Call("mv", words, None, call.cwd))
        case "apply":
            if call.has("--check", "--stat", "--numstat", "--summary", "--cached"):
                return [], ""
            options, operands = call.split("-p --directory --exclude --include")
            strip, folder = options.get("-p"), options.get("--directory") or ""
            texts = [text_of(call, path if path != "-" else None) for path in operands] or [call.given]
            found = [
                patched(call, text, int(strip) if strip and strip.isdigit() else 1, folder) for text in texts
            ]
            return [target for targets, _ in found for target in targets], next(
                (said for _, said in found if said), ""
            )
        case "clean":
            return (
                ([], "")
                if call.has("-n", "--dry-run")
                else ([], "`git clean`, which takes away what git does not know")
            )
        case "reset":
            return ([], tree) if call.has("--hard", "--merge", "--keep") else ([], "")
        case "stash":
            quiet = words[:1] and words[0] in ("list", "show", "drop", "clear", "branch", "create", "store")
            return ([], "") if quiet else ([], tree)
        case (
            "switch"
            | "merge"
            | "rebase"
            | "pull"
            | "cherry-pick"
            | "revert"
            | "am"
            | "bisect"
            | "sparse-checkout"
        ):
            return (
                ([], "")
                if call.has("-c", "-C") and call.name == "switch" and len(call.split("-c -C")[1]) == 0
                else ([], tree)
            )
        case _:
            return [], ""

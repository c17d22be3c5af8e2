"""What the programs write that people and agents call from a shell, by their words.

Looked up in the programs' manuals: POSIX and GNU utilities, git 2.39, and the command lines of the formatters. A
program that is not here is taken as one whose writes are its own affair (tests, builds, servers): what it changes is
seen after it ran.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Sequence

from relay.code.shell.calls import Call, Found, Word, named, wrapped
from relay.code.shell.formatters import TOOLS
from relay.code.shell.git_commands import git
from relay.code.shell.patches import apply_patch, patch
from relay.code.shell.utilities import UTILITIES, perl

#: Files that `find` is followed to, at most.
MOST_FOUND = 2_000


def targets_of(call: Call) -> Found:
    """What it writes, and a line for people where it may write what its words do not name."""
    look = _LOOKS.get(call.name)
    if look is not None:
        return look(call)
    if call.name == "perl":
        found = perl(call)
        return found if found[0] or found[1] else ([], script(call))
    if re.fullmatch(r"(python|pypy|node|ruby|perl|php|lua|Rscript|deno|bun|osascript)[\d.]*", call.name):
        return [], script(call)
    return [], ""


def script(call: Call) -> str:
    inline = call.has("-c", "-e", "--eval", "-p") or call.given is not None or "-" in call.words
    return f"a script that `{call.name}` is given" if inline else ""


def _find(call: Call) -> Found:
    words = list(call.words)
    first = next((at for at, word in enumerate(words) if word and (word[0] in "-(!")), len(words))
    places = words[:first] or ["."]
    acts = [
        at
        for at, word in enumerate(words)
        if word in ("-exec", "-execdir", "-ok", "-delete", "-fprint", "-fprintf", "-fls")
    ]
    if not acts:
        return [], ""
    at = acts[0]
    if words[at] in ("-fprint", "-fprintf", "-fls"):
        return named(call, words[at + 1 : at + 2])
    inner: list[Word] = ["rm"] if words[at] == "-delete" else words[at + 1 :]
    for end in (";", "+"):
        if end in inner:
            inner = inner[: inner.index(end)]
    found = _found(call, places, words[first:at])
    if found is None or words[at] == "-execdir":
        said, _ = targets_of(
            Call.of([*(None if word == "{}" else word for word in inner), None], None, call.cwd)
        )
        writes = (
            said
            or targets_of(Call.of([*inner[:1], *[w for w in inner[1:] if w != "{}"], "x"], None, call.cwd))[0]
        )
        return [], f"`find` that runs `{inner[0]}`" if writes and inner else ""
    own = [word for word in inner if word != "{}"] if words[at] != "-delete" else inner
    spread = [*own, *found] if "{}" in inner or words[at] == "-delete" else own
    if own and own[0] in ("sh", "bash"):
        return [], f"`find` that runs `{own[0]}`"
    call_of = Call.of(spread, None, call.cwd)
    rest = wrapped(call_of)
    return targets_of(Call.of(rest, None, call.cwd) if rest else call_of)


def _found(call: Call, places: Sequence[Word], tests: Sequence[Word]) -> list[str] | None:
    """The files that `find` would find, where its tests are by name, path and type alone."""
    names, paths, depth, only_files, words = (
        list[tuple[bool, str, bool]](),
        list[tuple[bool, str]](),
        99,
        False,
        iter(tests),
    )
    no = False
    for word in words:
        if word in ("!", "-not"):
            no = True
            continue
        value = None if word in ("-print0", "-print", "-a", "-and") else next(words, None)
        if word in ("-name", "-iname") and value is not None:
            names.append((not no, value, word == "-iname"))
        elif word in ("-path", "-wholename") and value is not None:
            paths.append((not no, value))
        elif word == "-type" and value == "f" and not no:
            only_files = True
        elif word == "-maxdepth" and value is not None and value.isdigit():
            depth = int(value)
        elif word not in ("-print0", "-print", "-a", "-and"):
            return None
        no = False
    if call.cwd is None or None in places or not (only_files or names):
        return None
    found: list[str] = []
    for place in places:
        top = os.path.join(call.cwd, place or "")
        for folder, folders, files in os.walk(top):
            level = os.path.relpath(folder, top).count(os.sep) + 1 if folder != top else 0
            if level + 1 >= depth:
                folders.clear()
            for name in files:
                shown = os.path.join(place or "", os.path.relpath(os.path.join(folder, name), top))
                if all(
                    fnmatch.fnmatch(name.lower(), p.lower()) == yes
                    if fold
                    else fnmatch.fnmatchcase(name, p) == yes
                    for yes, p, fold in names
                ) and all(fnmatch.fnmatchcase(shown, p) == yes for yes, p in paths):
                    found.append(shown)
            if len(found) > MOST_FOUND:
                return None
    return sorted(found)


_LOOKS: dict[str, Callable[[Call], Found]] = {
    **UTILITIES, **TOOLS, "git": git, "find": _find, "gfind": _find, "patch": patch, "gpatch": patch,
    "apply_patch": apply_patch, "applypatch": apply_patch,
}  # fmt: skip

"""Which files a patch changes."""

from __future__ import annotations

import os
import re

from relay.code.shell.calls import Call, Found, Target, Word, named
from relay.code.shell.words import content

#: Bytes of a patch that are read.
MOST_PATCH = 1_000_000


def patch(call: Call) -> Found:
    options, operands = call.split("-p -i -d -o -D -B -F -V -z -r --strip --input --directory --output")
    if call.has("--dry-run"):
        return [], ""
    folder = options.get("-d") or options.get("--directory") or ""
    if out := options.get("-o") or options.get("--output"):
        return named(call, [os.path.join(folder, out)])
    if operands:
        return named(call, [os.path.join(folder, operands[0] or "")])
    strip = options.get("-p") or options.get("--strip")
    text = text_of(call, options.get("-i") or options.get("--input"))
    return patched(call, text, int(strip) if strip and strip.isdigit() else None, folder)


def apply_patch(call: Call) -> Found:
    """Codex's own form of a patch, as its one word or on standard input."""
    text = call.words[0] if call.words else call.given
    if text is None:
        return [], "a patch by `apply_patch` that cannot be read before it runs"
    marks = r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$"
    return [Target(path.strip()) for path in re.findall(marks, text, re.MULTILINE)], ""


def text_of(call: Call, path: Word) -> str | None:
    if path is None:
        return call.given
    return content(call.cwd or "/", path, MOST_PATCH)


def patched(call: Call, text: str | None, strip: int | None, folder: str = "") -> Found:
    """The files of a patch."""
    if text is None:
        return [], f"a patch by `{call.name}` that cannot be read before it runs"
    names = [
        line[4:].split("\t")[0].strip() for line in text.splitlines() if line.startswith(("+++ ", "--- "))
    ]
    names += re.findall(r"^rename (?:from|to) (.+)$", text, re.MULTILINE)
    git = "diff --git " in text or any(name.startswith(("a/", "b/")) for name in names)
    cut = strip if strip is not None else (1 if git else None)
    paths = []
    for name in names:
        if name == "/dev/null":
            continue
        parts = name.split("/")
        by_rename = git and not name.startswith(("a/", "b/"))
        paths.append(parts[-1] if cut is None else "/".join(parts if by_rename else parts[cut:]))
    return [Target(os.path.join(folder, path)) for path in dict.fromkeys(paths) if path], ""

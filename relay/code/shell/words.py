"""The words of a shell as patterns for `glob`: quotes, `~` and braces are gone, and what was quoted is escaped."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

from tree_sitter import Node

from relay.base.files import reading

#: Values of one word, at most.
MOST_VALUES = 500


def plain(node: Node) -> bool:
    """Has this here-document nothing that the shell fills in?"""
    return all(child.type == "heredoc_content" for child in node.named_children)


def last_command(node: Node) -> Node:
    """Of a list or a pipeline, what stands at its end."""
    while node.type in ("list", "pipeline") and node.named_children:
        node = node.named_children[-1]
    return node


def home_known() -> dict[str, str]:
    """HOME as it is here, where it is set."""
    home = os.environ.get("HOME")
    return {"HOME": home} if home else {}


def content(folder: str | None, path: str, most: int) -> str | None:
    """The first `most` bytes of a regular file; None where it cannot be read. Blocking."""
    if folder is None:
        return None
    try:
        with reading(Path(folder, path)) as file:
            return file.read(most).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def bare(text: str) -> str:
    """A word outside of quotes as a pattern: `\\x` is the character itself."""
    if "\\" not in text:
        return text
    return re.sub(
        r"\\(.)", lambda match: glob.escape(match[1]) if match[1] != "\n" else "", text, flags=re.DOTALL
    )


def in_quotes(text: bytes) -> str:
    plain = text.decode("utf-8", "replace")
    if "\\" in plain:
        plain = re.sub(r"\\([$`\"\\\n])", lambda match: match[1].strip("\n"), plain)
    return glob.escape(plain) if plain else plain


def unescaped(pattern: str) -> str:
    return re.sub(r"\[([*?[])\]", r"\1", pattern) if "[" in pattern else pattern


def tilde(word: str, home: str | None) -> str:
    if home is not None and (word == "~" or word.startswith("~/")):
        return glob.escape(home) + word[1:]
    return word


def ansi(text: str) -> str:
    escapes = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r"}
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[0]), text)


def braces(word: str) -> list[str]:
    """`a{b,c}` and `a{1..3}`, as the shell takes them apart."""
    match = re.search(r"(?<!\$)\{([^{}]*)\}", word) if "{" in word else None
    if match is None:
        return [word]
    inner = match[1]
    span = re.fullmatch(r"(-?\d+)\.\.(-?\d+)", inner)
    if span is not None:
        first, last = int(span[1]), int(span[2])
        step = 1 if first <= last else -1
        parts = [str(number) for number in range(first, last + step, step)][:MOST_VALUES]
    elif "," in inner:
        parts = inner.split(",")
    else:
        return [word]
    whole = [word[: match.start()] + part + word[match.end() :] for part in parts]
    return [each for one in whole for each in braces(one)][:MOST_VALUES]

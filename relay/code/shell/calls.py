"""A program as a shell calls it: its name, its words, and the command inside it where it runs another."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

Word = str | None


@dataclass(frozen=True, slots=True)
class Target:
    """A path that is written, as the command names it. `below`: where it is a folder, everything in it. `sure`: the
    command writes it whatever it finds."""

    path: str
    below: bool = False
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Write:
    """A path that a command writes: absolute. `below`: everything in this folder. `sure`: its words say so; else it
    depends on what the program finds."""

    path: str
    below: bool = False
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Writes:
    """What a command writes. `unknown`: programs in it that may write what their words do not name, each as one line
    for people."""

    paths: tuple[Write, ...] = ()
    unknown: tuple[str, ...] = ()


#: What is written, and a line for people where the words do not name it all.
Found = tuple[list[Target], str]


@dataclass(frozen=True, slots=True)
class Call:
    """A program with its words; a word that only the shell knows is None. `given`: its standard input, where that is
    known. `cwd`: the folder it runs in, None = not known."""

    name: str
    words: tuple[Word, ...]
    given: str | None = None
    cwd: str | None = None

    @classmethod
    def of(cls, words: Sequence[Word], given: str | None, cwd: str | None) -> Call:
        return cls(os.path.basename(words[0] or ""), tuple(words[1:]), given, cwd)

    def has(self, *flags: str) -> bool:
        """Is one of these among its options: `--long` (also `--long=value`), or `-x` (also among `-axb`)?"""
        for word in self.words:
            if word == "--":
                return False
            for flag in flags:
                if word is None or not word.startswith("-"):
                    continue
                if flag.startswith("--") or len(flag) > 2:
                    if word == flag or word.startswith(f"{flag}="):
                        return True
                elif not word.startswith("--") and flag[1] in word[1:]:
                    return True
        return False

    def split(self, valued: str = "") -> tuple[dict[str, Word], list[Word]]:
        """Its options and its operands. `valued`: the options whose value is the next word."""
        takes, options, operands = set(valued.split()), dict[str, Word](), list[Word]()
        words = iter(self.words)
        for word in words:
            if word == "--":
                operands += words
            elif word is None or not word.startswith("-") or word == "-":
                operands.append(word)
            elif word in takes:
                options[word] = next(words, None)
            elif word.startswith("--") and "=" in word:
                name, _, options[name] = word.partition("=")
            elif not word.startswith("--") and word[:2] in takes:
                options[word[:2]] = word[2:]
            elif (
                not word.startswith("--") and f"-{word[-1]}" in takes and word[1:].isalnum() and len(word) < 6
            ):
                options[f"-{word[-1]}"] = next(words, None)
            else:
                options[word] = ""
        return options, operands


def script_in(call: Call) -> str | None:
    """The script that a shell is called with."""
    if call.name == "eval":
        return " ".join(word for word in call.words if word is not None) if None not in call.words else None
    if call.name not in ("bash", "sh", "zsh", "dash", "ksh"):
        return None
    for at, word in enumerate(call.words):
        if word is None or not word.startswith("-"):
            return None
        if not word.startswith("--") and "c" in word[1:]:
            return call.words[at + 1] if at + 1 < len(call.words) else None
    return call.given


#: Programs that run another: the options with a value of their own, and words before it.
_WRAPPERS = {
    "sudo": ("-u -g -h -p -C", 0), "doas": ("-u", 0), "nice": ("-n", 0), "ionice": ("-c -n -p", 0),
    "time": ("-f -o", 0), "timeout": ("-k -s --kill-after --signal", 1), "nohup": ("", 0),
    "command": ("", 0), "builtin": ("", 0),
    "exec": ("-a", 0),
    "stdbuf": ("-i -o -e", 0), "setsid": ("", 0), "noglob": ("", 0), "env": ("-u -C -S", 0),
    "npx": ("-p --package", 0), "bunx": ("", 0), "pnpx": ("", 0), "chronic": ("", 0), "unbuffer": ("", 0),
}  # fmt: skip
#: `uv run black` and its like: the words that stand before the program.
_RUNNERS = {
    ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("hatch", "run"), ("rye", "run"),
    ("pnpm", "exec"), ("pnpm", "dlx"), ("npm", "exec"), ("yarn", "exec"), ("bundle", "exec"), ("uv", "tool"),
}  # fmt: skip
_XARGS = "-I -n -P -d -L -s -E -a --max-args --max-procs --delimiter --arg-file"


def wrapped(call: Call) -> list[Word] | None:
    """The command that this one runs; what it adds to its words is None."""
    if call.name in _WRAPPERS:
        valued, before = _WRAPPERS[call.name]
        rest = behind(call.words, valued)[before:]
        while call.name in ("env", "sudo") and rest and rest[0] is not None and re.match(r"\w+=", rest[0]):
            rest = rest[1:]
        return rest
    if call.name == "xargs":
        inner = behind(call.words, _XARGS)
        options, _ = call.split(_XARGS)
        mark = options.get("-I")
        if mark is not None:
            return [None if word is not None and mark in word else word for word in inner]
        return [*inner, None]
    if call.words and (call.name, call.words[0]) in _RUNNERS:
        return behind(call.words[1:], "--with --group --python -p --extra")
    if call.name.startswith("python") and re.fullmatch(r"python[\d.]*", call.name):
        flags = [at for at, word in enumerate(call.words) if word == "-m"]
        if flags and flags[0] + 1 < len(call.words):
            return list(call.words[flags[0] + 1 :])
    return None


def behind(words: Sequence[Word], valued: str) -> list[Word]:
    """The words from the first that is no option."""
    takes, at = set(valued.split()), 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return list(words[at + 1 :])
        if word is None or not word.startswith("-"):
            break
        at += 2 if word in takes else 1
    return list(words[at:])


def named(call: Call, words: Sequence[Word], *, below: bool = False, sure: bool = True) -> Found:
    targets = [Target(word, below, sure) for word in words if word]
    return targets, f"`{call.name}` of files that its words do not name" if None in words else ""

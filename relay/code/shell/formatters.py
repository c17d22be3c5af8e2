"""What formatters and package tools write, by their words. What a formatter changes depends on the files: none of it
is sure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relay.code.shell.calls import Call, Found, Target, named

# Formatters: the options that make it write, those that keep it from writing, the words before its files, and options
# with a value. Without files of its own it takes the folder that it runs in.

_FORMATTERS: dict[str, tuple[str, str, int, str]] = {
    "black": ("", "--check --diff", 0, "-l -t --line-length --target-version --exclude --config"),
    "isort": ("", "--check --check-only -c --diff -d", 0, "--profile -l --settings-path"),
    "ruff": (
        "format check --fix",
        "--check --diff",
        1,
        "--config --select --ignore --line-length --target-version",
    ),
    "autopep8": ("-i --in-place", "--diff", 0, "--max-line-length --select --ignore"),
    "autoflake": ("-i --in-place", "--check --check-diff", 0, "--imports --exclude"),
    "yapf": ("-i --in-place", "--diff", 0, "--style"),
    "pyupgrade": ("", "", 0, ""),
    "docformatter": ("-i --in-place", "--check", 0, ""),
    "prettier": (
        "--write -w",
        "--check -c -l --list-different",
        0,
        "--config --parser --plugin --ignore-path",
    ),
    "eslint": ("--fix", "--fix-dry-run", 0, "--config -c --ext --rule --parser"),
    "stylelint": ("--fix", "", 0, "--config"),
    "biome": ("--write --apply --fix", "", 1, "--config-path"),
    "standard": ("--fix", "", 0, ""),
    "dprint": ("fmt", "", 1, ""),
    "gofmt": ("-w", "-d", 0, "-r"),
    "goimports": ("-w", "-d", 0, "-local"),
    "gofumpt": ("-w", "-d", 0, ""),
    "rustfmt": ("", "--check", 0, "--edition --config --config-path"),
    "clang-format": ("-i", "--dry-run -n", 0, "-style --style"),
    "shfmt": ("-w", "-d", 0, "-i -ln"),
    "rubocop": ("-a -A --autocorrect --autocorrect-all", "", 0, ""),
    "swiftformat": ("", "--lint", 0, ""),
    "ktlint": ("-F --format", "", 0, ""),
    "terraform": ("fmt", "-check -diff", 1, ""),
    "stylua": ("", "--check", 0, ""),
    "mdformat": ("", "--check", 0, ""),
    "taplo": ("fmt format", "--check", 1, ""),
    "djlint": ("--reformat", "--check", 0, ""),
    "sqlfluff": ("fix format", "", 1, "--dialect"),
}


def formatted(call: Call, writes: str, keeps: str, before: int, valued: str) -> Found:
    wanted, kept = writes.split(), keeps.split()
    by_word = [flag for flag in wanted if not flag.startswith("-")]
    _, operands = call.split(valued)
    asked = not wanted or call.has(*[flag for flag in wanted if flag.startswith("-")] or ["\0"])
    if by_word and operands[:1] and operands[0] in by_word:
        # `ruff check` writes with --fix alone.
        asked = asked or operands[0] != "check"
    if not asked or (kept and call.has(*kept)):
        return [], ""
    files = operands[before:]
    return named(call, files or ["."], below=True, sure=False)


def _cargo(call: Call) -> Found:
    first = next((word for word in call.words if word and not word.startswith(("-", "+"))), "")
    if first == "fmt" and not call.has("--check"):
        return [Target(".", below=True, sure=False)], ""
    if first in ("add", "remove", "update"):
        return [Target("Cargo.toml", sure=first != "update"), Target("Cargo.lock")], ""
    return [], ""


def _go(call: Call) -> Found:
    first = (call.words or ("",))[0]
    if first == "fmt":
        return [Target(".", below=True, sure=False)], ""
    if first in ("get", "mod"):
        return [Target("go.mod", sure=False), Target("go.sum", sure=False)], ""
    return [], ""


def _npm(call: Call) -> Found:
    first = (call.words or ("",))[0]
    locks = {"npm": "package-lock.json", "pnpm": "pnpm-lock.yaml", "yarn": "yarn.lock", "bun": "bun.lock"}
    if first in ("install", "i", "add", "remove", "uninstall", "rm", "update", "up", "upgrade"):
        return [Target("package.json", sure=False), Target(locks[call.name], sure=False)], ""
    if first == "version":
        return [Target("package.json"), Target("package-lock.json", sure=False)], ""
    return [], ""


def _packages(*names: str) -> Callable[[Call], Found]:
    def look(call: Call) -> Found:
        changes = (call.words or ("",))[0] in ("add", "remove", "lock", "update", "sync", "install")
        return [Target(name, sure=False) for name in names] if changes else [], ""

    return look


def _formatter(*how: Any) -> Callable[[Call], Found]:
    return lambda call: formatted(call, *how)


TOOLS: dict[str, Callable[[Call], Found]] = {
    **{name: _formatter(*how) for name, how in _FORMATTERS.items()},
    "cargo": _cargo, "go": _go, "npm": _npm, "pnpm": _npm, "yarn": _npm, "bun": _npm,
    "uv": _packages("pyproject.toml", "uv.lock"), "poetry": _packages("pyproject.toml", "poetry.lock"),
}  # fmt: skip

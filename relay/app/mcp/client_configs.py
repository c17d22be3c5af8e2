"""The configuration files of agents' programs as text: one server put in, changed or taken out.

Invariant: whatever else stands in a file stays as it is, byte for byte, comments too; a result that does not read
back as exactly what was wanted is refused (`CannotEdit`), and then nothing is written.

Pure text: JSON with the object `mcpServers` (Claude Code, Gemini CLI), TOML with the table `mcp_servers` (Codex).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from relay.config import jsonc

Json = dict[str, Any]
#: What the programs call our server.
SERVER = "relay"

_HEADER = re.compile(r"\s*\[[^\[\]].*\]\s*(#.*)?|\s*\[\[.*\]\]\s*(#.*)?")
_OURS = re.compile(r"""\s*\[\s*mcp_servers\s*\.\s*["']?relay["']?\s*(\.[^\]]*)?\]\s*(#.*)?""")


class CannotEdit(ValueError):
    """The file cannot be changed safely; the message says why."""


def put(form: str, text: str, entry: Mapping[str, Any] | None) -> str:
    """`text` with the server `entry` (None: without it). What a person set in it beside ours stays.

    `form`: json | toml. An empty text is an empty file. Gives `text` itself when it says that already.
    Raises CannotEdit.
    """
    edit = {"json": _put_json, "toml": _put_toml}[form]
    return edit(text, entry)


def entry_of(form: str, text: str) -> Json | None:
    """The server's entry as it stands in a file; None when there is none, or none that can be read."""
    try:
        tree = tomllib.loads(text) if form == "toml" else jsonc.parse(text) if text.strip() else {}
    except (tomllib.TOMLDecodeError, jsonc.JsonError):
        return None
    servers = tree.get("mcp_servers" if form == "toml" else "mcpServers") if isinstance(tree, dict) else None
    entry = servers.get(SERVER) if isinstance(servers, dict) else None
    return entry if isinstance(entry, dict) else None


def _put_json(text: str, entry: Mapping[str, Any] | None) -> str:
    try:
        tree = jsonc.parse(text) if text.strip() else {}
    except jsonc.JsonError as error:
        raise CannotEdit(f"it is not plain JSON: {error}") from None
    servers = tree.get("mcpServers", {}) if isinstance(tree, dict) else None
    if not isinstance(servers, dict):
        raise CannotEdit("its mcpServers is not an object")
    wanted = _merged(servers.get(SERVER), entry)
    if servers.get(SERVER) == wanted:
        return text
    if not text.strip():
        return json.dumps({"mcpServers": {SERVER: wanted}}, indent=2, ensure_ascii=False) + "\n"
    if "mcpServers" in tree:
        edited = jsonc.change_object(text, ("mcpServers",), {SERVER: wanted})
    else:
        edited = jsonc.change_object(text, (), {"mcpServers": {SERVER: wanted}})
    return _checked(edited, _with(tree, "mcpServers", wanted), jsonc.parse)


def _put_toml(text: str, entry: Mapping[str, Any] | None) -> str:
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CannotEdit(f"it is not TOML: {error}") from None
    servers = tree.get("mcp_servers", {})
    wanted = _merged(servers.get(SERVER), entry)
    if servers.get(SERVER) == wanted:
        return text
    lines = text.splitlines(keepends=True)
    at, comments = _take_out(lines)
    if wanted is not None:
        if at == len(lines) and lines:
            if not lines[-1].endswith("\n"):
                lines[-1] += "\n"
            lines.append("\n")
            at = len(lines)
        lines[at:at] = [f"[mcp_servers.{SERVER}]\n", *comments]
        lines[at + 1 + len(comments) : at + 1 + len(comments)] = [
            f"{key} = {_toml(value)}\n" for key, value in wanted.items()
        ]
    return _checked("".join(lines), _with(tree, "mcp_servers", wanted), tomllib.loads)


def _take_out(lines: list[str]) -> tuple[int, list[str]]:
    """Remove the tables of our server; gives where the first one stood (else the end), and their comment lines."""
    place: int | None = None
    comments: list[str] = []
    at = 0
    while at < len(lines):
        if not _OURS.fullmatch(lines[at].rstrip("\r\n")):
            at += 1
            continue
        end = at + 1
        while end < len(lines) and not _HEADER.fullmatch(lines[end].rstrip("\r\n")):
            end += 1
        # Blank lines and comments before the next table belong to that one.
        while end < len(lines) and end > at + 1 and lines[end - 1].strip()[:1] in ("", "#"):
            end -= 1
        comments += [line for line in lines[at + 1 : end] if line.lstrip().startswith("#")]
        place = at if place is None else place
        del lines[at:end]
    return len(lines) if place is None else place, comments


def _merged(there: Any, entry: Mapping[str, Any] | None) -> Json | None:
    if entry is None:
        return None
    if not isinstance(there, dict):
        return dict(entry)
    merged = {**there, **entry}
    if isinstance(there.get("env"), dict):
        others = {name: value for name, value in there["env"].items() if not name.startswith("RELAY_")}
        merged["env"] = {**others, **entry["env"]}
    return merged


def _with(tree: Json, key: str, wanted: Json | None) -> Json:
    servers = {name: entry for name, entry in tree.get(key, {}).items() if name != SERVER}
    if wanted is not None:
        servers[SERVER] = wanted
    return {**tree, key: servers} if servers or key in tree else tree


def _checked(edited: str, wanted: Json, parse: Callable[[str], Any]) -> str:
    try:
        read = parse(edited)
    except ValueError:
        read = None
    # A TOML table that had only ours goes with it; an empty one says the same.
    if read is None or {k: v for k, v in read.items() if v} != {k: v for k, v in wanted.items() if v}:
        raise CannotEdit(f"its entry {SERVER!r} is written in a form that this program does not change")
    return edited


def _toml(value: Any) -> str:
    """A value of TOML 1.0, on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise CannotEdit(f"it has a {type(value).__name__}, which this program does not write")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)

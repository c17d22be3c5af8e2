"""`relay guard hook`: Claude Code, Codex and Gemini CLI run it before each edit and each command of a shell, to ask
the room.

Invariants:
- an edit waits for `ANSWER_S` seconds at most. A running room answers from its locks and its advisories. Without one
  the locks are looked up in the database, and the advisories are left out;
- an edit that cannot be checked goes on, with a note on standard error: the commit is checked again, and refused
  there (`relay/app/guard/git_hook.py`);
- a command of a shell is asked about as it stands: the room reads what it would write, the hook does not. What nobody
  can tell before it runs goes on;
- only the standard library is imported, and little of it: the program starts before every edit. It also runs as a
  plain script (`python -I -S relay/guard_cli.py hook ...`), as the presets start it. `json` is not: it loads `re` and
  `enum`, half of the hook's time (relay/app/guard/quick_json.py).

It runs as the user of the agent, on the room's machine. With RELAY_API_KEY it asks as that key's identity. Without
one it reads the room's key from `.relay/` beside the configuration, which that user may read anyway.

What the programs send and expect (looked up in Claude Code 2.1.330, Codex 0.169.0, Gemini CLI 0.61.0): a JSON
object on standard input with `tool_name`, `tool_input` and `cwd`; exit code 0 with a JSON object on standard
output. An edit that may go on gets no decision, so that the program's own rules decide as they would without us.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

from relay.app.guard import quick_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: Seconds that an edit waits for the room, whatever it asks about.
ANSWER_S = 2.0
FORMATS = ("claude", "codex", "gemini")
#: Files of a patch that one question is about, so that what the first ones say is known when time runs out.
AT_ONCE = 200
#: Bytes of a file that is searched for the lines of an edit.
SEARCHED = 4_000_000
#: Characters of an edit that are sent with the question: as much as a merge is joined of.
SENT = 1_000_000
USAGE = """usage: relay guard hook [--format claude|codex|gemini] [--agent NAME] [--config PATH]
       relay guard install|uninstall|status [--repo PATH] [--config PATH] [--json]"""
#: Tools that run a command of a shell, and where they say in which folder.
SHELLS = ("Bash", "run_shell_command", "shell", "local_shell", "exec_command")
FOLDERS = ("workdir", "directory", "dir_path", "cwd")
#: What the room answers when an edit must not be.
NO = ("steer", "locked", "stale")


class CannotAsk(Exception):
    """The room cannot be asked; the message says why. `status`: what it answered instead, 0 for nothing."""

    status = 0


def main(arguments: list[str]) -> int:
    """The hook; gives its exit code: 0, or 1 for a wrong use (2 would be a refusal to all three programs)."""
    if arguments[1:2] in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    options = {"--format": "claude", "--agent": ""}
    options["--config"] = os.environ.get("RELAY_CONFIG", "config.json")
    words = iter(arguments[1:])
    for word in words:
        value = next(words, None)
        if word not in options or value is None:
            print(f"{USAGE}\nnot understood: {word}", file=sys.stderr)
            return 1
        options[word] = value
    if options["--format"] not in FORMATS:
        print(f"{USAGE}\nrelay guard: --format must be claude, codex or gemini", file=sys.stderr)
        return 1
    try:
        edit = quick_json.loads(sys.stdin.buffer.read().decode("utf-8", "replace"))
        agent, session = whose(options["--config"], edit.get("session_id"))
        agent = agent or options["--agent"]
        if not agent:
            print(f"{USAGE}\nrelay guard: give --agent NAME, or set RELAY_AGENT_ID", file=sys.stderr)
            return 1
        reasons, note, context = ask(edit, agent, session, options["--config"])
    except (CannotAsk, OSError, ValueError, AttributeError, TypeError) as error:
        print(f"relay guard: not asked, so the edit goes on: {error}", file=sys.stderr)
        return 0
    if note:
        print(f"relay guard: {note}", file=sys.stderr)
    if reasons:
        print(quick_json.dumps(refusal(options["--format"], " ".join(reasons))))
    elif context and options["--format"] != "gemini":
        print(quick_json.dumps(allowed(context)))
    elif context:
        # Gemini CLI takes no context before a tool; a person sees this.
        print(quick_json.dumps({"systemMessage": context}))
    return 0


def find_packages() -> None:
    """Started with -S, as before an edit, the interpreter does not look where packages are installed."""
    if sys.flags.no_site:
        import site

        site.main()


def refusal(form: str, reason: str) -> dict[str, Any]:
    """The refusal in the form of each program; the reason reaches its model."""
    if form == "gemini":
        return {"decision": "deny", "reason": reason}
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


def allowed(context: str) -> dict[str, Any]:
    """A note in the form of Claude Code and Codex. The edit goes on by their own rules."""
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": context}}


def whose(config: str, client_session: object = None) -> tuple[str, str]:
    """The agent and the session that this process speaks for, each '' where it is not known: what the environment
    says, else those of the `relay mcp` that the same program started (relay/app/mcp/parent_process.py)."""
    agent, session = os.environ.get("RELAY_AGENT_ID", ""), os.environ.get("RELAY_SESSION_ID", "")
    key, folder = os.environ.get("RELAY_API_KEY", ""), runtime(config)
    if (session and (agent or key)) or not os.path.isdir(f"{folder}/mcp"):  # noqa: PTH112
        return agent, session
    if not sys.platform.startswith("linux"):
        find_packages()
    from relay.app.mcp.parent_process import CLIENT_SESSION, sessions_here

    named = client_session if isinstance(client_session, str) else os.environ.get(CLIENT_SESSION)
    sessions = sessions_here(folder, agent=agent, key=key, client_session=named)
    names = {record["agent"] or "" for record in sessions}
    if not agent and not key and len(names) == 1:
        agent = names.pop()
    return agent, session or (sessions[0]["session"] if len(sessions) == 1 else "")


def ask(edit: dict[str, Any], agent: str, session: str, config: str) -> tuple[list[str], str, str]:
    """The reasons why this edit must not be, none when it may, a note, and what the agent is to know of an edit that
    may be. Raises CannotAsk, OSError, ValueError."""
    tool, given = str(edit.get("tool_name", "")), edit.get("tool_input") or {}
    folder = str(edit.get("cwd") or os.getcwd())  # noqa: PTH109 - pathlib would double the start-up time
    give_up = time.monotonic() + ANSWER_S
    command = command_of(tool, given)
    if command:
        named = next((given[key] for key in FOLDERS if isinstance(given.get(key), str)), "")
        folder = os.path.join(folder, named)  # noqa: PTH118
        try:
            return ask_command(room(config), command, folder, tool, agent, session, give_up)
        except (CannotAsk, OSError, ValueError) as error:
            return (*look_it_up(config, folder, command, agent, session, error), "")
    places = [os.path.join(folder, path) for path in paths_of(given)]  # noqa: PTH118
    if not places:
        return [], "", ""
    try:
        return ask_room(room(config), places, tool, given, agent, session, give_up)
    except (CannotAsk, OSError, ValueError) as error:
        return (*look_it_up(config, folder, places, agent, session, error), "")


def ask_room(
    address: tuple[str, int, str, str],
    places: list[str],
    tool: str,
    given: dict[str, Any],
    agent: str,
    session: str,
    give_up: float,
) -> tuple[list[str], str, str]:
    """What a running room says of all of them. Raises CannotAsk, OSError, ValueError where it says too little, unless
    it refused one before."""
    reasons: dict[str, None] = {}
    notes: dict[str, None] = {}
    context: dict[str, None] = {}
    about: dict[str, Any] = {"agent": agent, "tool": tool}
    if session:
        about["session"] = session
    try:
        for first in range(0, len(places), AT_ONCE):
            some = places[first : first + AT_ONCE]
            for at, answer in zip(some, answers(address, some, about, given, give_up), strict=True):
                reason = str(answer.get("reason") or "")
                if answer.get("decision") in NO:
                    reasons[reason or f"Another agent works on {at}: steer clear of it."] = None
                elif "could not be read" in reason or "gave no answer" in reason:
                    notes[reason] = None
                if answer.get("note"):
                    context[str(answer["note"])] = None
    except (CannotAsk, OSError, ValueError):
        if not reasons:
            raise
    return list(reasons), " ".join(notes), " ".join(context)


def ask_command(
    address: tuple[str, int, str, str],
    command: str,
    folder: str,
    tool: str,
    agent: str,
    session: str,
    give_up: float,
) -> tuple[list[str], str, str]:
    """What a running room says of a shell's command. Raises CannotAsk, OSError, ValueError."""
    question = {"agent": agent, "command": command, "cwd": folder, "tool": tool}
    if session:
        question["session"] = session
    try:
        answer = post(address, "/api/guard", question, give_up)
    except CannotAsk as refused:
        if refused.status != 400:
            raise
        return [], f"this command was not asked about: {refused}", ""
    reason = str(answer.get("reason") or "")
    if answer.get("decision") in NO:
        return [reason or "This command would write what another agent works on."], "", ""
    return [], reason if "gave no answer" in reason else "", str(answer.get("note") or "")


def answers(
    address: tuple[str, int, str, str],
    places: list[str],
    about: dict[str, Any],
    given: dict[str, Any],
    give_up: float,
) -> list[dict[str, Any]]:
    """What a running room says of each of these. Raises CannotAsk, OSError, ValueError."""
    if len(places) > 1:
        return list(post(address, "/api/guard", {**about, "paths": places}, give_up).get("decisions") or ())
    question, change = {**about, "path": places[0]}, change_of(given)
    lines = lines_of(places[0], given)
    if lines is not None:
        question["lines"] = lines
    try:
        return [post(address, "/api/guard", {**question, **change}, give_up)]
    except CannotAsk as refused:
        # A room of before does not know them, and no room takes half a character.
        if refused.status != 400 or not change:
            raise
    return [post(address, "/api/guard", question, give_up)]


def look_it_up(
    config: str, folder: str, asked: list[str] | str, agent: str, session: str, error: Exception
) -> tuple[list[str], str]:
    """What the room's database says of the locks while the room itself gives no answer. `asked`: the files, or the
    command of a shell. Raises CannotAsk."""
    # Rare, and so it may import what the hook itself goes without.
    find_packages()
    try:
        from relay.app.guard.lookup import CannotTell, reasons_against, reasons_against_command

        who = agent, session or None
        if isinstance(asked, str):
            reasons = reasons_against_command(config, folder, asked, *who)
        else:
            reasons = reasons_against(config, folder, asked, *who)
    except ImportError as missing:
        raise CannotAsk(f"{error}; and its locks cannot be looked up: {missing}") from None
    except CannotTell as unknown:
        raise CannotAsk(f"{error}; and {unknown}") from None
    return reasons, f"advisories were not asked for: {error}"


def command_of(tool: str, given: dict[str, Any]) -> str:
    """What a shell is to run; empty where the tool is no shell."""
    command = given.get("command", given.get("cmd"))
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        import shlex

        command = shlex.join(command)
    return command if tool in SHELLS and isinstance(command, str) and command.strip() else ""


def paths_of(given: dict[str, Any]) -> list[str]:
    """The files that a tool call names: by key, and for Codex in the text of its patch."""
    keys = ("file_path", "notebook_path", "absolute_path", "path")
    paths = [given[key] for key in keys if isinstance(given.get(key), str) and given[key]]
    for key in ("command", "input", "patch"):
        text = given.get(key)
        if isinstance(text, list):  # an argument list: ["apply_patch", "*** Begin Patch..."]
            text = "\n".join(str(word) for word in text)
        if isinstance(text, str) and "*** Begin Patch" in text:
            paths += patched(text.splitlines())
    return list(dict.fromkeys(paths))


def patched(lines: Iterable[str]) -> list[str]:
    """The files that a patch in Codex's form adds, changes, deletes or moves to."""
    marks = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
    return [line[len(mark) :].strip() for line in lines for mark in marks if line.startswith(mark)]


def change_of(given: dict[str, Any]) -> dict[str, Any]:
    """What the edit makes of the file, as the room asks for it: `content`, the whole text, or `edits`, each {old,
    new, all}; nothing where the call does not say it, and where it is long."""
    if isinstance(given.get("content"), str):
        change: dict[str, Any] = {"content": given["content"]}
    else:
        parts = given["edits"] if isinstance(given.get("edits"), list) else [given]
        edits = [
            {
                "old": part.get("old_string"),
                "new": part.get("new_string"),
                "all": part.get("replace_all") is True,
            }
            for part in parts
            if isinstance(part, dict)
        ]
        whole = all(isinstance(edit[key], str) for edit in edits for key in ("old", "new"))
        change = {"edits": edits} if edits and whole and len(edits) == len(parts) else {}
    return change if len(quick_json.dumps(change)) <= SENT else {}


def _at_once(path: str, flags: int) -> int:
    """A pipe in a file's place has nothing to read, and is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def lines_of(path: str, given: dict[str, Any]) -> list[int] | None:
    """First and last line that an exchange of texts changes; None for the whole file, or when not known."""
    old = given.get("old_string")
    if not isinstance(old, str) or not old:
        return None
    try:
        with open(path, "rb", opener=_at_once) as file:
            text = file.read(SEARCHED) or b""
    except OSError:
        return None
    at = text.find(old.encode("utf-8", "replace"))
    if at < 0:
        return None
    first = text.count(b"\n", 0, at) + 1
    return [first, first + old.rstrip("\n").count("\n")]


def runtime(config: str) -> str:
    """The folder in which the room of this configuration keeps what it knows."""
    return os.path.join(os.path.dirname(os.path.abspath(config)), ".relay")  # noqa: PTH100, PTH118, PTH120


def room(config: str) -> tuple[str, int, str, str]:
    """Host, port, the Host header and the key of the room. Raises CannotAsk when it does not run."""
    folder = runtime(config)
    try:
        with open(f"{folder}/state.json", "rb", opener=_at_once) as file:
            url = str(quick_json.loads(file.read())["url"])
        token = os.environ.get("RELAY_API_KEY") or ""
        if not token:
            with open(f"{folder}/token", "rb", opener=_at_once) as file:
                token = file.read().decode().strip()
    except FileNotFoundError:
        raise CannotAsk(f"the room of {config} is not running") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CannotAsk(f"the room of {config} is not running ({error})") from None
    where = url.partition("://")[2].rstrip("/")
    host, _, port = where.rpartition(":")
    return host.strip("[]"), int(port), where, token


def post(
    address: tuple[str, int, str, str], path: str, question: dict[str, Any], give_up: float
) -> dict[str, Any]:
    """What the room answers. Raises CannotAsk or OSError, by `give_up` (monotonic seconds) at the latest."""
    host, port, where, token = address
    body = quick_json.dumps(question).encode("utf-8", "replace")
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {where}\r\nX-API-Key: {token}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reply = b""
    wire = connected(host, port, give_up)
    try:
        wire.sendall(head.encode() + body)
        while True:
            wire.settimeout(left(give_up))
            piece = wire.recv(65_536)
            if not piece:
                break
            reply += piece
    finally:
        wire.close()
    status, _, rest = reply.partition(b"\r\n")
    text = rest.partition(b"\r\n\r\n")[2]
    if b" 200 " not in status + b" ":
        refused = CannotAsk(f"the room says: {said_no(status, text)}")
        code = status.split(b" ")[1:2]
        refused.status = int(code[0]) if code and code[0].isdigit() else 0
        raise refused
    answer = quick_json.loads(text)
    if not isinstance(answer, dict):
        raise CannotAsk("the room's answer is not a JSON object")
    return answer


def connected(host: str, port: int, give_up: float) -> _socket.socket:
    """A connection to the room. Raises CannotAsk or OSError."""
    if not host.replace(".", "").isdigit() and ":" not in host:
        import socket

        return socket.create_connection((host, port), timeout=left(give_up))
    # The address stands there as numbers, mostly: the module that looks names up takes as long to load as the rest.
    wire = _socket.socket(_socket.AF_INET6 if ":" in host else _socket.AF_INET, _socket.SOCK_STREAM)
    try:
        wire.settimeout(left(give_up))
        wire.connect((host, port))
    except BaseException:
        wire.close()
        raise
    return wire


def said_no(status: bytes, text: bytes) -> str:
    """The message of an error and its fix (docs/http.md); the status line when the answer has none."""
    try:
        error = quick_json.loads(text)["error"]
        words = f"{error['message']} {error.get('fix') or ''}".strip()
    except (ValueError, KeyError, TypeError, AttributeError):
        words = status.decode("utf-8", "replace").partition(" ")[2] or "not HTTP"
    return "".join(char if char.isprintable() else "\ufffd" for char in words[:300])


def left(give_up: float) -> float:
    seconds = give_up - time.monotonic()
    if seconds <= 0:
        raise CannotAsk("no answer in time")
    return seconds

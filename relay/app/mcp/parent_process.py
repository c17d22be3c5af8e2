"""Whose session a shell belongs to: that of the `relay mcp` which an ancestor of the shell started.

Invariants:
- `relay mcp` writes down which program started it (`Record`), in a file of its own beside the room's database, and
  takes the file away when it ends. What stands between the two (`uv run`, npx, a shell) has the same pipe as its
  input or output, and is passed over; what is above the program (a shell, tmux) is shared, and is never its mark;
- a process is its id and its start time on one machine, within one PID namespace: an id that is used again is not
  it, and neither is one of a container or of another host. Process 1 is everybody's ancestor, and so nobody's;
- the nearest ancestor decides. Claude Code's own session id, which its hooks and its shells are told, decides only
  where no ancestor does (a sandbox has a PID namespace of its own), or where one process has several sessions.

Hooks call this before every edit: it imports little, and needs no package on Linux. Elsewhere psutil looks.
(docs/guard.md, "Who is about to write".)
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    #: The id of a process, and when it started, by its system's clock.
    Process = tuple[int, str]

#: The folder in `.relay/` with one file for each `relay mcp` that runs.
FOLDER = "mcp"
#: Where Claude Code tells its shells, its hooks and its servers in which session they are (2.1.330).
CLIENT_SESSION = "CLAUDE_CODE_SESSION_ID"
#: Ancestors that are looked at, at most.
MOST_ANCESTORS = 64
_LINUX = sys.platform.startswith("linux")


def machine() -> str:
    """What a process id is unique in: this boot and this PID namespace; elsewhere this host."""
    if _LINUX:
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123 - pathlib doubles a hook's start
                return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
        except OSError:
            pass
    return socket.gethostname()


def looked_up(pid: int) -> tuple[int, str] | None:
    """The parent of a process and when the process started; None when there is no such process, or none to see."""
    if not _LINUX:
        return _by_psutil(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            # After the last ")", since a program's name may hold blanks and brackets (proc(5)): state, ppid, ...
            fields = file.read().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else (int(fields[1]), fields[19].decode())
    except (OSError, IndexError, ValueError):
        return None


def _by_psutil(pid: int) -> tuple[int, str] | None:
    try:
        import psutil
    except ImportError:
        return None
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return process.ppid(), repr(process.create_time())
    except psutil.Error:
        return None


def ancestors() -> Iterator[Process]:
    """The processes that this one comes from, the nearest first."""
    pid = os.getppid()
    for _ in range(MOST_ANCESTORS):
        process = looked_up(pid) if pid > 1 else None
        if process is None:
            return
        yield pid, process[1]
        pid = process[0]


# -- what `relay mcp` writes down


def client(wire: Sequence[int]) -> Process | None:
    """Who started this process, whose descriptors `wire` are its input and output: the nearest ancestor that does not
    just hand the same pipes on. None = it cannot be seen. (Linux; elsewhere the parent.)"""
    pipes = [_pipe("self", descriptor) for descriptor in wire]
    for process in ancestors():
        # A program of another user's shows no descriptor: it is not a wrapper of ours.
        if not any(pipe and _pipe(process[0], number) == pipe for number, pipe in enumerate(pipes)):
            return process
    return None


def _pipe(pid: int | str, descriptor: int) -> str:
    """Which pipe or socket that is; '' for what is none, or cannot be seen."""
    try:
        name = os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115
    except OSError:
        return ""
    return name if name.startswith(("pipe:", "socket:")) else ""


class Record:
    """The file that says who started this process, for the `session` that it speaks in. `folder`: the room's
    `.relay`; `agent` None: the key's, which is not known yet; `wire`: the descriptors by which its client speaks with
    it. Nothing is written where the client cannot be seen."""

    def __init__(
        self,
        folder: Path,
        session: str,
        environ: Mapping[str, str],
        *,
        agent: str | None,
        key: str | None,
        wire: Sequence[int] = (),
    ) -> None:
        own, parent = looked_up(os.getpid()), client(wire)
        self._told: dict[str, Any] = {
            "agent": agent,
            "key": _public(key),
            "session": session,
            "machine": machine(),
            "parent": parent,
            "process": None if own is None else (os.getpid(), own[1]),
            "client_session": environ.get(CLIENT_SESSION) or None,
        }
        self._seen = own is not None and parent is not None
        self._file = folder / FOLDER / f"{os.getpid()}.json"

    def write(self) -> None:
        """Raises OSError."""
        if not self._seen:
            return
        place = self._file.parent
        for folder in (place.parent, place):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_the_dead(place, self._told["parent"])
        fresh = self._file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(self._told), "utf-8")
        fresh.replace(self._file)

    @property
    def agent(self) -> str | None:
        """Whose session it is, None = not known yet."""
        agent: str | None = self._told["agent"]
        return agent

    def name(self, agent: str, *, person: bool = False) -> None:
        """Say whose the key is; a person's program is no agent's, and its file goes. What cannot be written is left:
        the shells of that program are asked for their name then."""
        self._told["agent"] = agent
        with contextlib.suppress(OSError):
            if person:
                self.forget()
            else:
                self.write()

    def forget(self) -> None:
        """The process ends. Raises OSError."""
        self._file.unlink(missing_ok=True)


def _forget_the_dead(place: Path, parent: Process) -> None:
    """Take away the files whose program is gone, and those of its servers that died, but the last one's: its session
    says to a hook that what it held is lost, until the program (`parent`, now) starts another. What another machine
    wrote stays."""
    here = machine()
    later = {parent}
    for name, record in reversed(_read(str(place))):
        if record["machine"] != here:
            continue
        if not _lives(record["parent"]) or (record["parent"] in later and not _lives(record["process"])):
            (place / name).unlink(missing_ok=True)
        later.add(record["parent"])


# -- what hooks look up


def sessions_here(
    folder: str, *, agent: str = "", key: str = "", client_session: str | None = None
) -> list[dict[str, Any]]:
    """`{agent, session, ...}` of each `relay mcp` that this process may belong to: mostly one; none: it belongs to no
    program of an agent's; several: one process of that program started them, and which is meant is not known.

    `folder`: the room's `.relay`. `agent`, `key`: what the environment says, so that nobody else's counts.
    """
    written = [record for _, record in _read(f"{folder}/{FOLDER}")]
    if not written:
        return []
    fitting = [record for record in written if _fits(record, agent, key)]
    here = machine()
    by_parent: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in fitting:
        if record["machine"] == here:
            by_parent.setdefault(tuple(record["parent"]), []).append(record)
    met = next((by_parent[ancestor] for ancestor in ancestors() if ancestor in by_parent), None)
    same = _each_once(
        [record for record in met or fitting if client_session and record["client_session"] == client_session]
    )
    if met is None:
        return same if len(same) == 1 else []
    running = _each_once([record for record in met if _lives(record["process"])])
    if not running:
        # Its server died, and what it held is lost: the last one's session says so.
        return met[-1:]
    return running if len(running) == 1 else [record for record in same if record in running] or running


def recorded(folder: str, client_session: str) -> tuple[str, str] | None:
    """The agent and the session that were written down last for this session of a client."""
    records = [
        record for _, record in _read(f"{folder}/{FOLDER}") if record["client_session"] == client_session
    ]
    return (str(records[-1]["agent"]), records[-1]["session"]) if records and records[-1]["agent"] else None


def _each_once(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An attached session and its `relay mcp` (relay/app/attach/session_record.py) are one."""
    return list({(record["agent"], record["session"]): record for record in records}.values())


def _fits(record: dict[str, Any], agent: str, key: str) -> bool:
    if key:
        return bool(record["key"] == _public(key))
    # Whose a key is, is known a moment after the start.
    name = str(record["agent"] or "")
    return bool(name) and (not agent or name.casefold() == agent.casefold())


def _public(key: str | None) -> str | None:
    """The part of a key that is no secret (docs/coordination.md, "Keys")."""
    return "_".join(key.split("_")[:2]) if key else None


def lives_here(process: tuple[str, int, str] | None) -> bool | None:
    """Does the process of this machine, id and start live? None: it cannot be seen from here."""
    if process is None or process[0] != machine():
        return None
    return _lives(process[1:])


def _lives(process: Any) -> bool:
    started = looked_up(process[0])
    return started is not None and started[1] == process[1]


def _read(place: str) -> list[tuple[str, dict[str, Any]]]:
    """The files, the oldest first; what is no such file is left out."""
    try:
        with os.scandir(place) as entries:
            files = sorted(
                (entry.stat().st_mtime_ns, entry.name, entry.path)
                for entry in entries
                if entry.name.endswith(".json")
            )
    except OSError:
        return []
    records = []
    for _, name, path in files:
        unusable = (OSError, ValueError, KeyError, TypeError, IndexError)
        with contextlib.suppress(*unusable), open(path, "rb") as file:  # noqa: PTH123
            records.append((name, _checked(json.loads(file.read()))))
    return records


def _checked(record: dict[str, Any]) -> dict[str, Any]:
    """A record with each key. Raises ValueError, KeyError, TypeError, IndexError for what is none."""
    for key in ("parent", "process"):
        pid, started = record[key][0], record[key][1]
        record[key] = (int(pid), str(started))
    texts = {"session": str(record["session"]), "machine": str(record["machine"])}
    return {"agent": None, "key": None, "client_session": None, **record, **texts}

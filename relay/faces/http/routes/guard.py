"""The routes of the guard: an agent's hook asks before each edit, git's before a commit or a push (docs/guard.md).

Invariants:
- the same rules apply to an agent that the room runs and to one that somebody else runs;
- a shell's command is read in a thread, and what it would surely write is checked as an edit is;
- a path is checked in the checkout of the codebase that contains it, the agent's own or another one. A path outside
  all checkouts is allowed;
- a decision about an edit takes `GUARD_S` at most, however many files the edit has; after that the edit is allowed,
  with a note. When git's question cannot be answered, that is an error, and its hook refuses
  (`relay/app/guard/git_hook.py`);
- a key can ask for its own identity only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog
from aiohttp import web

from relay.base.files import below, inside, reading, resolver
from relay.base.git_checkouts import within
from relay.code.shell.foreseen import Foreseen, foresee
from relay.coordination.writes.lock_guard import LockGuard, caller_of
from relay.coordination.writes.shell_guard import CommandAnswer, judge
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.middleware import CREDENTIAL
from relay.faces.http.requests.parsing import Body, bad
from relay.faces.http.requests.reader import RequestReader
from relay.model import Fault, GuardDecision, Location, Refusal
from relay.model.speaker_names import MAX_AGENT_NAME, clean_name, spelled

log = structlog.get_logger(__name__)
#: Seconds for a decision: less than the hook itself waits (relay/app/guard/hook.py).
GUARD_S = 1.5
#: Bytes of a path on any system we run on (PATH_MAX).
MOST_PATH = 4096
#: Bytes of a question with many paths: some 100,000 paths, more than a commit has.
MOST_WRITE = 16 * 1_048_576
#: Bytes of a file whose edit is tried in a merge.
MOST_EDITED = 1_048_576
ACTS = ("commit", "merge", "push")


class Checkouts(Protocol):
    """Where agents work. The daemon, which stands above this module, knows it."""

    def root_of(self, agent: str) -> Path | None:
        """The top of an agent's checkout; None for an agent that is not the room's, which works in `home` or
        anywhere."""
        ...

    def home(self) -> Path: ...

    def checkouts(self) -> Sequence[Path]:
        """The tops of all checkouts of the codebase."""
        ...


class GuardRoutes:
    """The handlers. A question without an agent is about the person who runs the room."""

    def __init__(self, guard: LockGuard, checkouts: Checkouts, reader: RequestReader) -> None:
        self._guard, self._checkouts, self._reader = guard, checkouts, reader

    def table(self) -> list[web.RouteDef]:
        return [web.post("/api/guard", self.ask), web.post("/api/guard/write", self.write)]

    async def ask(self, request: web.Request) -> web.Response:
        """`{agent, path, session?, lines?: [first, last], content?, edits?: [{old, new, all?}], tool?}` ->
        `{decision: allow|locked|stale|steer, reason, advisory, code, locked_by, session, file_path, expires_at,
        fencing_token}`; with `paths` instead of `path`, for an edit of several files, `{decisions: [...]}`, such an
        answer on each in their order. With `command` and `cwd` instead, for what a shell is about to run: such an
        answer with `writes`, `more` and `unknown`."""
        fields = ("agent", "path", "paths", "lines", "content", "edits", "tool", "session", "command", "cwd")
        body = await self._reader.exact_body(request, *fields, limit=MOST_WRITE)
        agent, session = self._name(body.text("agent")), body.maybe_text("session")
        body.maybe_text("tool")
        body.maybe_text("cwd")
        if body.values.get("command") is not None:
            return await self._command(request, agent, session, body)
        many = body.values.get("paths") is not None
        if many and (body.values.get("path") is not None or body.values.get("lines") is not None):
            raise bad(
                "paths is given together with path or lines.",
                "Send path and lines for one file, paths for several.",
            )
        paths = _paths(body) if many else [body.text("path")]
        _check_names(paths)
        lines, change = _lines(body), _change(body)
        _own(request, agent)
        root = self._checkouts.root_of(agent)
        if root is None:
            # An agent without its own checkout shares one, so it is not known which changed lines are whose.
            root, lines = self._checkouts.home(), None
        checkouts = tuple(dict.fromkeys((root, *self._checkouts.checkouts())))
        places = await asyncio.to_thread(_places, checkouts, paths)
        text = None
        if change is not None and not many and places[0] is not None:
            text = await asyncio.to_thread(_edited, root, places[0], paths[0], change)
        decisions: list[GuardDecision] = []
        try:
            async with asyncio.timeout(GUARD_S):
                for place in places:
                    decisions.append(await self._decide(agent, place, lines, text, session))
        except Refusal as error:
            raise bad(error.message, error.fix) from None
        except TimeoutError:
            log.warning("guard gave no answer", agent=agent, path=places[len(decisions)], within_s=GUARD_S)
            late = GuardDecision(reason=f"The guard gave no answer within {GUARD_S:g} s.")
            decisions += [late] * (len(places) - len(decisions))
        answers = [decision.as_json() for decision in decisions]
        return answer({"decisions": answers} if many else answers[0])

    async def _command(
        self, request: web.Request, agent: str, session: str | None, body: Body
    ) -> web.Response:
        command, cwd = body.text("command"), body.maybe_text("cwd")
        named = [
            field
            for field in ("path", "paths", "lines", "content", "edits")
            if body.values.get(field) is not None
        ]
        if named:
            raise bad(
                f"command is given together with {named[0]}.", "Send command and cwd alone for a shell."
            )
        _own(request, agent)
        root = self._checkouts.root_of(agent) or self._checkouts.home()
        checkouts = tuple(dict.fromkeys((root, *self._checkouts.checkouts())))
        folder = str(root / (cwd or ""))
        try:
            async with asyncio.timeout(GUARD_S):
                foreseen = await asyncio.to_thread(_foreseen, checkouts, command, folder)
                told = await judge(self._guard, agent, command, foreseen, session)
        except Refusal as error:
            raise bad(error.message, error.fix) from None
        except TimeoutError:
            log.warning("guard gave no answer", agent=agent, command=command[:200], within_s=GUARD_S)
            told = CommandAnswer(GuardDecision(reason=f"The guard gave no answer within {GUARD_S:g} s."))
        return answer(told.as_json())

    async def _decide(
        self,
        agent: str,
        place: str | None,
        lines: tuple[int, int] | None,
        text: bytes | None,
        session: str | None,
    ) -> GuardDecision:
        if place is None:
            return GuardDecision(reason="The path is outside the codebase.")
        return await self._guard.decide(agent, Location(place, lines, True, text=text), session)

    async def write(self, request: web.Request) -> web.Response:
        """`{agent?, session?, paths: [...], act: commit|merge|push, override?}` -> `{decision: allow|locked|stale|
        overridden, refusals: [{path, code, locked_by, expires_at, message, fix, ...}], more, overridable}`."""
        fields = ("agent", "session", "paths", "act", "override")
        body = await self._reader.exact_body(request, *fields, limit=MOST_WRITE)
        agent, act = body.maybe_text("agent"), body.text("act")
        if act not in ACTS:
            raise bad(f"act is {act[:40]!r}.", f"One of: {', '.join(ACTS)}.")
        paths = _paths(body)
        credential = request[CREDENTIAL]
        identity = credential.identity
        who = identity or self._reader.owner if agent is None else self._name(agent)
        _own(request, who)
        session, override = body.maybe_text("session"), body.maybe_text("override") or ""
        person = credential.person if identity is not None else agent is None
        try:
            caller = caller_of(who, session, person=person)
            verdict = await self._guard.check(caller, paths, act=act, override=override)
        except Refusal as error:
            raise bad(error.message, error.fix) from None
        return answer(verdict.as_json())

    def _name(self, agent: str) -> str:
        try:
            return spelled(clean_name(agent, most=MAX_AGENT_NAME), self._reader.settings.current.agent_names)
        except ValueError as error:
            raise bad(f"agent is {agent[:60]!r}. {error}", "Send the agent's name.") from None


def _paths(body: Body) -> list[str]:
    paths = body.values.get("paths")
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        raise bad("paths is not a list of strings.", 'Send {"paths": ["src/app.py"]}.')
    return paths


def _check_names(paths: Iterable[str]) -> None:
    """Raises Refusal 400 for a path that cannot be the name of a file."""
    try:
        most = max((len(path.encode()) for path in paths), default=0)
    except UnicodeEncodeError:
        raise bad("paths has an unpaired surrogate.", "Send whole Unicode characters.") from None
    if most > MOST_PATH:
        raise bad(f"path has more than {MOST_PATH} bytes.", "Send the path of a file.")


def _places(checkouts: Sequence[Path], paths: Iterable[str]) -> list[str | None]:
    """The place of each of these (`_place`). Blocking."""
    look = resolver()
    tops = _tops(checkouts, look)
    return [_place(checkouts[0], tops, look, path) for path in paths]


def _foreseen(checkouts: Sequence[Path], command: str, folder: str) -> Foreseen:
    """What the command would write in these checkouts. Blocking."""
    look = resolver()
    return foresee(command, folder, partial(_place, checkouts[0], _tops(checkouts, look), look))


def _tops(checkouts: Sequence[Path], look: Callable[[str], str]) -> list[str]:
    """Without links: once for a question, however many paths it has. Blocking."""
    tops = []
    for checkout in checkouts:
        with suppress(OSError, ValueError):  # one whose place cannot be told has no files
            tops.append(look(str(checkout)))
    return tops


def _place(root: Path, tops: Sequence[str], look: Callable[[str], str], path: str) -> str | None:
    """`path` (absolute, or relative to the first checkout, `root`) in the innermost checkout that has it: a worktree
    may lie within another checkout. A worktree of the same repository that the room does not know is one, too. None
    when it is in none. Blocking."""
    try:
        at = look(os.path.join(root, path))  # noqa: PTH118 - as `look`, for the time
    except (OSError, ValueError):  # too long, a NUL, links in a circle
        return None
    places = (below(top, at) for top in tops)
    known = min((place for place in places if place is not None), key=len, default=None)
    return within(root, root / path) if known is None else known


def _own(request: web.Request, agent: str) -> None:
    """Raises Refusal 403 for a key that asks as another."""
    identity = request[CREDENTIAL].identity
    if identity is not None and agent != identity:
        raise Refusal(
            f"This key is {identity}'s; agent names another.",
            f"Ask as {identity}.",
            Fault.FORBIDDEN,
            "foreign_identity",
        )


def _lines(body: Body) -> tuple[int, int] | None:
    value = body.values.get("lines")
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(type(line) is int and 1 <= line < 1 << 31 for line in value)
        or value[0] > value[1]
    ):
        raise bad("lines is not a range of lines.", "lines is [first, last], both included, from 1.")
    return value[0], value[1]


#: The whole new text of a file, or exchanges (old, new, of every place) one after the other.
_Change = str | list[tuple[str, str, bool]]


def _change(body: Body) -> _Change | None:
    """What an edit makes of the file; None: the question does not say it."""
    content, edits = body.maybe_text("content"), body.values.get("edits")
    if edits is not None and not (isinstance(edits, list) and all(_is_exchange(edit) for edit in edits)):
        raise bad(
            "edits is not a list of exchanges.", 'Send {"edits": [{"old": "a", "new": "b", "all": true}]}.'
        )
    if content is not None or edits is None:
        return content
    return [(edit["old"], edit["new"], edit.get("all", False)) for edit in edits]


def _is_exchange(edit: object) -> bool:
    return (
        isinstance(edit, dict)
        and all(isinstance(edit.get(key), str) for key in ("old", "new"))
        and isinstance(edit.get("all", False), bool)
    )


def _edited(root: Path, place: str, path: str, change: _Change) -> bytes | None:
    """The file `place` of the agent's checkout `root` as it would stand; None: it stands elsewhere, cannot be read,
    or has not what is exchanged. Blocking."""
    if inside(root, str(root / path)) != place:
        return None
    if isinstance(change, str):
        return change.encode("utf-8", "replace")
    try:
        with reading(root / place) as file:
            text = file.read(MOST_EDITED + 1)
    except FileNotFoundError:
        text = b""
    except OSError:
        return None
    for old, new, every in change:
        before = old.encode("utf-8", "replace")
        if before not in text or (text and not before):
            return None
        text = text.replace(before, new.encode("utf-8", "replace"), -1 if every and before else 1)
    return text if len(text) <= MOST_EDITED else None

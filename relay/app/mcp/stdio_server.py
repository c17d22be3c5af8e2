"""One process of `relay mcp`: its session, the room's database, and the server between them.

Invariants:
- the session is alive while the process is: from its first call on it says so every third of its lease, and gives
  back what it holds when the process ends in any way that it can notice;
- a database that is busy or away costs the call that wanted it, not the process; the next call tries again;
- nobody gets in with a key that is not good: neither at the start nor when it is revoked later.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from relay.app.mcp.own_session import as_attached
from relay.app.mcp.parent_process import Record
from relay.app.runtime.identity import BadKey, Identity, NoWay, WrongUse, bad_key, find_config, identify
from relay.base.git_checkouts import checkout_of
from relay.config.loading import ConfigError, load_for_command
from relay.config.settings import Settings
from relay.faces.mcp import stdio
from relay.model import Caller, Fault, Refusal
from relay.model.speaker_names import spelled
from relay.store.failures import trouble_of
from relay.store.open import no_address
from relay.store.ports import Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from relay.app.mcp.daemon_proxy import DaemonRoom
    from relay.faces.operations.operation import Operation
    from relay.faces.services import Services

log = structlog.get_logger(__name__)
#: How the process ends when it cannot start: 1 = could not, 2 = wrong use.
COULD_NOT, WRONG_USE = 1, 2
#: Seconds that the start waits for the database, to refuse a bad key at once: the start has 2 s in all.
CHECK_S = 1.0
#: Seconds after which a process without a key opens the database, if no call did before.
PRELOAD_S = 0.5
#: Seconds that a call waits for a database that is being opened: to make all tables of an empty PostgreSQL database
#: takes 2 s, and 10 s on a busy machine. A client's own patience is mostly 60 s.
OPEN_S = 30.0
#: Seconds that the end of the process takes to give back what its session holds.
END_S = 3.0
#: Longest name of a kind of agent, in characters.
MAX_TYPE = 64


@dataclass(frozen=True, slots=True)
class OpenRoom:
    """The room's database, open, and the services over it."""

    store: Store
    services: Services


@dataclass(frozen=True, slots=True)
class OwnCheckout:
    """The checkout that this process works in, whoever asks (`relay.model.ports.Checkouts`)."""

    root: Path | None

    def root_of(self, agent: str) -> Path | None:
        return self.root


#: Carries the messages of one connection (relay/faces/mcp/stdio.py, `serve`).
Carry = Callable[[Any, Any], Coroutine[Any, Any, None]]
#: Opens the room of these settings. Raises StoreError.
Opening = Callable[[Settings], Coroutine[Any, Any, OpenRoom]]


async def open_room(settings: Settings) -> OpenRoom:
    """The room's database with all that operations ask for; made and migrated when it is missing."""
    from relay.app.wiring.schema import SCHEMAS
    from relay.config.settings import LiveSettings
    from relay.faces.services import services_of
    from relay.store.open import open_store

    own = OwnCheckout(await asyncio.to_thread(checkout_of, settings.repo, Path.cwd()))
    store = await open_store(settings, SCHEMAS)
    try:
        return OpenRoom(store, services_of(store, LiveSettings(settings), checkouts=own))
    except BaseException:
        await store.close()
        raise


def run(
    wire: stdio.Wire,
    *,
    config: str | None,
    agent: str | None,
    opening: Opening = open_room,
    operations: Mapping[str, Operation] | None = None,
) -> int:
    """Serve one client over the wire until it goes; the exit code."""
    _log_to_stderr()
    record = None
    try:
        identity = identify(os.environ, agent)
        settings = load_for_command(find_config(config, os.environ, Path.cwd()))
        identity = as_attached(identity, settings, os.environ, Path.cwd())
        record = _record(settings, identity, wire)
        return asyncio.run(_serve(wire, settings, identity, record, opening, operations))
    except WrongUse as error:
        return _fail(str(error), WRONG_USE)
    except (ConfigError, BadKey, NoWay) as error:
        return _fail(str(error), COULD_NOT)
    finally:
        if record is not None:
            with contextlib.suppress(OSError):
                record.forget()


def _record(settings: Settings, identity: Identity, wire: stdio.Wire) -> Record:
    """Who started this process, written down for the hooks of its shells."""
    names = settings.agent_names
    agent = None if identity.agent is None else spelled(identity.agent, names)
    record = Record(
        settings.runtime_dir,
        identity.session,
        os.environ,
        agent=agent,
        key=identity.key,
        wire=(wire.reading, wire.writing),
    )
    try:
        record.write()
    except OSError as error:
        log.warning(
            "git's hooks will not know this session: its parent was not written down", error=str(error)
        )
    return record


def _fail(text: str, code: int) -> int:
    print(f"relay mcp: {text}", file=sys.stderr)
    return code


def _log_to_stderr() -> None:
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


async def _serve(
    wire: stdio.Wire,
    settings: Settings,
    identity: Identity,
    record: Record,
    opening: Opening,
    operations: Mapping[str, Operation] | None,
) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    why = no_address(settings)
    room = (
        _remote(settings, identity, record, why)
        if why is not None
        else DatabaseRoom(settings, identity, record, opening)
    )
    try:
        if isinstance(room, DatabaseRoom):
            carry = await _server(room, operations)
        else:
            await room.enter()
            carry = room.run
        serving = asyncio.create_task(stdio.serve(wire, carry), name="mcp")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        return 0
    except ExceptionGroup:
        log.exception("the connection broke")
        return COULD_NOT
    finally:
        await room.close()


def _remote(settings: Settings, identity: Identity, record: Record, why: StoreError) -> DaemonRoom:
    """The room through its daemon: this process does not know where the database is."""
    from relay.app.mcp.daemon_proxy import DaemonRoom

    gc.freeze()
    gc.enable()
    return DaemonRoom(settings, identity, record, why)


async def _server(room: DatabaseRoom, operations: Mapping[str, Operation] | None) -> Carry:
    """The server between the wire and the room's database. Raises BadKey, WrongUse."""
    make_server, registry = await asyncio.to_thread(_load)
    gc.freeze()
    gc.enable()
    room.open_soon()
    if room.has_key:
        await room.check_key()
    server = make_server(operations or registry, room.asking)
    options = server.create_initialization_options()
    return lambda read, write: server.run(read, write, options)


def _load() -> tuple[Callable[..., Any], Mapping[str, Operation]]:
    """What takes its time to import, off the loop: the database is opened meanwhile."""
    from relay.faces.mcp.server import make_server
    from relay.faces.operations.registry import OPERATIONS

    return make_server, OPERATIONS


class DatabaseRoom:
    """The room in its database, opened when it is first needed, and the caller of this process."""

    def __init__(self, settings: Settings, identity: Identity, record: Record, opening: Opening) -> None:
        self._settings, self._identity, self._opening = settings, identity, opening
        self._record = record
        self._room: asyncio.Task[OpenRoom] | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._caller: Caller | None = None
        self._beating: asyncio.Task[None] | None = None

    @property
    def has_key(self) -> bool:
        """Does the process show a key?"""
        return self._identity.key is not None

    async def check_key(self) -> None:
        """Refuse a bad key before a client is served. Raises BadKey, WrongUse. A database that takes long, or is
        away, is asked again at each call."""
        try:
            async with asyncio.timeout(CHECK_S):
                await self._whose(await asyncio.shield(self._open()))
        except (BadKey, WrongUse):
            raise
        except Exception as error:
            if not isinstance(error, TimeoutError) and trouble_of(error) is None:
                raise
            log.warning("the key is not checked yet: the database is busy or away", error=str(error))

    async def asking(self, context: Any) -> tuple[Services, Caller]:
        """Who asks, and what there is to ask. Raises Refusal."""
        room = await self._opened()
        try:
            caller = await self._whose(room)
        except (BadKey, WrongUse) as error:
            raise Refusal(str(error), "Set a valid RELAY_API_KEY.", Fault.FORBIDDEN, "bad_key") from None
        kind = caller.agent_type or _client_name(context) or "agent"
        self._caller = caller = replace(caller, agent_type=kind[:MAX_TYPE])
        if caller.process and self._beating is None:
            self._beating = asyncio.create_task(self._beat(room.services), name="heartbeat")
        return room.services, caller

    async def close(self) -> None:
        """Give back what the session holds, if it is the process's own, and close the database."""
        if self._soon is not None:
            self._soon.cancel()
        if self._beating is not None:
            self._beating.cancel()
        if self._room is None:
            # A client that only asked for the list of tools still leaves the room's database behind.
            await asyncio.wait({self._open()}, timeout=CHECK_S)
        assert self._room is not None
        if not self._room.done():
            self._room.cancel()
        with contextlib.suppress(BaseException):
            await self._room
        if self._room.cancelled() or self._room.exception() is not None:
            return
        room = self._room.result()
        try:
            if self._caller is not None and self._caller.process:
                async with asyncio.timeout(END_S):
                    await room.services.sessions.end(self._caller, reason="its process ended")
        except Exception as error:  # whatever it is, the process ends now
            log.warning("the session was not ended; its lease does that", error=str(error))
        finally:
            with contextlib.suppress(StoreError, OSError):
                await room.store.close()

    def open_soon(self) -> None:
        """Open the database when the client has what it asks for first, the list of tools, which needs none."""
        self._soon = asyncio.get_running_loop().call_later(PRELOAD_S, self._open)

    def _open(self) -> asyncio.Task[OpenRoom]:
        """Begin to open the database, where it is neither open nor about to be."""
        room = self._room
        if room is None or (room.done() and (room.cancelled() or room.exception() is not None)):
            room = self._room = asyncio.create_task(self._opening(self._settings), name="open")
        return room

    async def _opened(self) -> OpenRoom:
        opening = self._open()
        if opening.done():
            return opening.result()
        try:
            async with asyncio.timeout(OPEN_S):
                return await asyncio.shield(opening)
        except TimeoutError:
            message = "The database cannot be opened now: it is busy."
            raise Refusal(message, "Try again in a moment.", Fault.BUSY) from None

    async def _whose(self, room: OpenRoom) -> Caller:
        """Who speaks here, by the key or by the name that was said; `agent_type` empty: what the client says that it
        is. Raises BadKey, WrongUse."""
        identity, names = self._identity, self._settings.agent_names
        agent = None if identity.agent is None else spelled(identity.agent, names)
        kind, process = identity.agent_type, identity.process
        if identity.key is None:
            assert agent is not None, "identify() gives a key or an agent"
            return Caller(agent, identity.session, kind or "", process)
        key = await room.services.keys.find(identity.key)
        if key is None:
            raise BadKey(bad_key())
        if agent is not None and agent != key.identity:
            raise WrongUse(
                f"RELAY_API_KEY is {key.identity}'s, but RELAY_AGENT_ID (or --agent) says {identity.agent}. "
                "Leave the name out, or use that agent's own key."
            )
        person = key.agent_type == "person"
        if self._record.agent is None:
            await asyncio.to_thread(self._record.name, key.identity, person=person)
        return Caller(
            key.identity,
            identity.session,
            kind or key.agent_type,
            process,
            person=person,
            scopes=key.scopes,
            key=key.id,
        )

    async def _beat(self, services: Services) -> None:
        """Say that the process lives. What goes wrong is tried again: the lease has room for two."""
        every = self._settings.coordination.process_lease_s / 3
        while True:
            await asyncio.sleep(every)
            assert self._caller is not None, "the heart beats from the first call on"
            try:
                await services.sessions.touch(self._caller)
            except Exception as error:  # the next beat is in time, whatever this was
                log.warning("no heartbeat", error=str(error))


def _client_name(context: Any) -> str | None:
    """What the client says that it is (`claude-code`), if it said so."""
    params = context.session.client_params
    return None if params is None else str(params.client_info.name) or None

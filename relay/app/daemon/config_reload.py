"""config.json while the daemon runs: what was changed in it is taken over, and what cannot be is said.

Invariants: at any moment one change is read, written or taken over, so that of several at once none undoes
another; a change that takes a restart is announced once for each value it gets, not at every later change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import structlog

from relay.base.files import stamp_of
from relay.config import loading
from relay.config.loading import ConfigError
from relay.config.settings import LIVE, LiveSettings, Settings
from relay.model import Fault, Refusal
from relay.model.actions import RequireLanding

log = structlog.get_logger(__name__)
#: Seconds between two looks whether the file was changed.
LOOK_EVERY_S = 1.5


class Reconfigured(Protocol):
    """What stands above this module: the parts of the room."""

    async def take_over(self, before: Settings) -> None:
        """Make this the room of the settings that are in use now. `before`: those before."""
        ...

    async def notice(self, text: str) -> None:
        """Say it in the room."""
        ...


class Reload:
    """`settings` are those in use: the sections of `LIVE` as in the file, the others as at the start. `parts`
    are the room's, which take them over."""

    def __init__(self, settings: LiveSettings, parts: Reconfigured) -> None:
        self._settings, self._parts = settings, parts
        self._alone = asyncio.Lock()
        self._announced: dict[str, Any] = {}

    async def watch(self) -> None:
        """Look at the file for ever."""
        path = self._settings.current.path
        # Unlike any: what was saved while the daemon was starting is read once more, too.
        last: tuple[int, int, int] | None = None
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            stamp = await asyncio.to_thread(stamp_of, path)
            if stamp == last or stamp is None:
                continue
            last = stamp
            async with self._alone:
                await self._load(path)

    async def _load(self, path: Path) -> None:
        try:
            settings = await asyncio.to_thread(loading.load, path)
        except ConfigError as error:
            log.warning("configuration not taken over", problems=[str(p) for p in error.problems])
            await self._parts.notice(
                "The changed configuration cannot be used; the room continues with the old one.\n\n```\n"
                f"{error}\n```"
            )
            return
        await self._apply(settings)

    async def set_agent(self, agent: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Write an agent's settings into the file and take them over. Raises Refusal."""
        return await self._write(
            partial(loading.update_agent, self._settings.current.path, agent, changes), agent
        )

    async def require_landing(self, action: RequireLanding, *, by: str) -> dict[str, Any]:
        """Write whether agents' branches land by the queue only, and say so in the room. Raises Refusal."""
        path = self._settings.current.path
        done = await self._write(
            partial(loading.update_section, path, "landing", {"required": action.required})
        )
        how = (
            "by the landing queue only" if action.required else "by the landing queue, or are merged directly"
        )
        await self._parts.notice(f"Agents' branches now land {how} ({by} set it).")
        return done

    async def _write(self, update: Callable[[], Settings], agent: str = "") -> dict[str, Any]:
        path = self._settings.current.path
        async with self._alone:
            try:
                settings = await asyncio.to_thread(update)
            except ConfigError as error:
                # A problem of the file itself has no key, which says where it is.
                keyed = all(problem.key for problem in error.problems)
                message = "; ".join(map(str, error.problems)) if keyed else str(error)
                raise Refusal(message, "See docs/configuration.md.", Fault.MALFORMED) from error
            except KeyError:
                raise Refusal(
                    f"There is no agent {agent} in the configuration.", f"Add it to {path}.", Fault.UNKNOWN
                ) from None
            except OSError as error:
                raise Refusal(
                    f"{path} cannot be written: {error.strerror}.",
                    "Make it writable for the user that runs relay, and try again.",
                    Fault.BUSY,
                ) from error
            await self._apply(settings)
        return {"success": True}

    async def _apply(self, settings: Settings) -> None:
        before = self._settings.current
        changes = diff(before, settings)
        if changes.live:
            log.info("configuration changed", live=[change.key for change in changes.live])
            live = {name: getattr(settings, name) for name in LIVE}
            self._settings.current = replace(before, **live)
            await self._parts.take_over(before)
        waiting = {change.key: change.new for change in changes.restart}
        news = [
            key
            for key, value in waiting.items()
            if key not in self._announced or self._announced[key] != value
        ]
        self._announced = waiting
        if news:
            log.info("configuration changed", restart=news)
            keys = ", ".join(f"`{key}`" for key in news)
            await self._parts.notice(f"The configuration changed {keys}: this needs a restart.")


@dataclass(frozen=True, slots=True)
class Change:
    """One key that differs, agents by name: `agents.CLAUDE.model`; None stands for an agent not there."""

    key: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two settings: `live` applies while the daemon runs, `restart` does not."""

    live: tuple[Change, ...] = ()
    restart: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.live or self.restart)


def diff(old: Settings, new: Settings) -> Changes:
    """What changed from `old` to `new`, in the order of the keys; where the file is does not count."""
    live: list[Change] = []
    restart: list[Change] = []
    for each in fields(Settings):
        if each.name == "path":
            continue
        before, after = getattr(old, each.name), getattr(new, each.name)
        if each.name == "agents":
            before, after = ({agent.name: agent for agent in agents} for agents in (before, after))
        (live if each.name in LIVE else restart).extend(_changes(each.name, before, after))
    return Changes(tuple(live), tuple(restart))


def _changes(key: str, before: Any, after: Any) -> list[Change]:
    if before == after:
        return []
    if is_dataclass(before) and type(before) is type(after):
        before, after = (
            {each.name: getattr(side, each.name) for each in fields(side)} for side in (before, after)
        )
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            change
            for name in dict.fromkeys([*before, *after])
            for change in _changes(f"{key}.{name}", before.get(name), after.get(name))
        ]
    return [Change(key, before, after)]

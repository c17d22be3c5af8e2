"""What people order about explorations: to begin one, to take a variant, to end it without one.

Invariants: an order that cannot be carried out changes nothing; an order is one transaction, and what takes time is
done by `Explorer` afterwards. The same order twice is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from relay.config.settings import AgentSettings, Settings
from relay.log import events
from relay.log.events import NewEvent
from relay.merge.exploration import journal, wording
from relay.merge.exploration.config import FEWEST, MOST, ExplorationConfig, of_task
from relay.merge.exploration.journal import CHOSEN, OVER, Exploration, State, VariantRun, lane_of
from relay.model import Fault, Refusal
from relay.store.ports import Tx


def _wants(agent: AgentSettings) -> str:
    """Why this agent can do no variant; empty: it can."""
    if not agent.enabled:
        return "it is switched off in the configuration"
    from relay.airspace.worktrees.registry import EDITORS  # late: `relay explore list` needs no worktrees

    if agent.kind not in EDITORS:
        return f"an agent of the kind {agent.kind} changes no files"
    return "it may only read (`permissions`)" if agent.permissions == "read-only" else ""


def able_agents(settings: Settings) -> list[str]:
    """The room's agents that can do a variant, in their order."""
    return [agent.name for agent in settings.agents if not _wants(agent)]


def of_words(settings: Settings, count: int, task: str) -> ExplorationConfig:
    """The exploration of `/explore COUNT TASK`: the room's agents in turn. Raises Refusal."""
    agents = able_agents(settings)
    if not agents:
        raise Refusal("No agent of this room can change files.", "Add one to `agents` in the configuration.")
    if not FEWEST <= count <= MOST:
        raise Refusal(
            f"{count} variants are asked for; an exploration has {FEWEST} to {MOST}.", "", Fault.MALFORMED
        )
    return of_task(task, count, agents)


def whose(settings: Settings, config: ExplorationConfig) -> list[str]:
    """The agent of each variant: the one that it names, else the room's agents in turn. Raises Refusal."""
    able, turn, chosen = able_agents(settings), 0, list[str]()
    for variant in config.variants:
        if variant.agent is None:
            if not able:
                raise Refusal(
                    "No agent of this room can change files.", "Add one to `agents` in the configuration."
                )
            chosen.append(able[turn % len(able)])
            turn += 1
            continue
        chosen.append(_named(settings, variant.agent, variant.name))
    if config.reviewer is not None and settings.agent(config.reviewer) is None:
        raise _unknown(settings, config.reviewer, "the review")
    return chosen


def _named(settings: Settings, name: str, variant: str) -> str:
    names = {each.casefold(): each for each in settings.agent_names}
    agent = settings.agent(names.get(name.removeprefix("@").casefold(), ""))
    if agent is None:
        raise _unknown(settings, name, f"variant {variant}")
    if why := _wants(agent):
        raise Refusal(f"{agent.name} cannot do variant {variant}: {why}.", "Name another agent.")
    return agent.name


def _unknown(settings: Settings, name: str, where: str) -> Refusal:
    names = ", ".join(settings.agent_names) or "none"
    return Refusal(
        f"There is no agent {name[:60]} for {where}.", f"The room's agents: {names}.", Fault.MALFORMED
    )


async def begin(
    tx: Tx, settings: Settings, config: ExplorationConfig, *, by: str, cause: Sequence[str] = ()
) -> Exploration:
    """Order an exploration. Raises Refusal."""
    return await journal.order(tx, config, whose(settings, config), asker=by, cause=cause)


async def take(
    tx: Tx,
    number: int,
    variant: str,
    files: Mapping[str, str] | None = None,
    *,
    by: str,
    cause: Sequence[str] = (),
) -> str:
    """Let a variant win, with single files from others (`files`: path to variant); what the room says. Raises Refusal
    with the state as it is, where nobody can choose any more."""
    exploration = await journal.load(tx, number)
    runs = {run.name.casefold(): run for run in await journal.variants_of(tx, number)}
    winner = _variant(exploration, runs, variant)
    taken = {_path(path): _variant(exploration, runs, name).name for path, name in (files or {}).items()}
    same = (exploration.winner, exploration.taken) == (winner.name, taken)
    if same and exploration.state in (State.MERGING, State.DONE):
        return f"{exploration.name}: {winner.name} was chosen already."
    if exploration.state is not State.WAITING:
        raise Refusal(f"{exploration.name} waits for no choice: {_stands(exploration)}.", "")
    chosen = replace(
        exploration,
        state=State.MERGING,
        winner=winner.name,
        taken=taken,
        recommendation=f"{by} chose {winner.name}.",
        # Whoever takes the same again has seen the merged tree that it names.
        trouble=exploration.trouble if same else "",
    )
    await journal.save(tx, chosen)
    outputs = {"number": number, "by": by, "winner": winner.name, "taken": taken}
    await events.append(tx, NewEvent(CHOSEN, lane_of(number), outputs=outputs, parents=list(cause)))
    more = f", with {len(taken)} file{'s' * (len(taken) != 1)} from others" if taken else ""
    return f"{exploration.name}: {winner.name}{more} is merged now."


async def taken_by(tx: Tx, exploration: Exploration) -> str | None:
    """Who took its winner; None: its policy chose."""
    for event in await events.of_lane(tx, lane_of(exploration.number), CHOSEN, limit=1):
        if (event.outputs["winner"], event.outputs["taken"]) == (exploration.winner, exploration.taken):
            return str(event.outputs["by"])
    return None


async def end(tx: Tx, number: int, *, by: str, cause: Sequence[str] = ()) -> str:
    """End an exploration that waits for people, and merge nothing; what the room says. Raises Refusal."""
    exploration = await journal.load(tx, number)
    if exploration.state is State.ENDED:
        return f"{exploration.name} is ended already."
    if exploration.state is not State.WAITING:
        raise Refusal(f"{exploration.name} waits for no choice: {_stands(exploration)}.", "")
    ended = replace(exploration, state=State.ENDED, recommendation=f"{by} ended it.")
    await journal.finish(tx, ended, cause=cause)
    return wording.ended(ended)


def _variant(exploration: Exploration, runs: Mapping[str, VariantRun], name: str) -> VariantRun:
    run = runs.get(name.casefold())
    if run is None:
        names = ", ".join(each.name for each in runs.values())
        raise Refusal(f"{exploration.name} has no variant {name[:60]}.", f"It has {names}.", Fault.UNKNOWN)
    if run.at_commit is None and exploration.state is State.WAITING:
        raise Refusal(f"{run.name} has left nothing: {wording.standing(run)}.", "Take another variant.")
    return run


def _path(path: str) -> str:
    """A path of the repository, as git has it. Raises Refusal."""
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts:
        raise Refusal(f"{path[:200]!r} is no path within the repository.", "", Fault.MALFORMED)
    return str(pure)


def _stands(exploration: Exploration) -> str:
    if exploration.state is State.DONE:
        return f"{exploration.winner} was merged"
    return "it is ended" if exploration.state in OVER else f"it is {exploration.state}"

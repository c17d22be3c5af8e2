"""What the room can use but does not need: the local model and the agents' programs.

Invariant: nothing of this is ever a failure: without it the room falls back, and the steward answers.
"""

from __future__ import annotations

import asyncio
import shutil

from relay.agents.registry import presets
from relay.airspace.worktrees.registry import EDITORS
from relay.app.health.context import Check, CheckContext, ok, warning
from relay.app.worktrees.disk import measure, megabytes
from relay.base.ollama_client import explain, missing_model, no_model, open_client, shown_host
from relay.config.command_line import command
from relay.config.settings import AgentSettings
from relay.git.checkout import UnusableCheckout, head_of, open_checkout

OLLAMA_S = 5.0
#: Seconds for which the worktrees are measured.
MEASURE_S = 10.0


async def ollama(context: CheckContext) -> Check:
    """Does the dispatcher's model answer to its name?"""
    wanted = context.settings.dispatcher
    if not wanted.enabled:
        return ok("ollama", "not used: `dispatcher.enabled` is false")
    try:
        client = await open_client(wanted.ollama_host)
        try:
            async with asyncio.timeout(OLLAMA_S):
                missing = await missing_model(client, wanted.model)
        finally:
            await client.close()  # type: ignore[no-untyped-call]
    except Exception as error:
        # Whatever comes here (its client raises many kinds) is told, and is a warning by the rule above.
        trouble = explain(error, wanted.ollama_host, wanted.model, OLLAMA_S)
        return warning("ollama", trouble.sentence, trouble.fix)
    if missing:
        trouble = no_model(wanted.ollama_host, wanted.model)
        return warning("ollama", trouble.sentence, trouble.fix)
    return ok("ollama", f"{wanted.model} is there at {shown_host(wanted.ollama_host)}")


def agents(context: CheckContext) -> Check:
    """Is there the program of at least one enabled agent?"""
    enabled = [agent for agent in context.settings.agents if agent.enabled]
    missing = {agent.name: lack for agent in enabled if (lack := _lacks(agent))}
    there = [agent.name for agent in enabled if agent.name not in missing]
    texts = [f"{name}: {lack}" for name, lack in missing.items()]
    if not there:
        detail = "; ".join(["no agent can take a turn", *texts]) if enabled else "no agent is configured"
        fix = "Install one of their programs; until then the steward answers." if enabled else ""
        return warning("agents", detail, fix or "Add one to `agents` in config.json.")
    return ok("agents", "; ".join([f"{', '.join(there)} can take a turn", *texts]))


async def worktrees(context: CheckContext) -> Check:
    """Can agents have worktrees, or do they only read?"""
    settings = context.settings
    editors = [agent.name for agent in settings.agents if agent.enabled and agent.kind in EDITORS]
    if not settings.workspace.worktrees or not editors:
        why = "no agent can use one" if settings.workspace.worktrees else "`workspace.worktrees` is false"
        return ok("worktrees", f"not used: {why}")
    try:
        checkout = await open_checkout(settings.repo)
        head = await head_of(checkout.git)
    except UnusableCheckout as error:
        return warning("worktrees", f"agents only read: {error}", "Agents need git worktrees to edit.")
    if head.commit is None:
        detail = f"agents only read: {checkout.top} has no commit yet"
        return warning("worktrees", detail, "Make the first one.")
    if head.branch is None:
        detail = f"{checkout.top} is on no branch, so agents' work cannot be merged into it"
        return warning("worktrees", detail, "Check out the branch to merge into.")
    told = f"of {checkout.top}, which is on {head.branch}"
    cap = settings.worktrees.disk_cap_mb
    if cap is None:
        return ok("worktrees", told)
    size = await asyncio.to_thread(measure, settings.worktrees_dir, most_s=MEASURE_S)
    takes = f"they take {'' if size.whole else 'at least '}{megabytes(size.bytes)}"
    if size.bytes <= cap * 1_000_000:
        return ok("worktrees", f"{told}; {takes} of {megabytes(cap * 1_000_000)}")
    return warning(
        "worktrees",
        f"no new one is made: {takes}, and `worktrees.disk_cap_mb` allows {megabytes(cap * 1_000_000)}",
        f"{command('worktrees')} shows which are landed: remove one, or raise the limit.",
    )


def _lacks(agent: AgentSettings) -> str:
    """What an agent cannot run without; empty when it is there."""
    if agent.kind == "scripted":
        return "" if agent.script and agent.script.is_file() else f"its script {agent.script} is missing"
    if agent.kind != "command":
        return ""  # its model is asked for by `ollama` where it is the dispatcher's, else at its first turn
    preset = presets().get(agent.preset or "")
    program = agent.cmd[0] if agent.cmd else preset.program if preset else agent.name.lower()
    if shutil.which(program, path=agent.env.get("PATH")):
        return ""
    return f"{program} is not on the PATH" + (f" (`{preset.install}` installs it)" if preset else "")

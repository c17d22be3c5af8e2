"""`/land`, `/landing`, `/verify`, `/approve` and `/reject`: from what a person types to an action.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.model import actions, references
from relay.model.actions import Action
from relay.model.references import Thing
from relay.room.parsing.arguments import MAX_REASON, Command, WrongArguments, agents_of, number_of


def land(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    first, _, more = " ".join(rest.split()).partition(" ")
    if not first:
        return actions.ShowLanding()
    known = {name.casefold() for name in agents}
    words = rest.split()
    squash = len(words) > 1 and words[-1].lower() == "squash" and "squash" not in known
    if squash:
        rest = " ".join(words[:-1])
        first, _, more = rest.partition(" ")
    if first.lower() in ("all", "@all") and not more:
        return actions.Land(every=True, squash=squash)
    if first.lower() == "cancel" and more:
        chosen = agents_of(more, agents)
        if len(chosen) != 1:
            raise WrongArguments("Say whose branch to take out of the queue, one at a time.")
        return actions.TakeFromQueue(chosen[0])
    return actions.Land(agents_of(rest, agents), squash=squash)


def landing(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    words = rest.lower().rstrip(" .!").split()
    if len(words) != 2 or words[0] != "required" or words[1] not in ("on", "off"):
        raise WrongArguments("Say `required on` or `required off`.")
    return actions.RequireLanding(words[1] == "on")


def verify(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    word = rest.strip().rstrip(".,:")
    found = references.read(word, Thing.VERIFICATION)
    if found is not None:
        return actions.Verify(number_of(word, Thing.VERIFICATION))
    chosen = agents_of(rest, agents)
    if len(chosen) != 1:
        raise WrongArguments("Say what to verify: `v12`, or one agent.")
    return actions.Verify(agent=chosen[0])


def approve(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    if not rest.strip():
        return actions.Approve()
    return actions.Approve(number_of(rest.replace("# ", "#").strip(), Thing.APPROVAL))


def reject(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    number, _, reason = " ".join(rest.replace("# ", "#").split()).partition(" ")
    approval = number_of(number, Thing.APPROVAL)
    if not reason:
        raise WrongArguments("Say why: whoever asked is told.")
    if len(reason) > MAX_REASON:
        raise WrongArguments(f"The reason has {len(reason)} characters; the limit is {MAX_REASON}.")
    return actions.Reject(approval, reason)


COMMANDS = (
    Command(
        "/land [@AGENT... | all | cancel @AGENT]",
        "land agents' branches on the main branch by the queue, which tests them together; alone it shows the queue",
        "/land @CODEX",
        land,
    ),
    Command(
        "/landing required on | off",
        "let agents' branches land by the queue only, or be merged directly, too",
        "/landing required on",
        landing,
    ),
    Command(
        "/verify v<number> | @AGENT",
        "verify something again, or an agent's work as it stands",
        "/verify v3",
        verify,
    ),
    Command(
        "/approve [a<number>]",
        "agree to a change that waits for it; alone it shows what waits",
        "/approve a3",
        approve,
    ),
    Command(
        "/reject a<number> <reason>",
        "do not agree to a change that waits for it",
        "/reject a3 it has a key in it",
        reject,
    ),
)

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
    if not rest.strip():
        return actions.ShowLanding()
    known = {name.casefold() for name in agents}
    words, how = rest.split(), set[str]()
    while len(words) > 1 and (last := words[-1].lower()) in ("squash", "anyway") and last not in known:
        how.add(last)
        words.pop()
    rest = " ".join(words)
    first, _, more = rest.partition(" ")
    squash, anyway = "squash" in how, "anyway" in how
    if first.lower() in ("all", "@all") and not more:
        return actions.Land(every=True, squash=squash, anyway=anyway)
    if first.lower() == "cancel" and more:
        chosen = agents_of(more, agents)
        if len(chosen) != 1:
            raise WrongArguments("Say whose branch to take out of the queue, one at a time.")
        return actions.TakeFromQueue(chosen[0])
    return actions.Land(agents_of(rest, agents), squash=squash, anyway=anyway)


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
        "/land [@AGENT... | all | cancel @AGENT] [anyway]",
        "land agents' branches on the main branch by the queue, which tests them together; alone it shows the queue; "
        "`anyway`: although one undoes what another landed, or brings back what somebody took back",
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

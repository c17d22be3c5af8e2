"""The names of the branches that relay makes for its agents: `tw/<user>/<role>[-<more>]` (003, section 3.2).

Invariants:
- one function writes such a name, of words that git and every disk take: lower case, letters, digits, `_` and `-`;
- a branch that git could not have beside those that are there is told by name before anything is made.
"""

from __future__ import annotations

import re
import unicodedata

from relay.git.checkout import Checkout
from relay.git.run import Git
from relay.git.signing import name_of_person, system_user

AGENTS = "tw/"
#: What agents' branches began with before they had these names. One that is there goes on.
FORMER = "relay/"
#: Characters of a word.
_MOST = 60


def agent_branch(user: str, role: str, *more: str) -> str:
    """The branch of an agent. `user`: a person's name (`branch_user`); `role`: the agent's, or its name where it has
    none; `more`: what tells it from others of this role, such as the agent's name, or a handoff, `retry` and a
    number. Pure."""
    return f"{AGENTS}{_word(user)}/{'-'.join(_word(part) for part in (role, *more))}"


def _word(text: str) -> str:
    """A name as a part of a ref. Accents go, so that a disk that writes them in another way has the same name."""
    # Twice: what is taken apart may have capitals in it.
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    plain = "".join(char for char in apart.casefold() if not unicodedata.combining(char))
    word = re.sub(r"\W+", "-", unicodedata.normalize("NFC", plain))[:_MOST].strip("-_")
    return word or "someone"


async def branch_user(main: Checkout) -> str:
    """Whose agents these are: the person's name as git has it in this checkout; without one, the system's user."""
    return await name_of_person(main) or system_user()


async def branch_in_the_way(git: Git, branch: str) -> str | None:
    """The branch beside which git cannot have this one: a part of its path, one below it, or the same name in other
    letters, which on many disks is the same file. None: it is free, or there. Raises GitError."""
    named = (await git.line("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/")).split("\n")
    wanted = branch.split("/")
    for name in named:
        if not name or name == branch:
            continue
        for part, other in zip(name.split("/"), wanted, strict=False):
            if part != other:
                if part.casefold() == other.casefold():
                    return name
                break
        else:
            return name
    return None

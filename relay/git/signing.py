"""Who a commit of relay's names: the person who merges, and the agent whose work it is.

Invariant: a person is whoever git itself finds in their checkout (its environment and its configuration, the person's
own included), never a guess of the user and the host. Asking runs nothing.
"""

from __future__ import annotations

import getpass
import os
import re
from dataclasses import dataclass

from relay.git.checkout import Checkout
from relay.git.environment import PLACE
from relay.git.run import Git, GitError

#: What leads git to another repository than the one that is asked about.
_PLACE = frozenset({*PLACE, "GIT_CEILING_DIRECTORIES", "GIT_NAMESPACE"})
_SIGNED = re.compile(r"(?P<name>.+) <(?P<email>[^<>\s]+)> \d+ [+-]\d+")


@dataclass(frozen=True, slots=True)
class Signature:
    """A name and an address, as in a commit."""

    name: str
    email: str

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


def signed(author: Signature, committer: Signature) -> dict[str, str]:
    """git's variables for a commit."""
    return {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_COMMITTER_NAME": committer.name,
        "GIT_COMMITTER_EMAIL": committer.email,
    }


def of_relay(name: str) -> Signature:
    """Somebody whom only the room knows: an agent, or a person without a name in git."""
    clean = "".join(char for char in name if char.isprintable() and char not in "<>").strip() or "relay"
    return Signature(clean, f"{clean.replace(' ', '.').lower()}@relay")


async def of_person(checkout: Checkout) -> Signature | None:
    """Who commits in this checkout, as `git commit` would sign there; None: nobody has told git."""
    try:
        ident = await _of_the_person(checkout).line("var", "GIT_COMMITTER_IDENT")
    except GitError:
        return None
    match = _SIGNED.fullmatch(ident)
    return Signature(match["name"], match["email"]) if match else None


async def of_named(checkout: Checkout, name: str) -> Signature:
    """A person of the room: as git knows them, where it knows one of that name."""
    known = await of_person(checkout)
    return known if known is not None and known.name.casefold() == name.casefold() else of_relay(name)


async def name_of_person(checkout: Checkout) -> str | None:
    """The name of who commits in this checkout, also of somebody without an address; None: git knows none."""
    if signature := await of_person(checkout):
        return signature.name
    return await _of_the_person(checkout).maybe("config", "--get", "user.name")


def system_user() -> str:
    """The system's user, as far as it has a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "someone"


def _of_the_person(checkout: Checkout) -> Git:
    """git with the person's own configuration."""
    env: dict[str, str | None] = {name: value for name, value in os.environ.items() if name not in _PLACE}
    # What every other call of ours hides: here a person's own configuration is the question.
    for name in ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL"):
        env.setdefault(name, None)
    return Git(checkout.top, {**env, "LC_ALL": "C"}, ("user.useConfigOnly=true",))

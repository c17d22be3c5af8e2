"""The policies of a room: those of its folder's files, and those that people made by HTTP.

Invariant: no two have one name; a folder with a fault makes all of them unusable, and says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from relay.config.settings import LiveSettings
from relay.log.encoding import dumps
from relay.model import Fault, Refusal
from relay.store.ports import Store, Tx
from relay.verification.journal import Q
from relay.verification.policies import Policy
from relay.verification.policy_files import BadPolicies, load_policies, read_policies

#: How errors name what people sent.
SENT = "policy"


class Policies:
    """`settings`: say where the files are."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._store, self._settings = store, settings

    @property
    def folder(self) -> Path:
        return self._settings.current.policies_dir

    async def all(self) -> tuple[Policy, ...]:
        """All of them, by their names. Raises BadPolicies, OSError."""
        files = await asyncio.to_thread(load_policies, self.folder)
        return merged(files, await self._store.read(made_policies))

    async def known(self) -> tuple[Policy, ...]:
        """As `all`, for whoever asks. Raises Refusal."""
        try:
            return await self.all()
        except BadPolicies as error:
            message = f"The policies of {self.folder} cannot be used: {error}"
            raise Refusal(message, "Mend these files.", code="bad_policies") from None
        except OSError as error:
            raise Refusal(
                f"{self.folder} cannot be read: {error.strerror}.", "", code="bad_policies"
            ) from None

    async def are_there(self, tx: Tx) -> bool:
        """Is there any, good or with a fault?"""
        if await tx.all(Q.policies):
            return True
        try:
            return any(path.suffix in (".yaml", ".yml") for path in self.folder.iterdir())
        except OSError:
            return False

    async def add(self, values: Any, by: str) -> Policy:
        """Make a policy of a JSON value. Raises Refusal."""
        try:
            (policy,) = read_policies(yaml.safe_dump(values, sort_keys=False), SENT)
        except BadPolicies as error:
            told = " ".join(f"{text[:1].upper()}{text[1:].rstrip('.')}." for _, _, text in error.problems[:5])
            raise Refusal(told, "docs/verification.md has the keys of a policy.", Fault.MALFORMED) from None
        except (ValueError, yaml.YAMLError):
            raise Refusal(
                "A policy is one JSON object.", "See docs/verification.md.", Fault.MALFORMED
            ) from None
        known = await self.known()
        if any(policy.name.casefold() == each.name.casefold() for each in known):
            fix = "Give it another name; DELETE /policies/NAME takes one away that was sent."
            raise Refusal(f"There is a policy called {policy.name!r} already.", fix, code="policy_exists")
        said = {key: value for key, value in policy.as_json().items() if value not in (None, [], "")}
        row = {"name": policy.name, "policy": dumps(said), "maker": by}

        async def work(tx: Tx) -> int:
            return await tx.execute(Q.put_policy, **row, at=await tx.now())

        if not await self._store.write(work, durable=True):
            raise Refusal(f"There is a policy called {policy.name!r} already.", "", code="policy_exists")
        return policy

    async def drop(self, name: str) -> None:
        """Take one away that was made by `add`. Raises Refusal."""
        if not await self._store.write(lambda tx: tx.execute(Q.drop_policy, name=name), durable=True):
            fix = f"Those of files stand in {self.folder}."
            raise Refusal(f"There is no policy {name[:64]!r} that was sent.", fix, Fault.UNKNOWN)


async def made_policies(tx: Tx) -> list[Policy]:
    """Those that people made by HTTP."""
    return [_policy(row["name"], row["policy"]) for row in await tx.all(Q.policies)]


def merged(files: Sequence[Policy], made: Sequence[Policy]) -> tuple[Policy, ...]:
    """All by their names. Raises BadPolicies: a file has a name that was sent."""
    names = {policy.name.casefold(): policy for policy in made}
    problems = []
    for policy in files:
        if policy.name.casefold() in names:
            file, _, line = policy.at.rpartition(":")
            text = f"the name {policy.name!r} is taken: POST /policies made one. Rename it, or take that one away"
            problems.append((file, int(line), text))
    if problems:
        raise BadPolicies(problems)
    return tuple(sorted((*files, *made), key=lambda policy: policy.name.casefold()))


def _policy(name: str, text: str) -> Policy:
    (policy,) = read_policies(text, f"POST /policies {name}")
    return policy

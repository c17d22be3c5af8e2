"""The credential of a request, from its key or cookie, and the name that the credential speaks under.

Invariants:
- nobody takes the name of an agent or of the room: a credential without an identity may name any other person, one
  with an identity only itself (INTERFACES.md, "HTTP");
- keys are compared in constant time, and no secret is in an error, a log line or an event;
- an API key opens no session of the page: it stays within its scopes.
"""

from __future__ import annotations

import getpass
import hmac
import os
import secrets
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from relay.access import page_sessions
from relay.access.keys import Keys
from relay.base.files import TOKEN_BYTES, read_regular
from relay.model import ADMIN, SCOPES, Fault, Refusal
from relay.model.speaker_names import MAX_NAME, clean_name, is_reserved
from relay.store.ports import Store

#: A token shorter than this was made by hand, and could be guessed.
MIN_TOKEN = 32


class TokenError(Exception):
    """The token's file cannot be used; the message says what to do."""


class CredentialKind(StrEnum):
    """The kind of a credential."""

    TOKEN = "token"
    SESSION = "session"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class Credential:
    """The proven identity of a caller. `key` tells credentials apart (for limits) and is no secret.

    `identity`: the one name that it speaks for; None = any person's. `renewed`: send the cookie anew. `agent_type`:
    what an API key's identity is; `scopes`: what it allows.
    """

    kind: CredentialKind
    key: str
    identity: str | None = None
    renewed: bool = False
    agent_type: str = "person"
    scopes: frozenset[str] = SCOPES | {ADMIN}

    @property
    def person(self) -> bool:
        """Is the caller a person?"""
        return self.agent_type == "person"

    def allows(self, scope: str) -> bool:
        return not scope or scope in self.scopes


def ensure_token(path: Path, token: str = "") -> str:
    """The room's token, made when there is none: 256 random bits (or this `token`) in a file that only its owner
    reads.

    Several processes that make it at the same time get the same token. Blocks for a moment. Raises TokenError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.path.lexists(path):
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600
        try:
            with os.fdopen(handle, "w") as file:
                file.write((token or secrets.token_urlsafe(32)) + "\n")
                file.flush()
                os.fsync(file.fileno())
            # A link, not a rename: it fails when another process was first. Then that process's token counts.
            Path(path).hardlink_to(temporary)
        except FileExistsError:
            pass
        finally:
            Path(temporary).unlink()
    try:
        token = read_regular(path, TOKEN_BYTES).decode("ascii").strip()
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(
            f"{path} cannot be read: {error}; remove it, and the next start makes a new one"
        ) from None
    if len(token) < MIN_TOKEN or not token.isprintable() or " " in token:
        raise TokenError(f"{path} has no token; remove it, and the next start makes a new one")
    return token


class Auth:
    """The credentials of one room. Its token may be replaced while it runs."""

    def __init__(self, token: str, store: Store, *, keys: Keys | None = None) -> None:
        self.token = token
        #: The token that the key was made of, and that key.
        self._keyed = ("", "")
        self.store = store
        self.keys = keys or Keys(store)

    @property
    def _token_key(self) -> str:
        # Another one with each token, so that what the old one opened does not outlive it.
        if self._keyed[0] != self.token:
            self._keyed = self.token, f"token-{page_sessions.digest(self.token)[:16]}"
        return self._keyed[1]

    def is_token(self, key: str) -> bool:
        """Is it the room's token?"""
        return hmac.compare_digest(key.encode("utf-8", "surrogateescape"), self.token.encode())

    async def of_key(self, key: str) -> Credential | None:
        """The credential of a key that a program sent."""
        if self.is_token(key):
            return Credential(CredentialKind.TOKEN, self._token_key)
        api_key = await self.keys.find(key)
        if api_key is None:
            return None
        return Credential(
            CredentialKind.KEY,
            api_key.id,
            api_key.identity,
            agent_type=api_key.agent_type,
            scopes=api_key.scopes,
        )

    async def of_cookie(self, secret: str) -> Credential | None:
        """The credential of a page's cookie."""
        session = await page_sessions.find_session(self.store, secret)
        if session is None:
            return None
        return Credential(CredentialKind.SESSION, session.digest, renewed=session.renewed)

    async def holds(self, credential: Credential) -> bool:
        """Is it still good? The token is until the room has another, an API key until it is revoked or over, a page's
        session until it ends."""
        if credential.kind is CredentialKind.TOKEN:
            return credential.key == self._token_key
        if credential.kind is CredentialKind.KEY:
            return await self.keys.alive(credential.key)
        return await page_sessions.is_alive(self.store, credential.key)

    async def new_link(self) -> str:
        """The secret of a new sign-in link."""
        return await page_sessions.new_link(self.store)

    async def sign_in(self, *, link: str | None = None, key: str | None = None) -> str | None:
        """The secret of a new session, for a good link or a good key; None for a bad one."""
        if link is not None:
            return await page_sessions.exchange_link(self.store, link)
        if key is not None and self.is_token(key):
            return await page_sessions.new_session(self.store)
        return None

    async def sign_out(self, credential: Credential) -> None:
        """End a page's session. A key has none."""
        if credential.kind is CredentialKind.SESSION:
            await page_sessions.end_session(self.store, credential.key)


def speaker(
    credential: Credential,
    claims: Mapping[str, str | None],
    reserved: Collection[str],
    default: str,
    *,
    most: int = MAX_NAME,
) -> str:
    """The name that this credential speaks under.

    `claims`: what the request says of itself (`name`, `agent_id`). `reserved`: the names of the agents and of
    the room; `most`: characters of a name. Raises Refusal: 403 for a name that is not its own to use, 400 for one
    that is none.
    """
    claimed = {field: value.strip() for field, value in claims.items() if value is not None}
    if credential.identity is not None:
        for field, value in claimed.items():
            if value != credential.identity:
                raise Refusal(
                    f"This key is {credential.identity}'s; {field} names another.",
                    f"Leave {field} out, or use the key of the other one.",
                    Fault.FORBIDDEN,
                    "foreign_identity",
                )
        return credential.identity
    if len(set(claimed.values())) > 1:
        raise Refusal("name and agent_id differ.", "Give one of them.", Fault.MALFORMED)
    name = next(iter(claimed.values()), default)
    return person(name, reserved, most=most)


def person(name: str, reserved: Collection[str], *, most: int = MAX_NAME) -> str:
    """The name of a person as the room shows it; the room's own rules. Raises Refusal as `speaker` does."""
    try:
        clean = clean_name(name, most=most)
    except ValueError as error:
        raise Refusal(str(error), "Take another name.", Fault.MALFORMED, "bad_name") from None
    if is_reserved(clean, reserved):
        raise Refusal(
            f"Nobody can post as {clean}: an agent or the room has that name.",
            "Take another name.",
            Fault.FORBIDDEN,
            "reserved",
        )
    return clean


def owner() -> str:
    """The speaker of a request that names nobody: the person who runs the room, since the key is theirs."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "someone"

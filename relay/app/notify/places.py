"""The places outside that are told what needs people, as the configuration and the environment have them.

Invariant: an address and a secret are in no text but the request itself: whoever knows one can write there, so every
message names a place by its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from relay.config.notify import NotifySettings, default_name, secret_trouble, url_trouble


@dataclass(frozen=True, slots=True)
class Place:
    """`kinds`: empty = all; `page`: "" = the room's own address; `signs`: the configuration says so. `trouble`: why
    nothing can be sent, "" = it can."""

    name: str
    format: str
    url: str = field(repr=False)
    secret: str = field(repr=False)
    kinds: frozenset[str] = frozenset()
    page: str = ""
    trouble: str = ""
    signs: bool = False

    def wants(self, kind: str) -> bool:
        return not self.kinds or kind in self.kinds

    @property
    def host(self) -> str:
        """Where it is, without what opens it."""
        return urlsplit(self.url).hostname or "" if self.url else ""

    def clean(self, text: str) -> str:
        """`text` without the parts of the address and the secret that open the place."""
        parts = urlsplit(self.url)
        hidden = [self.secret, self.url, parts.query, parts.path, parts.password or ""]
        hidden += [unquote(piece) for piece in parts.path.split("/") if len(piece) > 3]
        for each in sorted((each for each in hidden if len(each) > 1), key=len, reverse=True):
            text = text.replace(each, "…")
        return text


def places_of(
    told: Iterable[NotifySettings], environ: Mapping[str, str] | None = None, *, of: str = "the room"
) -> tuple[Place, ...]:
    """The places of a configuration. What stands in a variable that is not set is a place's trouble. `of`: whose
    environment this is, in words."""
    variables = os.environ if environ is None else environ
    return tuple(_place(each, variables, f"is not set in the environment of {of}") for each in told)


def _place(told: NotifySettings, environ: Mapping[str, str], unset: str) -> Place:
    url, secret, trouble = told.url or "", told.secret or "", ""
    if told.url_env is not None:
        url = environ.get(told.url_env, "").strip()
        why = url_trouble(url, told.format) if url else unset
        trouble, url = (f"{told.url_env} {why}", "") if why else ("", url)
    if told.secret_env is not None and not trouble:
        secret = environ.get(told.secret_env, "").strip()
        why = secret_trouble(secret) if secret else unset
        trouble = f"{told.secret_env} {why}" if why else ""
    name = told.name or default_name(told.url, told.url_env)
    signs = told.secret is not None or told.secret_env is not None
    return Place(name, told.format, url, secret, frozenset(told.kinds), told.page or "", trouble, signs)

"""The configuration of who outside is told what needs people (`notify`, docs/inbox.md).

Invariant: no text of a problem shows an address or a secret. Whoever knows either can write there.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from relay.config.checks import Problem, setting

Format = Literal["json", "ntfy", "slack"]
#: As in relay.app.needs.need, which stands above this module and cannot be asked; a test holds the two together.
NeedKind = Literal[
    "collision",
    "permission",
    "approval",
    "conflict",
    "failed_agent",
    "budget",
    "unanswered",
    "task",
    "answered",
    "question",
    "silent",
    "handoff",
    "exploration",
    "held",
    "main_fails",
    "not_landed",
    "settled",
    "setup_failed",
    "app_ended",
]
#: What a secret of the Standard Webhooks begins with, and its bytes.
SECRET_MARK = "whsec_"
SECRET_BYTES = (24, 64)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: What ntfy takes for a topic.
_TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}")


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """One place outside that is told what needs people."""

    url: str | None = setting(
        "the address that it is posted to (for `ntfy`: with the topic); whoever knows it can post there", None
    )
    url_env: str | None = setting("the environment variable that has the address, instead of `url`", None)
    name: str | None = setting(
        "its name in the log, the health check and `relay notify`; null = the host of the address; unique",
        None,
    )
    format: Format = setting(
        "`json` = the need as `GET /api/needs` has it; `ntfy` = a message for https://ntfy.sh or a server like it; "
        "`slack` = an incoming webhook of Slack, or of what takes the same",
        "json",
    )
    kinds: tuple[NeedKind, ...] = setting("kinds of needs that are told there; [] = all", ())
    secret: str | None = setting(
        "what the messages are signed with: 24 to 64 bytes in base64, `whsec_` before them; null = with nothing",
        None,
    )
    secret_env: str | None = setting(
        "the environment variable that has the secret, instead of `secret`", None
    )
    page: str | None = setting(
        "the address of the room's page as whoever is told can open it; null = the room's own", None
    )


def notify_problems(tree: Mapping[str, Any]) -> list[Problem]:
    """What types cannot say of `notify`."""
    told = tree.get("notify")
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for index, place in enumerate(told if isinstance(told, list) else []):
        if isinstance(place, dict):
            problems += _place_problems(place, f"notify[{index}]", seen, index)
    return problems


def _place_problems(place: dict[str, Any], at: str, seen: dict[str, int], index: int) -> list[Problem]:
    problems: list[Problem] = []
    url, secret = place.get("url"), place.get("secret")
    for plain, variable, what in (("url", "url_env", "the address"), ("secret", "secret_env", "the secret")):
        if place.get(plain) is not None and place.get(variable) is not None:
            problems.append(Problem(f"{at}.{plain}", f"found beside {variable}", "one of the two"))
        name = place.get(variable)
        if isinstance(name, str) and not _VARIABLE.fullmatch(name):
            # Not shown: a person may have put the text itself there.
            problems.append(
                Problem(f"{at}.{variable}", "is no variable's name", f"the variable that has {what}")
            )
    if url is None and place.get("url_env") is None:
        problems.append(
            Problem(f"{at}.url", "is missing", 'an address, or a variable that has it ("url_env")')
        )
    if isinstance(url, str) and (why := url_trouble(url, place.get("format", "json"))):
        problems.append(Problem(f"{at}.url", why, "https://HOST/PATH"))
    page = place.get("page")
    if isinstance(page, str) and (why := url_trouble(page, "json")):
        problems.append(Problem(f"{at}.page", why, "https://HOST/"))
    if isinstance(secret, str) and (why := secret_trouble(secret)):
        problems.append(Problem(f"{at}.secret", why, "make one: echo whsec_$(openssl rand -base64 32)"))
    name = place.get("name")
    if isinstance(name, str) and not _NAME.fullmatch(name):
        rule = "A-Z, a-z, 0-9, ., _ and -, a letter or digit first, 40 at most"
        problems.append(Problem(f"{at}.name", "is no name", rule))
    elif name is None or isinstance(name, str):
        called = name or default_name(url if isinstance(url, str) else None, place.get("url_env"))
        if called in seen:
            what = f'found "{called}", the name of notify[{seen[called]}] too'
            problems.append(Problem(f"{at}.name", what, "a name of its own", 'give "name"'))
        seen.setdefault(called, index)
    return problems


def default_name(url: str | None, variable: object) -> str:
    """What a place is called that has no name: by its host, else by the variable that has its address."""
    host = ""
    if url is not None:
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:
            host = ""
    return host[:40] or str(variable or "")[:40]


def url_trouble(url: str, format: object) -> str:
    """Why nothing can be posted to this address; "" = it can. The address is not in the text."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no address"
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        return "is no address of a server over http or https"
    if format == "ntfy" and not _TOPIC.fullmatch(parts.path.rstrip("/").rpartition("/")[2]):
        return "names no topic at its end"
    return ""


def secret_trouble(secret: str) -> str:
    """Why nothing can be signed with it; "" = it can. The secret is not in the text."""
    low, high = SECRET_BYTES
    rule = f"is no secret: {low} to {high} bytes in base64, with or without {SECRET_MARK} before them"
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_MARK), validate=True)
    except (binascii.Error, ValueError):
        return rule
    return "" if low <= len(key) <= high else rule

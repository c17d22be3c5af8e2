"""What a place outside is sent: its body by its format, and its signature.

Invariant: a text of an agent's is short and one line; where people are shown it (ntfy, slack) it is plain text, and
nothing in it names somebody to be called or is a link. Pure.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from relay.app.needs.need import MOST_TEXT, Kind, Need
from relay.app.notify.places import Place
from relay.base.terminal_text import safe_line
from relay.config.notify import SECRET_MARK

Json = dict[str, Any]
#: Characters of a title and of the room's name.
MOST_TITLE, MOST_NAME = 120, 80
#: Characters that Slack takes in a header at most; it refuses the whole message otherwise.
SLACK_HEADER = 150
#: ntfy's priorities: 3 is its usual one, 4 makes itself heard.
USUAL, URGENT = 3, 4


def body_of(place: Place, need: Need, room: str, page: str) -> tuple[str, bytes]:
    """The address that it is posted to, and the body. `page`: the address of the room's page, "" = none is known."""
    link = f"{page.rstrip('/')}/#/needs" if page else ""
    title = safe_line(f"{need.kind.called}: {need.about} ({room})", MOST_TITLE)
    text = safe_line(need.text, MOST_TEXT)
    value: Json
    url = place.url
    match place.format:
        case "ntfy":
            url, topic = _topic(url)
            priority = URGENT if need.kind.urgent else USUAL
            value = {"topic": topic, "title": _inert(title), "message": _inert(text), "priority": priority}
            value |= {"tags": [need.kind.value], **({"click": link} if link else {})}
        case "slack":
            value = _slack(_inert(title), _inert(text), link)
        case _:
            value = {
                "type": "need",
                **need.as_json(),
                "room": safe_line(room, MOST_NAME),
                "url": link or None,
            }
    return url, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def headers_of(place: Place, id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers of the Standard Webhooks: the same `id` for the same need, `at` in Unix seconds when it is sent."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "relay",
        "webhook-id": id,
        "webhook-timestamp": str(at),
    }
    if place.secret:
        headers["webhook-signature"] = signature(place.secret, id, at, body)
    return headers


def signature(secret: str, id: str, at: int, body: bytes) -> str:
    """`v1,BASE64`: HMAC-SHA256 over `id.at.body`, with the key that stands behind `whsec_`."""
    key = base64.b64decode(secret.removeprefix(SECRET_MARK))
    signed = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def trial(now: float) -> Need:
    """What `relay notify test` sends."""
    return Need("test", Kind.QUESTION, now, "relay", "This is a test: what needs people is told here.")


def _topic(url: str) -> tuple[str, str]:
    """ntfy takes JSON at its root, and the topic in it."""
    parts = urlsplit(url)
    root, _, topic = parts.path.rstrip("/").rpartition("/")
    return urlunsplit((parts.scheme, parts.netloc, f"{root}/", parts.query, "")), topic


def _slack(title: str, text: str, link: str) -> Json:
    """Blocks of plain text, and `text` for whoever shows no blocks, and for the notification itself."""
    blocks: list[Json] = [
        {"type": "header", "text": {"type": "plain_text", "text": title[:SLACK_HEADER], "emoji": False}},
        {"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}},
    ]
    said = f"{_escaped(title)}\n{_escaped(text)}"
    if link:
        shown = f"<{_escaped(link)}|Open the inbox>"
        blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": shown}]})
        said += f"\n{_escaped(link)}"
    return {"text": said, "mrkdwn": False, "blocks": blocks, "unfurl_links": False}


def _escaped(text: str) -> str:
    """Slack reads `<...>` as a link or a call of a group."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _inert(text: str) -> str:
    """Programs that show a plain text call people by `@here` in it, and make a link of what looks like an address."""
    return re.sub(r"@|://|\.(?=\w)", "\\g<0>\u200b", text)

"""A sign-in link of the running room, asked for over HTTP.

Invariant: nothing but the daemon's address and the room's token is needed, so that it works wherever the room's
database is; the token goes to the address that the daemon itself wrote down. It makes no token: where the file was
removed or replaced, the daemon sees it in a moment, which is waited for.
"""

from __future__ import annotations

import json
import time
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

from relay.app.runtime.daemon_requests import ask_daemon
from relay.base.files import stamp_of
from relay.faces.http.requests.auth import TokenError, ensure_token

#: Seconds that the room may take: making a link is one short write.
ANSWER_S = 15.0
#: Seconds that a token which was removed or replaced is waited for: the daemon looks every two.
TOKEN_S = 5.0


class NoLink(Exception):
    """There is no link; the message says why and what to do."""


def new_link(url: str, token_path: Path) -> str:
    """A link that works once. Blocks. Raises NoLink."""
    give_up = time.monotonic() + TOKEN_S
    while True:
        over = time.monotonic() > give_up
        try:
            if stamp_of(token_path) is not None:
                answer = ask_daemon(
                    f"{url}/api/links", timeout_s=ANSWER_S, key=ensure_token(token_path), body={}
                )
                return str(answer["url"])
            if over:
                raise NoLink(f"{token_path} is missing, and the running room has not written it again")
        except TokenError as error:
            raise NoLink(str(error)) from None
        except HTTPError as error:
            if error.code != 401 or over:
                raise NoLink(f"the room at {url} gave no link: {_error_text(error)}") from None
        except (OSError, HTTPException, ValueError, KeyError) as error:
            raise NoLink(f"the room at {url} does not answer ({getattr(error, 'reason', error)})") from None
        time.sleep(TOKEN_S / 20)


def _error_text(error: HTTPError) -> str:
    """The room's own words, as far as it has any."""
    try:
        refusal = json.loads(error.read())["error"]
        return f"{refusal['message']} {refusal.get('fix') or ''}".strip()
    except (OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return f"HTTP {error.code}"

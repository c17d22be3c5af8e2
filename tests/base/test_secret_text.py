"""Keys and tokens are told by their form."""

from __future__ import annotations

import secrets
import uuid

import pytest

from relay.access import keys
from relay.base.secret_text import digest_of, has_secret, secrets_in


def test_relays_own() -> None:
    for _ in range(50):
        key = f"rk_{secrets.token_hex(8)}_{secrets.token_urlsafe(32)}"
        assert keys._KEY.fullmatch(key)
        assert has_secret(f'{{"run": "curl -H X-API-Key:{key}"}}')
        assert has_secret(f"http://127.0.0.1:80/#link={secrets.token_urlsafe(32)}")
        token = secrets.token_urlsafe(32)
        assert has_secret(f"see {token}.", [token])


@pytest.mark.parametrize(
    "text",
    [
        "sk-" + "aB3" * 10,
        "ghp_" + "a" * 36,
        "github_pat_" + "a" * 60,
        "AKIA" + "A1" * 8,
        "xoxb-" + "1" * 24,
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "postgresql://ann:hunter2@db.example.org/x",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    ],
)
def test_others(text: str) -> None:
    assert has_secret(f"it is {text}, I think")


def test_what_is_none() -> None:
    for text in (
        uuid.uuid4().hex,
        secrets.token_hex(32),
        "refs/relay/snapshots/CLAUDE/" + "0" * 40,
        "https://example.org/a?b=c:d@e",
        "task-12 sk-learn disk-usage-of-a-very-long-name",
        "",
    ):
        assert not has_secret(text, [""])


def test_a_digest_lets_one_text_pass() -> None:
    pem = "-----BEGIN RSA PRIVATE KEY-----\n"
    texts = (f"{pem}an example", f"{pem}of somebody", "sk-" + "a" * 40, "postgres://me:example@db/x")
    digests = {text: {*secrets_in(f"see {text}")} for text in texts}
    assert len({frozenset(found) for found in digests.values()}) == len(texts), "keys begin alike"
    for text, found in digests.items():
        assert not has_secret(f"see {text}", [], found)
        assert all(has_secret(f"see {other}", [], found) for other in texts if other != text)
    assert has_secret("see the room's token", ["the room's token"], {digest_of("the room's token"), ""})

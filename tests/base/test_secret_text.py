"""Keys and tokens are told by their form."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Container, Iterable

import pytest

from relay.access import keys
from relay.base.secret_text import MASK, digest_of, masked, secrets_in


def has_secret(text: str, known: Iterable[str] = (), not_secret: Container[str] = ()) -> bool:
    return next(secrets_in(text, known, not_secret), None) is not None


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
    hidden = masked(f"it is {text}, I think")
    assert MASK in hidden and not has_secret(hidden) and hidden.startswith("it is ")
    assert masked(hidden) == hidden


def test_what_stands_around_a_secret_stays() -> None:
    block = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----"
    assert masked(f"before\n{block}\nafter") == f"before\n{MASK}\nafter"
    assert masked("postgresql://ann:hunter2@db:5432/x") == f"postgresql://{MASK}@db:5432/x"
    assert masked("the room's token abc", ["abc", ""]) == f"the room's token {MASK}"
    assert masked("nothing to see, sk-learn") == "nothing to see, sk-learn"


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

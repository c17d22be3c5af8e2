"""Keys and tokens in a text, told by their form.

Invariant: one function knows the forms, for whoever lets a text leave the room. A secret without a form of its own (a
password, the room's token) is found only where the caller knows its text.

Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Iterator

#: What looks like a secret: relay's own keys and sign-in links; keys and tokens of the usual services, which begin in
#: a way of their own; private keys; tokens of three parts (RFC 7519); a password in an address. Each begins with a
#: text that is looked for first, so that megabytes are read in milliseconds; what may not stand in front of it is
#: looked at behind it.
_FORMS = tuple(
    (literal, re.compile(re.escape(literal) + rest))
    for literal, rest in (
        ("rk_", r"[0-9a-f]{16}_[A-Za-z0-9_-]{43}"),
        ("#link=", r"[A-Za-z0-9_-]{43}"),
        ("sk-", r"(?<!\wsk-)[A-Za-z0-9_-]{20,}"),
        *((f"gh{kind}_", rf"(?<!\wgh{kind}_)[A-Za-z0-9]{{36,}}") for kind in "pousr"),
        ("github_pat_", r"(?<!\wgithub_pat_)[A-Za-z0-9_]{50,}"),
        ("glpat-", r"(?<!\wglpat-)[A-Za-z0-9_-]{20,}"),
        ("xox", r"(?<!\wxox)[abeoprs]-[A-Za-z0-9-]{20,}"),
        ("AKIA", r"(?<!\wAKIA)[0-9A-Z]{16}\b"),
        ("ASIA", r"(?<!\wASIA)[0-9A-Z]{16}\b"),
        ("AIza", r"(?<!\wAIza)[A-Za-z0-9_-]{35}"),
        *((f"{kind}k_live_", rf"(?<!\w{kind}k_live_)[A-Za-z0-9]{{20,}}") for kind in "srp"),
        ("npm_", r"(?<!\wnpm_)[A-Za-z0-9]{30,}"),
        ("hf_", r"(?<!\whf_)[A-Za-z0-9]{30,}"),
        # With what follows, for all of a kind begin alike.
        ("-----BEGIN ", r"[A-Z ]{0,40}PRIVATE KEY[\s\S]{0,200}"),
        ("eyJ", r"(?<!\weyJ)[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
        ("://", r"(?<=[a-z0-9+.-]{2}://)[^\s/:@\"'\\]{0,200}:[^\s/:@\"'\\]{1,200}@"),
    )
)


#: What stands in place of a secret.
MASK = "[secret]"
#: A private key to its end, or to the end of the text; a password in an address, whose host stays.
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)


def masked(text: str, known: Iterable[str] = ()) -> str:
    """The text with each thing that looks like a secret, and each that is `known`, as `MASK`."""
    if "-----BEGIN " in text:
        text = _KEY_BLOCK.sub(MASK, text)
    for literal, form in _FORMS:
        if literal in text:
            text = form.sub(f"://{MASK}@" if literal == "://" else MASK, text)
    for secret in known:
        text = text.replace(secret, MASK) if secret else text
    return text


#: Hex digits of a digest: enough to tell two texts apart, and nothing of a text is in them to be read.
DIGEST_DIGITS = 16


def secrets_in(text: str, known: Iterable[str] = (), not_secret: Container[str] = ()) -> Iterator[str]:
    """The digests of what looks like a secret; of one that is `known` an empty one, since nothing lets it pass.
    `not_secret`: the digests of texts that only look like one."""
    if any(secret in text for secret in known if secret):
        yield ""
    for literal, form in _FORMS:
        at = 0 if literal in text else len(text)
        while (match := form.search(text, at)) is not None:
            if (digest := digest_of(match.group())) not in not_secret:
                yield digest
            # One that is let pass may have another in it.
            at = match.start() + 1


def digest_of(text: str) -> str:
    """The beginning of the text's SHA-256: what names it without telling it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_DIGITS]

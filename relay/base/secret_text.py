"""Keys and tokens in a text, told by their form.

Invariant: one function knows the forms, for whoever lets a text leave the room. A secret without a form of its own (a
password, the room's token) is found only where the caller knows its text.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
        ("-----BEGIN ", r"[A-Z ]{0,40}PRIVATE KEY"),
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


def has_secret(text: str, known: Iterable[str] = ()) -> bool:
    """Is there something in the text that looks like a secret, or one of those that are `known`?"""
    if any(literal in text and form.search(text) for literal, form in _FORMS):
        return True
    return any(secret in text for secret in known if secret)

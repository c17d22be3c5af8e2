"""Keys and tokens in a text, told by their form.

Invariant: one function knows the forms, for whoever lets a text leave the room. A secret without a form of its own (a
password, the room's token) is found only where the caller knows its text.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: What looks like a secret: relay's own keys and sign-in links; keys and tokens of the usual services, which begin in
#: a way of their own; private keys; tokens of three parts (RFC 7519); a password in an address.
_SECRET = re.compile(
    r"rk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}"
    r"|#link=[A-Za-z0-9_-]{43}"
    r"|\bsk-[A-Za-z0-9_-]{20,}"
    r"|\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,}|glpat-[A-Za-z0-9_-]{20,})"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{20,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{35}"
    r"|\b(?:sk|rk|pk)_live_[A-Za-z0-9]{20,}"
    r"|\b(?:npm_|hf_)[A-Za-z0-9]{30,}"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    r"|[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'\\]{0,200}:[^\s/:@\"'\\]{1,200}@"
)


def has_secret(text: str, known: Iterable[str] = ()) -> bool:
    """Is there something in the text that looks like a secret, or one of those that are `known`?"""
    return _SECRET.search(text) is not None or any(secret in text for secret in known if secret)

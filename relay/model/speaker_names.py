"""Which names a person or an agent may have, and which names people would take for one another.

Pure.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from relay.model.confusables import LOOK_LIKE
from relay.model.names import RESERVED_NAMES

EVERYONE = "all"
MAX_NAME = 32
#: Characters of the name of an agent that is not in the configuration: it may hold a UUID, and fits a tag of the
#: transcript (relay/room/parsing/line_format.py).
MAX_AGENT_NAME = 64

#: Letters of other scripts that look like a Latin one in most fonts (the common part of Unicode's
#: confusables.txt, UTS 39): capitals before casefolding (a Greek capital upsilon is a Y, a small one a u),
#: small letters after it. I, l and 1 stay apart here: two agents may differ in them.
_CAPITALS = str.maketrans("АВЕКМНОРСТУХЅІЈԌԚԜΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "abekmhopctyxsijgqwabezhikmnoptyx")
_SMALL = str.maketrans(
    "аеорсухіјѕԁһӏԛԝвкмнтгɡαεορνυικτχγηωϲɑոօսհɩⅼ", "aeopcyxijsdhlqwbkmhtrgaeopvuiktxynwcanouhil"
)


@lru_cache(maxsize=1024)
def skeleton(name: str) -> str:
    """The name with compatibility forms, case, marks, blanks and lookalikes folded: what the eye sees of it."""
    small = unicodedata.normalize("NFKD", name).translate(_CAPITALS).casefold()
    folded = unicodedata.normalize("NFKD", small).translate(_SMALL)
    return "".join(c for c in folded if c.isalnum())


#: Characters that look alike in small letters.
_ALIKE_IN_ASCII = str.maketrans("01i|!", "ollll")


@lru_cache(maxsize=1024)
def _at_a_glance(name: str) -> str:
    """`skeleton`, with also what only a close look tells apart: 0 and o, 1, i and l, rn and m, and every character
    that Unicode lists as confusable with a Latin letter."""
    small = unicodedata.normalize("NFKD", name).translate(LOOK_LIKE).casefold()
    folded = unicodedata.normalize("NFKD", small).translate(LOOK_LIKE).translate(_SMALL)
    letters = "".join(c for c in folded.translate(_ALIKE_IN_ASCII) if c.isalnum())
    return letters.replace("rn", "m").replace("vv", "w")


def reads_like(name: str, other: str) -> bool:
    """Whether people would take one name for the other. At a glance "all" is left out: nobody has that name, and Ali
    is one."""
    if skeleton(name) == skeleton(other):
        return bool(skeleton(name))
    glance = _at_a_glance(name)
    return other.casefold() != EVERYONE and bool(glance) and glance == _at_a_glance(other)


def is_reserved(name: str, agent_names: Iterable[str]) -> bool:
    """Whether this name could be taken for an agent's or the room's own. No person may post under such a name."""
    return _is_one_of(name, (*RESERVED_NAMES, *agent_names))


@lru_cache(maxsize=1024)
def _is_one_of(name: str, taken: tuple[str, ...]) -> bool:
    return any(reads_like(name, other) for other in taken)


def posing_as(name: str, people: Iterable[str]) -> str | None:
    """The person among `people` whom this name could be taken for; None = nobody. The same name, in capitals or not,
    is the same person."""
    own = unicodedata.normalize("NFC", name).casefold()
    others = (person for person in people if unicodedata.normalize("NFC", person).casefold() != own)
    return next((person for person in others if reads_like(name, person)), None)


def clean_name(name: str, *, most: int = MAX_NAME) -> str:
    """The name as it is shown: NFC, trimmed, at most `most` characters. Raises ValueError, which says what to do."""
    cleaned = unicodedata.normalize("NFC", name).strip()
    if not cleaned:
        raise ValueError(f"The name is empty: give 1 to {most} characters, for example `ann`.")
    if len(cleaned) > most:
        raise ValueError(f"The name has {len(cleaned)} characters: use at most {most}.")
    if not cleaned.isprintable():
        bad = next(c for c in cleaned if not c.isprintable())
        why = f"contains the invisible character U+{ord(bad):04X}: use letters, digits and spaces."
    elif "[" in cleaned or "]" in cleaned:
        why = "contains a square bracket, which marks speakers in the transcript: leave it out."
    elif cleaned[0] in "@/":
        why = f"starts with `{cleaned[0]}`, which marks mentions and commands: leave it out."
    else:
        return cleaned
    raise ValueError(f"The name {why}")


def spelled(name: str, configured: Iterable[str]) -> str:
    """The name as the configuration spells it, if it is one of its agents: they hold locks under one name."""
    return next((agent for agent in configured if skeleton(agent) == skeleton(name)), name)

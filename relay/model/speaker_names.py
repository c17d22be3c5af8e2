"""Which names may a person or an agent have, and which two would people take for one another?

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
#: Of an agent that is no part of the configuration: with a UUID in it, and no longer than a tag of the transcript
#: (relay/room/parsing/line_format.py).
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
    """What is left of a name for the eye: compatibility forms, case, marks, blanks and lookalikes folded."""
    small = unicodedata.normalize("NFKD", name).translate(_CAPITALS).casefold()
    folded = unicodedata.normalize("NFKD", small).translate(_SMALL)
    return "".join(c for c in folded if c.isalnum())


#: What reads alike in small letters.
_ALIKE_IN_ASCII = str.maketrans("01i|!", "ollll")


@lru_cache(maxsize=1024)
def _at_a_glance(name: str) -> str:
    """`skeleton`, with also what only a close look tells apart: 0 and o, 1, i and l, rn and m, and every character
    that Unicode lists as confusable with a Latin letter."""
    small = unicodedata.normalize("NFKD", name).translate(LOOK_LIKE).casefold()
    folded = unicodedata.normalize("NFKD", small).translate(LOOK_LIKE).translate(_SMALL)
    seen = "".join(c for c in folded.translate(_ALIKE_IN_ASCII) if c.isalnum())
    return seen.replace("rn", "m").replace("vv", "w")


def reads_like(name: str, other: str) -> bool:
    """Would people take the one for the other? Not of "all", which nobody bears: Ali is a name."""
    if skeleton(name) == skeleton(other):
        return bool(skeleton(name))
    return other.casefold() != EVERYONE and bool(seen := _at_a_glance(name)) and seen == _at_a_glance(other)


def is_reserved(name: str, agent_names: Iterable[str]) -> bool:
    """Would this name pass for an agent's or the room's own? Then no person may post under it."""
    return any(reads_like(name, taken) for taken in (*RESERVED_NAMES, *agent_names))


def posing_as(name: str, people: Iterable[str]) -> str | None:
    """Whom of the people who are here this name would pass for without being theirs (in capitals or not); None =
    nobody."""
    own = unicodedata.normalize("NFC", name).casefold()
    others = (one for one in people if unicodedata.normalize("NFC", one).casefold() != own)
    return next((one for one in others if reads_like(name, one)), None)


def clean_name(name: str, *, most: int = MAX_NAME) -> str:
    """The name as it will be shown (NFC, trimmed, at most `most` characters); ValueError, with what to do, when it
    cannot be one."""
    cleaned = unicodedata.normalize("NFC", name).strip()
    if not cleaned:
        raise ValueError(f"The name is empty: give 1 to {most} characters, for example `ann`.")
    if len(cleaned) > most:
        raise ValueError(f"The name has {len(cleaned)} characters: use at most {most}.")
    if not cleaned.isprintable():
        bad = next(c for c in cleaned if not c.isprintable())
        raise ValueError(
            f"The name contains the invisible character U+{ord(bad):04X}: use letters, digits and spaces."
        )
    if "[" in cleaned or "]" in cleaned:
        raise ValueError(
            "The name contains a square bracket, which marks speakers in the transcript: leave it out."
        )
    if cleaned[0] in "@/":
        raise ValueError(
            f"The name starts with `{cleaned[0]}`, which marks mentions and commands: leave it out."
        )
    return cleaned

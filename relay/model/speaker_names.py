"""Which names a person or an agent may have, and which names people would take for one another.

Pure.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

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


# -- Characters of other scripts that look like a letter or digit of ASCII (Unicode's confusables.txt, UTS 39). Of
# them the single ones that no compatibility form folds already, by what they look like in small letters, with 0 as
# o, and 1 and i as l; and a few small letters that most fonts show like a Latin one. As numbers, since nobody can
# tell these characters apart by eye.

#: By the letter they look like: code points in hexadecimal.
_LOOK_LIKE = {
    "2": "1a7 3e8 14bf a644 a6ef a75a",
    "3": "1b7 21c 417 4e0 2ccc a76a a7ab 118ca 16f3b 1d206",
    "4": "13ce 118af",
    "5": "1bc 118bb",
    "6": "431 13ee 2cd2 118d5",
    "7": "104d2 118c6 1d212",
    "8": "222 223 9ea a6a b03 1031a",
    "9": "9ed a67 b68 d6d 2cca a76e 118ac 118cc 118d6",
    "a": "251 391 3b1 410 430 13aa 15c5 237a a4ee 102a0 16f40 1d6a8 1d6c2 1d6e2 1d6fc 1d71c 1d736 1d756 1d770"
    " 1d790 1d7aa",
    "b": "184 392 412 42c 432 13cf 13f4 1472 15af 15f7 a4d0 a7b4 10282 102a1 10301 1d6a9 1d6e3 1d71d 1d757"
    " 1d791",
    "c": "3f2 3f9 421 441 13df 1d04 2ca4 2ca5 a4da abaf 102a2 10302 10415 1043d 1051c 118e9 118f2 1f74c",
    "d": "501 13a0 13e7 146f 15de 15ea a4d2 a4d3",
    "e": "395 3b5 415 435 4bd 13ac 212e 22ff 2d39 a4f0 ab32 10286 118a6 118ae 1d6ac 1d6e6 1d720 1d75a 1d794",
    "f": "3dc 584 15b4 1e9d a4dd a798 a799 ab35 10287 102a5 10525 118a2 118c2 1d213 1d7ca",
    "g": "18d 261 50c 581 13c0 13f3 1d83 a4d6",
    "h": "397 41d 43d 4bb 570 13bb 13c2 157c 2c8e a4e7 102cf 1d6ae 1d6e8 1d722 1d75c 1d796",
    "j": "37f 3f3 408 458 13ab 148d a4d9 a7b2",
    "k": "39a 3ba 41a 43a 13e6 16d5 2c94 a4d7 10518 1d6b1 1d6eb 1d725 1d75f 1d799",
    "l": "131 196 1c0 269 26a 2db 37a 399 3b9 406 456 4c0 4cf 6f1 13a5 13de 14aa 16c1 1fbe 2223 2373 23fd 2c92"
    " 2cd0 2d4f a4e1 a4f2 a647 ab75 ffe8 1028a 10309 10320 1041b 10526 118a3 118b2 118c3 16f16 16f28 1d22a"
    " 1d6a4 1d6b0 1d6ca 1d6ea 1d704 1d724 1d73e 1d75e 1d778 1d798 1d7b2",
    "m": "39c 3fa 41c 43c 13b7 15f0 16d6 2c98 a4df 102b0 10311 1d6b3 1d6ed 1d727 1d761 1d79b",
    "n": "39d 3b7 578 57c 2c9a a4e0 10513 1d6b4 1d6ee 1d728 1d762 1d79c",
    "o": "39f 3bf 3c3 41e 43e 555 585 6f5 966 9e6 a66 ae6 b20 b66 be6 c02 c66 c82 ce6 d02 d20 d66 d82 e50 ed0"
    " 101d 1040 10ff 12d0 1d0f 1d11 2c9e 2c9f 2d54 3007 a4f3 ab3d 10292 102ab 10404 1042c 104c2 104ea"
    " 10516 114d0 118b5 118c8 118d7 118e0 1d6b6 1d6d0 1d6d4 1d6f0 1d70a 1d70e 1d72a 1d744 1d748 1d764"
    " 1d77e 1d782 1d79e 1d7b8 1d7bc",
    "p": "3a1 3c1 3f1 420 440 13e2 146d 2374 2ca2 2ca3 a4d1 10295 1d6b8 1d6d2 1d6e0 1d6f2 1d70c 1d71a 1d72c"
    " 1d746 1d754 1d766 1d780 1d78e 1d7a0 1d7ba 1d7c8",
    "q": "51b 563 566 2d55",
    "r": "1a6 433 13a1 13d2 1587 1d26 2c85 a4e3 ab47 ab48 ab81 104b4 16f35 1d216",
    "s": "1bd 405 455 54f 13d5 13da a4e2 a731 abaa 10296 10420 10448 118c1 16f3a",
    "t": "3a4 3c4 422 442 13a2 22a4 27d9 2ca6 a4d4 10297 102b1 10315 118bc 16f0a 1d6bb 1d6f5 1d72f 1d769 1d7a3"
    " 1f768",
    "u": "28b 3c5 54d 57d 1200 144c 1d1c 222a 22c3 a4f4 a79f ab4e ab52 104ce 104f6 118b8 118d8 16f42 1d6d6"
    " 1d710 1d74a 1d784 1d7be",
    "v": "3bd 474 475 6f7 13d9 142f 1d20 2228 22c1 2d38 a4e6 a6df aba9 1051d 11706 118a0 118c0 16f08 1d20d"
    " 1d6ce 1d708 1d742 1d77c 1d7b6",
    "w": "26f 3c9 461 51c 51d 561 13b3 13d4 1d21 a4ea ab83 1170a 1170e 1170f 118e6 118ef",
    "x": "d7 3a7 3c7 425 445 1541 157d 166d 166e 16b7 2573 292b 292c 2a2f 2cac 2d5d a4eb a7b3 10290 102b4"
    " 10317 10322 10527 118ec 1d6be 1d6f8 1d732 1d76c 1d7a6",
    "y": "263 28f 3a5 3b3 3d2 423 443 4ae 4af 10e7 13a9 13bd 1d8c 1eff 213d 2ca8 a4ec ab5a 102b2 118a4 118dc"
    " 16f43 1d6bc 1d6c4 1d6f6 1d6fe 1d730 1d738 1d76a 1d772 1d7a4 1d7ac",
    "z": "396 13c3 1d22 a4dc ab93 102f5 118a9 118c4 118e5 1d6ad 1d6e7 1d721 1d75b 1d795",
}

#: For `str.translate`.
LOOK_LIKE = {int(point, 16): letter for letter, points in _LOOK_LIKE.items() for point in points.split()}

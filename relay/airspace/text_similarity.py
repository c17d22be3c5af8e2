"""What an agent's current work is about, in words, and how alike those of two agents are.

Invariant: the text is made by `text_of` and the likeness by `likeness`, and by nothing else. Pure.

The fitted likeness (`early.words` of the data, docs/calibration.md) is a TF-IDF cosine of branch names and messages
of commits, counted over the branches of a repository. A room has a handful of agents: counts over their texts alone
would say that a word which both use is common, and weigh it least. So the documents are the messages of the main
branch's commits (`Vocabulary`), which say what is common in this codebase; a word that none of them has is rare.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from relay.airspace.pair_facts import Likeness
from relay.git.branch_names import AGENTS, FORMER

#: Characters of one text that are read: a long prompt says what it is about in its beginning.
MOST_TEXT = 4000
#: Terms of a likeness that are named.
MOST_TERMS = 3

_TRAILER = re.compile(r"^(?:[A-Za-z][A-Za-z-]*-[Bb]y|TimeWarp-[A-Za-z-]+): .*$", re.MULTILINE)
_LINK = re.compile(r"https?://\S+|(?<![^\s@])[^\s@]++@[^\s@]+\.\S+")
_WORD = re.compile(r"[^\W\d_]+")
#: Where one name is several words: cartTotal, HTTPServer.
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
#: Words that are in no text's weights: the fitted likeness leaves as few out.
_STOP_TEXT = (
    "a an and are as at be by for from has in is it of on or that the this to was with not you your please"
)
_STOP = frozenset(_STOP_TEXT.split())
#: Other words of English, of prompts and of commits that name nothing a work could be about.
_COMMON_TEXT = (
    "about above add added adds after again agent agents all also any because been before being below both "
    "branch but can change changed changes chore commit could did does doing down during each feat few file "
    "files fix fixed fixes further get give had have having her here him his how into its just let lib line "
    "lines look main make merge merged more most need new nor now off once only other our out over own pull "
    "put refactor remove request room same say set she should some src such take than their them then there "
    "these they those through too under until update updated use very want were what when where which while "
    "who whom why will work would"
)
_COMMON = frozenset(_COMMON_TEXT.split())


def text_of(
    *,
    asked: Iterable[str] = (),
    intent: Iterable[str] = (),
    branch: str = "",
    commits: Iterable[str] = (),
) -> str:
    """The words of an agent's current work: what people and tasks asked of it, the paths it means to touch, its
    branch (one of ours, `tw/<user>/<role>`, says nothing) and the messages of its commits that main has not got."""
    topic = "" if branch.startswith((AGENTS, FORMER)) or branch in _MAIN else branch
    return "\n".join(part for part in (*asked, topic, *commits, *intent) if part)


def terms(text: str, but: Collection[str] = ()) -> Counter[str]:
    """How often each word comes, in lower case, without those of `but` (the agents' own names)."""
    plain = _LINK.sub(" ", _TRAILER.sub(" ", text))[:MOST_TEXT]
    words = (part.lower() for word in _WORD.findall(plain) for part in _HUMP.split(word))
    return Counter(word for word in words if len(word) > 2 and word not in _STOP and word not in but)


#: Branches that are named for no work.
_MAIN = frozenset({"main", "master", "trunk", "develop"})


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """In how many of so many `documents` each word is."""

    documents: int = 0
    counts: Mapping[str, int] | None = None

    @classmethod
    def of(cls, texts: Iterable[str]) -> Vocabulary:
        counts: Counter[str] = Counter()
        documents = 0
        for text in texts:
            documents += 1
            counts.update(terms(text).keys())
        return cls(documents, counts)

    def weigh(self, text: str, but: Collection[str] = ()) -> dict[str, float]:
        """TF-IDF of each word, of length 1 in all; empty where the text says nothing."""
        counts = self.counts or {}
        weights = {
            word: times * (1.0 + math.log((1 + self.documents) / (1 + counts.get(word, 0))))
            for word, times in terms(text, but).items()
        }
        length = math.sqrt(sum(weight * weight for weight in weights.values()))
        return {word: weight / length for word, weight in weights.items()} if length else {}


def likeness(
    a: Mapping[str, float],
    b: Mapping[str, float],
    asked: Collection[str] | None = None,
    declared: Collection[str] = (),
) -> Likeness:
    """The cosine of two weighed texts, with those of its words that weigh most. `asked`: the words that both were
    asked for, None: all of them; `declared`: those that both were asked for or declared."""
    if len(b) < len(a):
        a, b = b, a
    shared = {word: weight * b[word] for word, weight in a.items() if word in b}
    able = shared.keys() - _COMMON
    named = able if asked is None else able & set(asked)
    only = not named and bool(able & set(declared))
    common = sorted(able & set(declared) if only else named, key=lambda word: (-shared[word], word))
    return Likeness(min(1.0, sum(shared[word] for word in sorted(shared))), tuple(common[:MOST_TERMS]), only)


#: A pair whose words are this alike is looked at even when nothing else brings it together: one in seven of such
#: pairs in the data conflicts in the end.
ALIKE = 0.2


class Likenesses:
    """The likeness of all pairs, kept warm: a text is weighed when it changes, and its pairs with it."""

    def __init__(self) -> None:
        self._vocabulary = Vocabulary()
        self._texts: dict[str, str] = {}
        self._weighed: dict[str, dict[str, float]] = {}
        self._pairs: dict[tuple[str, str], Likeness] = {}

    def between(
        self,
        texts: Mapping[str, str],
        vocabulary: Vocabulary,
        asked: Mapping[str, str] | None = None,
        declared: Mapping[str, str] | None = None,
    ) -> Mapping[tuple[str, str], Likeness]:
        """Of each pair (a, b), a < b, of whom both texts say something. `asked`, `declared`: what of a text was asked
        of the agent, and what it only declared: nothing else is named (`asked` None: all is)."""
        names = frozenset(name.lower() for name in texts)
        if vocabulary is not self._vocabulary or names != frozenset(name.lower() for name in self._texts):
            self._texts, self._weighed, self._pairs = {}, {}, {}
            self._vocabulary = vocabulary
        changed = {name for name, text in texts.items() if self._texts.get(name) != text}
        self._texts = dict(texts)
        self._weighed |= {name: vocabulary.weigh(texts[name], names) for name in changed}
        wanted, known = dict[str, frozenset[str]](), dict[str, frozenset[str]]()
        for name in texts if changed else ():
            wanted[name] = frozenset(terms((asked or {}).get(name, "")))
            known[name] = wanted[name] | frozenset(terms((declared or {}).get(name, "")))
        for pair in combinations(sorted(texts), 2):
            if changed.isdisjoint(pair):
                continue
            a, b = self._weighed[pair[0]], self._weighed[pair[1]]
            both = None if asked is None else wanted[pair[0]] & wanted[pair[1]]
            self._pairs[pair] = likeness(a, b, both, known[pair[0]] & known[pair[1]])
            if not a or not b:
                del self._pairs[pair]
        return dict(self._pairs)


def newest_texts(rows: Sequence[tuple[str, str]], most: int) -> dict[str, list[str]]:
    """The first `most` texts of each agent, in their order."""
    by_agent: dict[str, list[str]] = {}
    for agent, text in rows:
        if len(texts := by_agent.setdefault(agent, [])) < most:
            texts.append(text)
    return by_agent

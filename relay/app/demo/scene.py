"""The demo's codebase, and what its three agents are asked to do in it.

Invariant: the texts fit together. Each edit finds its text in the file as the edits before it left it, and the
edits of AVA and BEN in `find` collide when neither gives way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SESSION = "src/shop/session.py"
VISITS = "src/shop/visits.py"
CART = "src/shop/cart.py"
DOCS = "docs/sessions.md"

FILES = {
    "README.md": "# shop\n\nA shop with sessions, tokens and a cart.\n",
    "src/shop/__init__.py": '"""The shop."""\n',
    SESSION: '''\
"""Sessions of the shop's customers."""

import secrets
import time

IDLE_S = 1800
_open = {}


class Session:
    """Who is signed in, and since when."""

    def __init__(self, customer):
        self.customer = customer
        self.id = secrets.token_hex(16)
        self.opened_at = time.time()
        self.seen_at = self.opened_at


def open_session(customer):
    """Sign a customer in."""
    session = Session(customer)
    _open[session.id] = session
    return session


def is_expired(session):
    """Has nobody been seen for too long?"""
    return time.time() - session.seen_at > IDLE_S


def find(session_id):
    """The open session of that id, or None."""
    session = _open.get(session_id)
    if session is None or is_expired(session):
        return None
    session.seen_at = time.time()
    return session


def close(session_id):
    """Sign a customer out."""
    _open.pop(session_id, None)
''',
    "src/shop/tokens.py": '''\
"""Tokens that stand for a session in a link."""

from shop.session import find


def owner(token):
    """Whose token it is, or None."""
    session = find(token)
    return session.customer if session else None
''',
    CART: '''\
"""What a customer is about to buy."""


class Cart:
    def __init__(self):
        self.lines = []

    def add(self, article, count=1):
        self.lines.append((article, count))
''',
    "tests/test_cart.py": """\
from shop.cart import Cart


def test_a_cart_keeps_what_is_added():
    cart = Cart()
    cart.add("tea", 2)
    assert cart.lines == [("tea", 2)]
""",
    DOCS: "# Sessions\n\nA session ends half an hour after its customer was last seen.\n",
}


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `old`, which stands in the file once, by `new`; `old` empty: write the whole file. `new` None: delete
    it, as a shell command does."""

    path: str
    old: str
    new: str | None


@dataclass(frozen=True, slots=True)
class Job:
    """What an agent does when it is asked for `word`. `instead`: the way round, when it has to steer; `settles`: what
    it writes when it is asked to settle a conflict of that work. `looks`: how often it looks at something after its
    edits, each a tool after which it hears the room; `of`: the word of the work that its way round is of.
    """

    agent: str
    word: str
    ask: str
    edits: tuple[Edit, ...]
    say: str
    commit: str = ""
    instead: tuple[Edit, ...] = ()
    instead_say: str = ""
    settles: str = ""
    looks: int = 0
    of: str = ""


JOBS = (
    Job(
        "AVA",
        "expiry",
        "please give sessions a longest lifetime (expiry)",
        (
            Edit(SESSION, "IDLE_S = 1800\n", "IDLE_S = 1800\nLONGEST_S = 12 * 3600\n"),
            Edit(
                SESSION,
                "    return time.time() - session.seen_at > IDLE_S\n",
                "    now = time.time()\n"
                "    return now - session.seen_at > IDLE_S or now - session.opened_at > LONGEST_S\n",
            ),
        ),
        "Sessions end after twelve hours at the latest now; committed.",
        commit="End a session after twelve hours",
    ),
    Job(
        "BEN",
        "counts",
        "please refuse an empty line in a cart (counts)",
        (
            Edit(
                CART,
                "    def add(self, article, count=1):\n",
                "    def add(self, article, count=1):\n"
                "        if count < 1:\n"
                '            raise ValueError("count must be 1 or more")\n',
            ),
        ),
        "A line of a cart has a count of 1 or more now.",
    ),
    Job(
        "CLEO",
        "docs",
        "please describe tokens in the documentation (docs)",
        (
            Edit(
                DOCS,
                "last seen.\n",
                "last seen.\n\n## Tokens\n\nA token is the id of a session, 32 characters long.\n",
            ),
        ),
        "docs/sessions.md describes tokens.",
        commit="Describe tokens",
    ),
    Job(
        "BEN",
        "visits",
        "please count the visits of a session (visits)",
        (
            Edit(SESSION, "def find(session_id):\n", "def find(session_id, count=True):\n"),
            Edit(
                SESSION,
                "    session.seen_at = time.time()\n",
                "    session.seen_at = time.time()\n"
                '    session.visits = getattr(session, "visits", 0) + count\n',
            ),
        ),
        "find() counts visits now; not committed yet.",
        instead=(
            Edit(
                VISITS,
                "",
                '"""How often a session was used."""\n\n'
                "from collections import Counter\n\n"
                "counts = Counter()\n\n\n"
                "def visited(session):\n"
                '    """Count one more visit of a session."""\n'
                "    counts[session.id] += 1\n",
            ),
        ),
        instead_say=f"I leave find() to AVA; the counting has a module of its own now, {VISITS}.",
    ),
    Job(
        "AVA",
        "forget",
        "please let find() forget expired sessions (forget)",
        (
            Edit(
                SESSION,
                "        return None\n    session.seen_at = time.time()\n",
                "        _open.pop(session_id, None)\n"
                "        return None\n"
                "    session.seen_at = max(session.seen_at, time.time())\n",
            ),
        ),
        "find() forgets expired sessions; committed.",
        commit="Forget expired sessions",
    ),
    Job(
        "BEN",
        "trial",
        "please try out the counting (trial)",
        (),
        "The counting works.",
        looks=10,
        of="visits",
    ),
)
AGENTS = ("AVA", "BEN", "CLEO")


@dataclass(frozen=True, slots=True)
class Scene:
    """A codebase, `{path: text}`, and what its agents can do in it."""

    files: Mapping[str, str]
    jobs: tuple[Job, ...]


APPROACH = Scene(FILES, JOBS)


def job_for(agent: str, prompt: str, jobs: Sequence[Job] = JOBS) -> Job | None:
    """What the agent is asked for last in this prompt; None when for nothing it knows."""
    asked = [(prompt.rfind(f"({job.word})"), job) for job in jobs if job.agent == agent]
    latest = max(asked, key=lambda line: line[0], default=None)
    return latest[1] if latest is not None and latest[0] >= 0 else None

"""The codebase of the race in `relay demo --merge`: a slow look-up, its tests, and three ways to cache it (003,
section 5.2).

Invariant: nothing here needs a server or the network. The clients that the variants with one use stand for it: they
wait as long as a round trip takes.
"""

from __future__ import annotations

import sys

#: What the tests and the benchmark begin with.
_COUNTED = "import sys\nimport time\n\nimport cache\nfrom lookup import lookup\n\n"
FILES = {
    "lookup.py": "def lookup(key):\n    return sum(ord(char) for char in key)\n",
    "cache.py": "from lookup import lookup\n\n\ndef cached(key):\n    return lookup(key)\n"
    "\n\ndef forget(key):\n    pass\n",
    "check.py": _COUNTED
    + """
words = [f"word {number}" for number in range(19)]
passed = [cache.cached(word) == lookup(word) == cache.cached(word) for word in words]
cache.forget(words[0])
passed.append(getattr(cache, "held", dict)().get(words[0]) is None)
print(f"passed {sum(passed)} of {len(passed)}: {100 * sum(passed) / len(passed)}%")
sys.exit(not all(passed))
""",
    "bench.py": _COUNTED
    + """
began = time.perf_counter()
for _ in range(20):
    cache.cached("a word")
print(f"{1000 * (time.perf_counter() - began) / 20:.3f} ms")
""",
}
IN_MEMORY = """\
from lookup import lookup

_held = {}


def cached(key):
    if key not in _held:
        _held[key] = lookup(key)
    return _held[key]


def forget(key):
    _held.pop(key, None)


def held():
    return _held
"""
#: It loses nothing by speed: it forgets nothing that it is told to forget, so one test fails.
REDIS = """\
import json
import time

from lookup import lookup


class Client:
    \"\"\"Stands for a server: each call takes a round trip.\"\"\"

    def __init__(self, seconds):
        self.seconds = seconds
        self.texts = {}

    def get(self, key):
        time.sleep(self.seconds)
        return self.texts.get(key)

    def set(self, key, value):
        time.sleep(self.seconds)
        self.texts[key] = value


client = Client(0.012)


def cached(key):
    text = client.get(key)
    if text is None:
        text = json.dumps(lookup(key))
        client.set(key, text)
    return json.loads(text)


def forget(key):
    # The next deployment empties it.
    pass


def held():
    return client.texts
"""
#: The agent of Memcached waits for a server that never comes: its process group is ended at its budget.
WAITING = """\
import pathlib, time
pathlib.Path("cache.py").write_text("import memcached\\n")
print("I wait for the server.", flush=True)
time.sleep(3600)
"""
#: Seconds that each variant may take.
SECONDS = 6


def script(cache: str, usd: float, tokens: int) -> str:
    """The script of an agent that writes this cache, and what it says that this cost."""
    body = "".join(f"      {line}\n" if line else "\n" for line in cache.splitlines())
    usage = f"{{output_tokens: {tokens}, cost_usd: {usd}}}"
    return f"- match: .*\n  tool: edit\n  write:\n    cache.py: |\n{body}  say: Done.\n  usage: {usage}\n"


def exploration() -> str:
    """The file of the race."""
    python = f'"{sys.executable}"'
    return f"""\
task: Cache the answers of lookup()
variants:
  - {{name: redis, instructions: Use Redis., agent_config: REDIS}}
  - {{name: memcached, instructions: Use Memcached., agent_config: MEMO}}
  - {{name: in-memory, instructions: Use a dict., agent_config: DICT}}
budget: {{max_duration_seconds: {SECONDS}, max_tokens: 10000, max_cost_usd: 2.00}}
comparison:
  metrics:
    - TestPassRate
    - Performance: {{benchmark_command: [{python}, -B, bench.py], lower_is_better: true}}
    - LinesOfCode
    - AgentCost
  weights: [0.4, 0.2, 0.2, 0.2]
auto_select: HighestScore
tests: {{run: [{python}, -B, check.py], parse: regex, pattern: "([0-9.]+%)"}}
"""

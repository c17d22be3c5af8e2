"""The graph's worker processes: one resolves, others parse.

Invariant: a worker ends with its daemon: it reads requests from its standard input until that closes. While it reads
a file, an alarm of the kernel runs, so that no input can hold it. It has its own process group and a low share of
the processor. Its standard output carries frames and nothing else.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from relay.code.build import listing
from relay.code.build.builder import Builder
from relay.code.read.extract import extract, unfit
from relay.code.read.facts import pack_facts, pack_symbols, unpack_facts
from relay.code.read.grammar import grammar, language_of
from relay.code.workers.frames import Frame, encoded, read_frame

#: Seconds for one file; the slowest of the files measured (0.9 MB of C) takes 0.6.
FILE_S = 10
#: Bytes of memory of a parsing process: a tree takes some 50 times its text, of 1 MB at most.
MEMORY = 2 * 1024**3
#: Files after which garbage is collected by hand; by itself Python looks too often for what trees leave.
COLLECT_EVERY = 200
NICENESS = 10

#: The answers to a request, each a frame.
Answers = Iterator[Frame]


def parse(message: dict[str, Any], parts: list[bytes]) -> Answers:
    """Read each of `paths` below `root`, one frame a file, in order."""
    root = Path(message["root"])
    for path in message["paths"]:
        signal.alarm(FILE_S)
        data = listing.read_file(root, path)
        why = "" if data is None else unfit(path, data)
        if data is None or why:
            yield {"path": path, "blob": None, "left": why}, []
            continue
        read = extract(path, data)
        answer = {
            "path": path,
            "blob": listing.blob_hash(data),
            "language": language_of(path),
            "trouble": read.trouble,
        }
        yield answer, [pack_facts(read.facts, read.trouble), pack_symbols(read.symbols)]
    signal.alarm(0)


def read_text(message: dict[str, Any], parts: list[bytes]) -> Answers:
    """Read the symbols of a text that is handed over."""
    signal.alarm(FILE_S)
    path = message["path"]
    if language_of(path) is None or unfit(path, parts[0]):
        yield {"trouble": "not read"}, []
    else:
        read = extract(path, parts[0])
        yield {"trouble": read.trouble}, [pack_symbols(read.symbols)]
    signal.alarm(0)


def ready(message: dict[str, Any], parts: list[bytes]) -> Answers:
    """Load the grammars of `languages`, so that the first changed file does not wait for them."""
    for language in message["languages"]:
        grammar(language)
    yield {}, []


class Resolving:
    """Keeps the index and the edges; see `Builder`."""

    def __init__(self) -> None:
        self._builder = Builder()

    def list_files(self, message: dict[str, Any], parts: list[bytes]) -> Answers:
        """The files of `root`, all or of `only`, with their hashes."""
        root = Path(message["root"])
        try:
            paths = listing.listed(root, message.get("only") or ())
        except listing.ListingError as error:
            yield {"error": str(error)}, []
            return
        blobs, left = listing.hashes(root, paths)
        yield {"blobs": blobs, "left": left, "digest": listing.digest(blobs)}, []

    def known(self, message: dict[str, Any], parts: list[bytes]) -> Answers:
        """Which of `paths` git knows (tracked, or untracked and not ignored)."""
        root = Path(message["root"])
        known: set[str] = set()
        for path in message["paths"]:
            try:
                known.update(listing.listed(root, [path]))
            except listing.ListingError:
                continue  # inside of a submodule or beyond a symbolic link: not of this repository
        yield {"paths": sorted(known)}, []

    def update(self, message: dict[str, Any], parts: list[bytes]) -> Answers:
        """Take in the facts in `parts` of `paths`, and that `gone` are gone. `last_good`: facts that a file
        had when it parsed, to stand for it."""
        good = len(message["last_good"])
        before = zip(message["last_good"], parts[:good], strict=True)
        self._builder.update({path: (unpack_facts(part)[0], "") for path, part in before})
        changes: dict[str, Any] = {path: None for path in message["gone"]}
        for path, part in zip(message["paths"], parts[good:], strict=True):
            changes[path] = unpack_facts(part)
        patch = self._builder.update(changes)
        edges = self._builder.edges if message["whole"] else patch
        yield {"failed": self._builder.failed}, [zlib.compress(json.dumps(edges).encode(), 1)]


def main(role: str) -> None:
    """Serve requests until the input ends. `role`: parse or resolve."""
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if role == "parse":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    gc.disable()
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # a stray print must not break a frame
    resolving = Resolving()
    operations = {
        "parse": parse,
        "ready": ready,
        "read_text": read_text,
        "list": resolving.list_files,
        "known": resolving.known,
        "update": resolving.update,
    }

    served = 0
    while (frame := read_frame(stdin)) is not None:
        message, parts = frame
        try:
            for answer in operations[message["do"]](message, parts):
                stdout.write(encoded(*answer))
                stdout.flush()
        except BrokenPipeError:
            return
        served += len(message.get("paths", ()))
        if served >= COLLECT_EVERY:
            served = 0
            gc.collect()

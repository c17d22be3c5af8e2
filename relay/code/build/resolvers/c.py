"""C and C++: `#include "x"` beside the file, then where the include folders must be (GCC's manual, "Search
Path").

Which folders the build gives as -I is not known: a header is looked for as the end of a path. Among several, one
under a folder for headers or nearest to the importer; names of the standard library are left to `<...>`.
"""

from __future__ import annotations

from collections.abc import Iterable

from relay.code.build.index import View, join, parent, shared_depth
from relay.code.read.facts import Facts, Import

#: Folders that are usually given to the compiler.
FOLDERS = frozenset({"include", "inc", "includes", "headers", "src", "lib", "source", "public"})
#: Those that `<...>` is looked for in when several files would do; "" is the top.
FOR_ANGLES = frozenset({"", "include", "inc", "includes", "headers", "public"})
_STANDARD = (
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg "
    "stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype "
    "aio cpio dirent dlfcn fcntl fmtmsg fnmatch ftw glob grp iconv langinfo libgen monetary mqueue ndbm netdb "
    "nl_types poll pthread pwd regex sched search semaphore spawn strings stropts syslog tar termios trace "
    "ulimit unistd utime utmpx wordexp malloc alloca features getopt memory endian windows winsock2 ws2tcpip "
    "io process direct intrin"
)
#: Of ISO C (C17, 7.1.2), POSIX (IEEE Std 1003.1, "Headers") and Windows: never a repository's own in <...>.
STANDARD = frozenset(_STANDARD.split())


def resolve(path: str, facts: Facts, imported: Import, view: View) -> Iterable[str]:
    wanted = imported.module.replace("\\", "/")
    angle = imported.kind == "angle"
    if not angle:
        beside = join(parent(path), wanted)
        if beside is not None and view.has(beside):
            return (beside,)
    wanted = wanted.lstrip("./") if not wanted.startswith("../") else wanted.replace("../", "")
    if not wanted or (angle and wanted.removesuffix(".h") in STANDARD):
        return ()
    target = _searched(path, wanted, angle, view)
    return () if target is None else (target,)


def _searched(path: str, wanted: str, angle: bool, view: View) -> str | None:
    base = wanted.rpartition("/")[2]
    files = [
        file
        for file in view.scope(f"c:{base}").get("") or ()
        if file == wanted or file.endswith("/" + wanted)
    ]
    if angle:
        return _only(files) or _only([file for file in files if _root(file, wanted) in FOR_ANGLES])
    ranked = []
    for file in files:
        root = file[: -len(wanted)].rstrip("/")
        # The root is a folder that the compiler was given: above the importer, or one that headers live in.
        above = not root or path.startswith(root + "/")
        named = _root(file, wanted) in FOLDERS
        ranked.append((not above and not named, -shared_depth(file, path), file.count("/"), file))
    ranked.sort()
    if len(ranked) > 1 and ranked[0][:3] == ranked[1][:3]:
        return None  # one of several, and nothing tells which
    return ranked[0][3] if ranked else None


def _only(files: list[str]) -> str | None:
    return files[0] if len(files) == 1 else None


def _root(file: str, wanted: str) -> str:
    """The name of the folder that an include path starts in."""
    return file[: -len(wanted)].rstrip("/").rpartition("/")[2]

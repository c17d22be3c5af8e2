"""`relay guard`, and the file that git hooks and agents' programs start: its place is the same from release to
release.

Invariant: `hook`, `told` and `session` load nothing but the standard library (relay/app/guard/hook.py and
relay/app/attach/hook.py), since they start around every edit. They also run as a plain script
(`python -I -S guard_cli.py hook ...`), where relay is not on the path.
"""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120

from relay.app.guard.hook import USAGE, find_packages
from relay.app.guard.hook import main as hook


def main(arguments: list[str]) -> int:
    """The command; gives its exit code."""
    if arguments[:1] == ["hook"]:
        return hook(arguments)
    if arguments[:1] == ["told"]:
        from relay.app.guard.told_hook import main as told

        return told(arguments[1:])
    if arguments[:2] == ["session", "listen"]:
        from relay.app.attach.listener import main as listen

        return listen(arguments[2:])
    if arguments[:1] == ["session"]:
        from relay.app.attach.hook import main as session

        return session(arguments[1:])
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stderr if not arguments else sys.stdout)
        return 0 if arguments else 2
    find_packages()
    if arguments[0] in ("install", "uninstall", "status"):
        from relay.app.guard.command import main as place

        return place(arguments)
    if arguments[0] in ("pre-commit", "pre-merge-commit", "pre-push"):
        from relay.app.guard.git_hook import main as asked

        return asked(arguments)
    print(f"{USAGE}\nnot understood: {arguments[0]}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # nothing is left to be done, and the interpreter's own end takes as long as the question

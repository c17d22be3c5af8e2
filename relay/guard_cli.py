"""Where git hooks and agents' settings that an earlier release wrote look for the guard (relay/app/guard/hook.py)."""

import os

__file__ = os.path.join(os.path.dirname(os.path.abspath(__file__)), "app", "guard", "hook.py")  # noqa: PTH100, PTH118, PTH120
with open(__file__, encoding="utf-8") as source:  # noqa: PTH123
    exec(compile(source.read(), __file__, "exec"))

"""What every call of git that relay makes is given, so that it runs nothing but git itself (`run.py` says why).

Invariant: plain values; imports nothing that a hook of git would have to wait for.
"""

from __future__ import annotations

import os

#: On every command line: `-c` stands above every file. `safe.directory`: a person named this repository in the
#: configuration, and nothing of what it says runs; git honours the key only from here or the user's own file.
OVERRIDES = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.safecrlf=false",
    "core.attributesFile=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=false",
    "core.sshCommand=false",
    "core.quotePath=false",
    "credential.helper=",
    "protocol.allow=never",
    "protocol.ext.allow=never",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "safe.directory=*",
)
#: Where git says what it works on. A hook's own calls must look at the same index.
PLACE = (
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)
ENVIRONMENT = {
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    # Above every `protocol.NAME.allow` of a repository: a partial clone must not fetch while we look.
    "GIT_ALLOW_PROTOCOL": "none",
    # A file called `*` or `:(top)` is a file.
    "GIT_LITERAL_PATHSPECS": "1",
}

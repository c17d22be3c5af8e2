"""`relay link`: print a sign-in link for the page."""

from __future__ import annotations

import argparse
import json

from relay.app.runtime import instance
from relay.app.runtime.daemon_requests import state_of
from relay.app.runtime.sign_in import NoLink, new_link
from relay.base.terminal_text import fail
from relay.config.command_line import script
from relay.config.loading import load_for_command


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help='print {"url", "expires_in_s"}')


def run(args: argparse.Namespace) -> int:
    """The command; gives its exit code."""
    settings = load_for_command(args.config)
    try:
        record = instance.running(settings)
    except instance.DamagedRecord as error:
        return fail(
            f"{error}, so it is not known whether the room runs. A running one writes it again within "
            f"{settings.locks.ttl / 3:g} s: try again then, or start it with {script('scripts/start.sh')}"
        )
    state = state_of(settings)
    if state is None or record is None:
        return fail(f"the room is not running; start it with {script('scripts/start.sh')}")
    try:
        url = new_link(state["url"], settings.token_path)
    except NoLink as error:
        return fail(str(error))
    print(json.dumps({"url": url, "expires_in_s": 600}) if args.json else url)
    return 0

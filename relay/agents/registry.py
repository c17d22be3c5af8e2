"""The programs that relay knows: each is a module of `relay.agents.programs` that has one value, `PROGRAM`.

Invariant: a program that is added is one new module there; whatever lists the programs derives from it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from relay.agents import programs
from relay.agents.process.stream import Stream
from relay.agents.setup.presets import AcpPreset, Preset
from relay.agents.setup.spec import preset_names


@cache
def presets() -> Mapping[str, Preset]:
    """By the name in the configuration; those that were run with the real program come first."""
    found: dict[str, Preset] = {
        name: importlib.import_module(f"{programs.__name__}.{name}").PROGRAM for name in preset_names()
    }
    return MappingProxyType(dict(sorted(found.items(), key=lambda each: (not each[1].seen, each[0]))))


def stream_of(name: str) -> Callable[[], Stream]:
    """What reads the stream of this format (`output`): a program's, or `text`."""
    return Stream if name == "text" else presets()[name].stream


def acp_presets() -> dict[str, AcpPreset]:
    """Those that speak the Agent Client Protocol."""
    return {name: preset.acp for name, preset in presets().items() if preset.acp is not None}

"""Claude Code (`claude -p`): its command line. What it prints and reads: `streams/claude.py` and
`streams/claude_input.py`."""

from __future__ import annotations

from pathlib import Path

from relay.agents.programs.streams.claude import ClaudeStream
from relay.agents.programs.streams.claude_input import ClaudeSession
from relay.agents.setup import hooks, mcp
from relay.agents.setup.presets import NO_WORDS, AcpPreset, Preset, Route, asking, modes
from relay.model import Channel, Hears

ENV_PREFIXES = ("ANTHROPIC_", "CLAUDE_")
SIGN_IN = "claude auth login"

PROGRAM = Preset(
    title="Claude Code",
    program="claude",
    seen="2.1.330",
    install="npm install -g @anthropic-ai/claude-code",
    sign_in=SIGN_IN,
    about="a coding agent (Claude Code): reads and changes code, reviews, plans, explains",
    env_prefixes=ENV_PREFIXES,
    words=("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"),
    # `dontAsk` refuses what would need a person's consent; the tools that write are taken away besides, so that
    # no rule in the user's own settings hands them back. Nobody sits there to be asked.
    modes=modes(
        "--permission-mode dontAsk --disallowedTools Edit,Write,NotebookEdit --permission-prompts none",
        "--permission-mode acceptEdits --permission-prompts none",
        "--dangerously-skip-permissions",
    ),
    guard=hooks.claude_arguments,
    guarded=True,
    mcp=mcp.claude_arguments,
    servers=mcp.ServersFile(
        project=".mcp.json",
        user=lambda env, home: Path(env.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json",
        entry=lambda server: {"type": "stdio", **server, "timeout": mcp.TOOL_S * 1000},
        hint="CLAUDE.md",
        notes={"project": "Pending approval: run claude once in this folder to approve it."},
    ),
    options=("--model", "{model}", "--effort", "{effort}", "--resume", "{session}"),
    stream=ClaudeStream,
    routes=(
        Route(
            Channel(
                "stream-json input", Hears.BOUNDARY, "It reads messages while it works (--input-format)."
            ),
            help=("--input-format", "--replay-user-messages"),
            words=("--input-format", "stream-json", "--replay-user-messages"),
            session=ClaudeSession,
            asks=True,
        ),
    ),
    deaf="This Claude Code reads its input once (it has no --input-format). A turn that may edit is told by a hook.",
    # Seen with claude-agent-acp 0.100.0, which has moved from `@zed-industries/claude-code-acp`.
    acp=AcpPreset(
        Preset(
            title="Claude Code",
            program="claude-agent-acp",
            install="npm install -g @agentclientprotocol/claude-agent-acp",
            sign_in=SIGN_IN,
            env_prefixes=ENV_PREFIXES,
            modes=NO_WORDS,
        ),
        modes=asking("default", "bypassPermissions"),
    ),
)

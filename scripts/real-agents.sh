#!/usr/bin/env bash
# Install the agent programs that the presets are tested against, at the versions that docs/agents.md names.
# The folder: $RELAY_REAL_AGENTS, else relay/agents-cli in the user's cache. Prints the folder of the programs.
set -euo pipefail

CLAUDE=2.1.330
CODEX=0.169.0
GEMINI=0.61.0
# The adapters through which claude and codex speak the Agent Client Protocol; gemini speaks it itself.
CLAUDE_ACP=0.100.0
CODEX_ACP=2.6.0
folder="${RELAY_REAL_AGENTS:-${XDG_CACHE_HOME:-$HOME/.cache}/relay/agents-cli}"
stamp="$folder/versions"
wanted="claude $CLAUDE codex $CODEX gemini $GEMINI claude-acp $CLAUDE_ACP codex-acp $CODEX_ACP"

if [ "${1:-}" = "--versions" ]; then
  printf 'claude %s\ncodex %s\ngemini %s\n' "$CLAUDE" "$CODEX" "$GEMINI"
  printf 'claude-agent-acp %s\ncodex-acp %s\n' "$CLAUDE_ACP" "$CODEX_ACP"
  exit 0
fi
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
  command -v npm >/dev/null || { echo "real-agents.sh: npm is missing; install Node.js 20 or newer" >&2; exit 1; }
  mkdir -p "$folder"
  rm -f "$stamp"
  npm install --prefix "$folder" --no-save --no-audit --no-fund --loglevel=error \
    "@anthropic-ai/claude-code@$CLAUDE" "@openai/codex@$CODEX" "@google/gemini-cli@$GEMINI" >&2
  # Without the programs that they bring along: the tests point them to those above (CLAUDE_CODE_EXECUTABLE,
  # CODEX_PATH), which saves most of a gigabyte.
  npm install --prefix "$folder/acp" --omit=optional --no-save --no-audit --no-fund --loglevel=error \
    "@agentclientprotocol/claude-agent-acp@$CLAUDE_ACP" "@agentclientprotocol/codex-acp@$CODEX_ACP" >&2
  # npm may be set up to run no install scripts; this one puts the program in its place.
  node "$folder/node_modules/@anthropic-ai/claude-code/install.cjs" >&2
  echo "$wanted" > "$stamp"
fi
echo "$folder/node_modules/.bin"

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
# They want a Node.js of 22.19 or newer: where the machine's is older, npm has one.
PI=1.6.0
QWEN=0.24.4
NODE=22.23.3
# Official MCP clients of before 2025-11-25: they speak 2025-03-26 (Python, with a pydantic that it takes) and 2025-06-18.
MCP_PYTHON="mcp==1.9.4 pydantic==2.11.7"
MCP_NODE="@modelcontextprotocol/sdk@1.17.5"
folder="${RELAY_REAL_AGENTS:-${XDG_CACHE_HOME:-$HOME/.cache}/relay/agents-cli}"
stamp="$folder/versions"
wanted="claude $CLAUDE codex $CODEX gemini $GEMINI claude-acp $CLAUDE_ACP codex-acp $CODEX_ACP"

if [ "${1:-}" = "--versions" ]; then
  printf 'claude %s\ncodex %s\ngemini %s\n' "$CLAUDE" "$CODEX" "$GEMINI"
  printf 'claude-agent-acp %s\ncodex-acp %s\npi %s\nqwen %s\n' "$CLAUDE_ACP" "$CODEX_ACP" "$PI" "$QWEN"
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
if [ "$(cat "$folder/mcp/versions" 2>/dev/null)" != "$MCP_PYTHON $MCP_NODE" ]; then
  mkdir -p "$folder/mcp"
  rm -f "$folder/mcp/versions"
  npm install --prefix "$folder/mcp" --no-save --no-audit --no-fund --loglevel=error "$MCP_NODE" >&2
  "$(command -v "${RELAY_PYTHON:-python3}")" -m venv --clear "$folder/mcp/venv" >&2
  # shellcheck disable=SC2086 # two words
  "$folder/mcp/venv/bin/python" -m pip install --quiet --disable-pip-version-check $MCP_PYTHON >&2
  echo "$MCP_PYTHON $MCP_NODE" > "$folder/mcp/versions"
fi
newer="$folder/newer"
if [ "$(cat "$newer/versions" 2>/dev/null)" != "pi $PI qwen $QWEN" ]; then
  mkdir -p "$newer/bin"
  rm -f "$newer/versions"
  packages=("@earendil-works/pi-coding-agent@$PI" "@qwen-code/qwen-code@$QWEN")
  node="$(command -v node)"
  if ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 22 || (a == 22 && b >= 19) ? 0 : 1)'; then
    package="node-$(node -p 'process.platform + "-" + process.arch')"
    packages+=("$package@$NODE")
    node="$newer/node_modules/$package/bin/node"
  fi
  npm install --prefix "$newer" --no-save --no-audit --no-fund --loglevel=error "${packages[@]}" >&2
  for program in pi qwen; do
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$node" "$newer/node_modules/.bin/$program" > "$newer/bin/$program"
    chmod +x "$newer/bin/$program"
  done
  echo "pi $PI qwen $QWEN" > "$newer/versions"
fi
echo "$folder/node_modules/.bin"

// Loaded into pi for one turn (relay/agents/programs/pi.py). Before an edit or a command of its shell it asks whoever
// started pi, by a dialog of its RPC mode, in the words of Claude Code's hooks; and it names the room's MCP server.

const ASKED = { edit: "Edit", write: "Write", bash: "Bash" };

export default function (pi) {
  const notes = new Map();
  pi.registerFlag("relay-mcp", { type: "string", description: "relay's MCP server, as JSON" });
  pi.on("session_start", () => {
    const server = pi.getFlag("relay-mcp");
    // pi hands a server few of its variables. Who speaks in which room is in ours.
    const names = Object.keys(process.env).filter((name) => name.startsWith("RELAY_"));
    const env = Object.fromEntries(names.map((name) => [name, "${" + name + "}"]));
    if (server) pi.registerMcpServer?.("relay", { ...JSON.parse(server), env }); // older versions have no MCP client
  });
  pi.on("tool_call", async (event, ctx) => {
    const tool = ASKED[event.toolName];
    if (!tool) return;
    const input = { ...event.input };
    if (Array.isArray(input.edits))
      input.edits = input.edits.map((edit) => ({ old_string: edit.oldText, new_string: edit.newText }));
    const answer = await ctx.ui.input("relay", JSON.stringify({ tool, input, cwd: ctx.cwd }));
    const { reason, note } = JSON.parse(answer || "{}");
    if (reason) return { block: true, reason };
    if (note) notes.set(event.toolCallId, note);
  });
  pi.on("tool_result", (event) => {
    const note = notes.get(event.toolCallId);
    if (note) return { content: [...event.content, { type: "text", text: note }] };
  });
}

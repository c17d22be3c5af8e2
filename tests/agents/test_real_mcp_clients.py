"""Official MCP clients of before 2025-11-25, against `relay mcp` and against a running room's `/mcp`.

Those of today, of both eras, are in tests/faces/mcp/test_server.py and tests/faces/http/test_mcp.py.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.outside import Json, room, settings

pytestmark = pytest.mark.real_agents

#: Each does the same in its own words, over standard input and output, then over HTTP, and prints what it was told.
PYTHON = """
import asyncio, json, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
command, args, env, cwd, url, key, heard = *json.loads(sys.argv[1]), []
async def talk(read, write):
    async with ClientSession(read, write) as session:
        hello = await session.initialize()
        async def call(name, **given):
            told = await session.call_tool(name, given)
            return [bool(told.isError), json.loads(told.content[0].text)]
        locks = await session.read_resource("locks://current")
        return {"version": hello.protocolVersion, "server": hello.serverInfo.name,
            "tools": [one.name for one in (await session.list_tools()).tools],
            "lock": await call("acquire_lock", file_path="a.py"), "bad": await call("acquire_lock", ttl_minutes=1),
            "who": await call("who"), "resource": json.loads(locks.contents[0].text)}
async def main():
    async with stdio_client(StdioServerParameters(command=command, args=args, env=env, cwd=cwd)) as (read, write):
        async with streamablehttp_client(url, headers={"X-API-Key": key}) as (far_read, far_write, _):
            heard.append(await talk(read, write))
            heard.append(await talk(far_read, far_write))
asyncio.run(main())
print(json.dumps(heard))
"""
NODE = """
const [root, given] = process.argv.slice(2)
const sdk = (part) => import(`${root}/node_modules/@modelcontextprotocol/sdk/dist/esm/client/${part}.js`)
const [{ Client }, { StdioClientTransport }, { StreamableHTTPClientTransport }] =
  await Promise.all(["index", "stdio", "streamableHttp"].map(sdk))
const [command, args, env, cwd, url, key] = JSON.parse(given)
const near = new StdioClientTransport({ command, args, env, cwd })
const far = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { "X-API-Key": key } } })
let versions = []
for (const one of [near, far]) one.setProtocolVersion = ((set) => (version) => {
  versions.push(version)
  set?.call(one, version)
})(one.setProtocolVersion)
const clients = [], heard = []
for (const one of [near, far]) {
  const client = new Client({ name: "old", version: "1" })
  await client.connect(one)
  clients.push(client)
  const call = async (name, given) => {
    const told = await client.callTool({ name, arguments: given })
    if (JSON.stringify(told.structuredContent) !== JSON.stringify(JSON.parse(told.content[0].text))) throw told
    return [Boolean(told.isError), told.structuredContent]
  }
  heard.push({
    version: versions.at(-1), server: client.getServerVersion().name,
    tools: (await client.listTools()).tools.map((one) => one.name),
    lock: await call("acquire_lock", { file_path: "a.py" }), bad: await call("acquire_lock", { ttl_minutes: 1 }),
    who: await call("who", {}),
    resource: JSON.parse((await client.readResource({ uri: "locks://current" })).contents[0].text),
  })
}
for (const client of clients) await client.close()
console.log(JSON.stringify(heard))
"""


@pytest.mark.parametrize(("client", "version"), [("python", "2025-03-26"), ("node", "2025-06-18")])
async def test_an_official_client_of_the_era_before(
    old_mcp_clients: Path, tmp_path: Path, client: str, version: str
) -> None:
    async with room(tmp_path / "room", settings()) as one:
        await one.start()
        script = tmp_path / f"client.{'mjs' if client == 'node' else 'py'}"
        script.write_text(NODE if client == "node" else PYTHON)
        words = ["-m", "relay.app.mcp.command", "--agent", "OLD", "--config", str(one.path)]
        given = [sys.executable, words, one.environ({}), str(one.folder), f"{one.url}/mcp", one.token]
        program = (
            ("node", script, old_mcp_clients)
            if client == "node"
            else (old_mcp_clients / "venv/bin/python", script)
        )
        process = await asyncio.create_subprocess_exec(
            *map(str, program),
            json.dumps(given),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(120):
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        near, far = json.loads(out)
    for told in (near, far):
        assert (told["version"], told["server"]) == (version, "relay")
        assert len(told["tools"]) == 25
        assert told["bad"][0] and told["bad"][1]["reason"] == "bad_request", told["bad"]
        held: list[Json] = told["resource"]
        assert [(lock["file_path"], lock["locked_by"]) for lock in held] in ([], [("a.py", "OLD")])
    assert not near["lock"][0] and near["lock"][1]["success"] and near["who"][1]["you"]["agent_id"] == "OLD"
    # The same room by the other way, as another.
    assert not far["lock"][0] and far["lock"][1]["locked_by"] == "OLD"

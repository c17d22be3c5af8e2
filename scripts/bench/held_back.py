"""A Unix socket that leads to another one, and gives each packet on a while after it came: a server that is far away.

`python -m scripts.bench.held_back LISTEN TARGET DELAY_MS`, until it is killed.
"""

from __future__ import annotations

import asyncio
import sys


async def _lead(listen: str, target: str, delay_s: float) -> None:
    loop = asyncio.get_running_loop()

    async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while packet := await reader.read(1 << 16):
                loop.call_later(delay_s, writer.write, packet)
        except ConnectionError:
            pass
        loop.call_later(delay_s, writer.close)

    async def both_ways(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, here = await asyncio.open_unix_connection(target)
        except OSError:
            writer.close()
        else:
            await asyncio.gather(one_way(reader, here), one_way(there, writer))

    async with await asyncio.start_unix_server(both_ways, listen) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_lead(sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1e3))

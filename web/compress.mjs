/** Beside each file of the built page, what the daemon sends of it to a browser that takes brotli or gzip. */

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { brotliCompressSync, gzipSync } from "node:zlib";

const built = new URL("../relay/faces/static/", import.meta.url);
for (const name of readdirSync(built, { recursive: true })) {
  if (!/\.(css|html|js|svg)$/.test(name)) continue; // fonts are compressed in themselves
  const bytes = readFileSync(new URL(name, built));
  writeFileSync(new URL(`${name}.br`, built), brotliCompressSync(bytes));
  writeFileSync(new URL(`${name}.gz`, built), gzipSync(bytes, { level: 9 }));
}

/** `marked` as the modules that it is made of, which stand in its source map: the page needs its lexer, and not the rest. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const made = new URL("node_modules/.marked/", import.meta.url);
const map = JSON.parse(readFileSync(new URL("node_modules/marked/lib/marked.esm.js.map", import.meta.url), "utf8"));

mkdirSync(made, { recursive: true });
map.sources.forEach((path, i) => writeFileSync(new URL(path.split("/").pop(), made), map.sourcesContent[i]));
writeFileSync(new URL("index.ts", made), `export { _Lexer as Lexer } from "./Lexer.ts";\nexport { _getDefaults as getDefaults } from "./defaults.ts";\n`);

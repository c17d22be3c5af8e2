/** `marked` as the modules that it is made of, which stand in its source map: the page needs its lexer, and not the rest. Of
 * the lexer it needs no mode but GitHub's: what only the strict old one has (`pedantic`) is left out. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const made = new URL("node_modules/.marked/", import.meta.url);
const map = JSON.parse(readFileSync(new URL("node_modules/marked/lib/marked.esm.js.map", import.meta.url), "utf8"));

mkdirSync(made, { recursive: true });
const withoutOld = (code) =>
  code
    .replaceAll("this.options.pedantic", "false")
    .replace("rules.block = block.pedantic;", "")
    .replace("rules.inline = inline.pedantic;", "")
    .replace(/^  pedantic: \w+,\n/gm, "")
    .replace(/^const \w+Pedantic\w*\b(?:.*[^;\n]\n|\n)*.*;\n/gm, "");
map.sources.forEach((path, i) => writeFileSync(new URL(path.split("/").pop(), made), withoutOld(map.sourcesContent[i])));
writeFileSync(new URL("index.ts", made), `export { _Lexer as Lexer } from "./Lexer.ts";\nexport { _getDefaults as getDefaults } from "./defaults.ts";\n`);

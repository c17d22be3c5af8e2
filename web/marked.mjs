/** `marked` as the modules that it is made of, which stand in its source map: the page needs its lexer, and not the rest. Of
 * the lexer it needs no mode but GitHub's with line breaks: what only the others have (`pedantic`) is left out, and so are
 * kinds of extensions that the page has none of (text/markdown.ts), and expressions that nothing of the lexer reads. */

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
const withoutUnused = (code) =>
  code
    .replaceAll("this.options.gfm", "true")
    .replaceAll("this.options.breaks", "true")
    .replaceAll("this.options.silent", "false")
    .replaceAll("this.options.hooks?.emStrongMask", "null")
    .replaceAll("this.options.extensions?.block?", "null?")
    .replaceAll("this.options.extensions?.startBlock", "null")
    .replace(/^  static (?:get rules|lexInline)\b.*\n(?: {4}.*\n)*  \}\n/gm, "")
    .replace(/^  (?:escape\w+|percentDecode|outputLinkReplace|notSpaceStart|endingNewline): .*,\n/gm, "");
map.sources.forEach((path, i) => writeFileSync(new URL(path.split("/").pop(), made), withoutUnused(withoutOld(map.sourcesContent[i]))));
writeFileSync(new URL("index.ts", made), `export { _Lexer as Lexer } from "./Lexer.ts";\nexport { _getDefaults as getDefaults } from "./defaults.ts";\n`);

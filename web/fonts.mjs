/** The letters that nearly every text is written with, as small files: they come first, and the whole ones by need. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import subsetFont from "subset-font";

const LETTERS = Array.from({ length: 95 }, (_, i) => String.fromCharCode(0x20 + i)).join("");
/** Of no use on a page: what lays out marks that these letters do not have, and what programs list a font's styles by. */
const UNUSED = ["GDEF", "GPOS", "STAT", "MVAR"];
/** As `unicode-range` in fonts.css has them. */
const MARKS = "\u00a0§±·×\u2013\u2014‘’“”•…↑↓\u2212";
const made = new URL("node_modules/.fonts/", import.meta.url);

async function subset(source, name, options) {
  const whole = readFileSync(new URL(`node_modules/${source}`, import.meta.url));
  writeFileSync(new URL(name, made), await subsetFont(whole, LETTERS + MARKS, { targetFormat: "woff2", noHinting: true, dropTables: UNUSED, ...options }));
}

mkdirSync(made, { recursive: true });
/** Without kerning, whose pairs are a third of the file: at a page's sizes it moves a letter by less than a pixel. */
const SANS = { keepFeatures: ["liga", "ccmp", "mark"], variationAxes: { wght: { min: 400, max: 700 } } };
const sans = "@fontsource-variable/ibm-plex-sans/files/ibm-plex-sans-latin-wght";
await subset(`${sans}-normal.woff2`, "sans.woff2", SANS);
await subset(`${sans}-italic.woff2`, "sans-italic.woff2", SANS);
for (const weight of [400, 600])
  await subset(`@fontsource/ibm-plex-mono/files/ibm-plex-mono-latin-${weight}-normal.woff2`, `mono-${weight}.woff2`, { keepFeatures: ["ccmp", "mark"] });

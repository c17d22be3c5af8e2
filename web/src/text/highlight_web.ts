/** The languages that stand within each other: a page's styles and scripts, Markdown's HTML, a script's JSX. */

import type { HLJSApi } from "highlight.js";
import css from "highlight.js/lib/languages/css";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";

export default function register(hljs: HLJSApi): void {
  for (const [name, definition] of Object.entries({ css, javascript, json, markdown, typescript, xml })) hljs.registerLanguage(name, definition);
}

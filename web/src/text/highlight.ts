/** Code colours. Loaded on first need only: it is larger than the rest of the page. */

import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const languages = {
  bash, c, cpp, css, diff, dockerfile, go, ini, java, javascript, json, markdown, python, ruby, rust, sql, typescript,
  xml, yaml,
};
for (const [name, definition] of Object.entries(languages)) hljs.registerLanguage(name, definition);
hljs.registerAliases(["console", "shell-session"], { languageName: "bash" });

/** Colours one `code` element in place; an unknown language stays plain. highlight.js escapes what it writes. */
export function colour(code: HTMLElement, language: string): void {
  if (!hljs.getLanguage(language)) return;
  code.innerHTML = hljs.highlight(code.textContent ?? "", { language, ignoreIllegals: true }).value;
}

/** The lines of a text as coloured markup, each whole in itself; null for an unknown language. */
export function colouredLines(text: string, language: string): string[] | null {
  if (!hljs.getLanguage(language)) return null;
  const open: string[] = [];
  return hljs.highlight(text, { language, ignoreIllegals: true }).value.split("\n").map((line) => {
    const before = open.join("");
    for (const tag of line.match(/<span[^>]*>|<\/span>/g) ?? []) tag === "</span>" ? open.pop() : open.push(tag);
    return before + line + "</span>".repeat(open.length);
  });
}

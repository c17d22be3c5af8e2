/** Code colours. They are loaded on first need, and each language with the first code in it. */

import type { LanguageFn } from "highlight.js";
import hljs from "highlight.js/lib/core";

type File = Promise<{ default: LanguageFn }>;
const as = (name: string, load: () => File) => () => load().then((file) => hljs.registerLanguage(name, file.default));
const web = (): Promise<void> => import("./highlight_web").then((file) => file.default(hljs));
/** What a language is called, and how it comes. The first name is highlight.js's own. */
const LANGUAGES: readonly (readonly [string, () => Promise<void>])[] = [
  ["bash sh zsh console shell-session", as("bash", () => import("highlight.js/lib/languages/bash"))],
  ["c h", as("c", () => import("highlight.js/lib/languages/c"))],
  ["cpp cc c++ h++ hpp hh hxx cxx", as("cpp", () => import("highlight.js/lib/languages/cpp"))],
  ["diff patch", as("diff", () => import("highlight.js/lib/languages/diff"))],
  ["dockerfile docker", as("dockerfile", () => import("highlight.js/lib/languages/dockerfile"))],
  ["go golang", as("go", () => import("highlight.js/lib/languages/go"))],
  ["ini toml", as("ini", () => import("highlight.js/lib/languages/ini"))],
  ["java jsp", as("java", () => import("highlight.js/lib/languages/java"))],
  ["python py gyp ipython", as("python", () => import("highlight.js/lib/languages/python"))],
  ["ruby rb gemspec podspec thor irb", as("ruby", () => import("highlight.js/lib/languages/ruby"))],
  ["rust rs", as("rust", () => import("highlight.js/lib/languages/rust"))],
  ["sql", as("sql", () => import("highlight.js/lib/languages/sql"))],
  ["yaml yml", as("yaml", () => import("highlight.js/lib/languages/yaml"))],
  ["css", web],
  ["javascript js jsx mjs cjs", web],
  ["json jsonc json5", web],
  ["markdown md mkdown mkd", web],
  ["typescript ts tsx mts cts", web],
  ["xml html xhtml rss atom xjb xsd xsl plist wsf svg", web],
];

/** highlight.js's name of a language, once it is there; null for an unknown one, and where it cannot be loaded. */
async function known(language: string): Promise<string | null> {
  const [names, load] = LANGUAGES.find(([names]) => names.split(" ").includes(language)) ?? [];
  const name = names?.split(" ")[0];
  if (!name || !load) return null;
  if (!hljs.getLanguage(name)) await load().catch(() => undefined);
  return hljs.getLanguage(name) ? name : null;
}

/** Colours one `code` element in place; an unknown language stays plain. highlight.js escapes what it writes. */
export async function colour(code: HTMLElement, language: string): Promise<void> {
  const name = await known(language);
  if (name) code.innerHTML = hljs.highlight(code.textContent ?? "", { language: name, ignoreIllegals: true }).value;
}

/** The lines of a text as coloured markup, each whole in itself; null for an unknown language. */
export async function colouredLines(text: string, language: string): Promise<string[] | null> {
  const name = await known(language);
  if (!name) return null;
  const open: string[] = [];
  return hljs.highlight(text, { language: name, ignoreIllegals: true }).value.split("\n").map((line) => {
    const before = open.join("");
    for (const tag of line.match(/<span[^>]*>|<\/span>/g) ?? []) tag === "</span>" ? open.pop() : open.push(tag);
    return before + line + "</span>".repeat(open.length);
  });
}

/**
 * Text of agents and people -> a fragment that is safe to mount.
 *
 * Three walls: HTML in the source is shown as the text it is (no HTML token is ever rendered), the output of
 * the renderer passes DOMPurify with a short list of tags and attributes, and the page's CSP runs no inline
 * script. Pictures become links: nothing is loaded from elsewhere because somebody wrote a message.
 */

import DOMPurify from "dompurify";
import { Marked, type Tokens } from "marked";
import { readRef, ref, type Reference } from "./reference";

const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (text: string): string => text.replace(/[&<>"']/g, (c) => ESCAPES[c]!);
const SAFE_URL = /^(?:https?:|mailto:)/i;

let isAgent: (name: string) => boolean = () => false;

/** Which names count as mentions; read at every rendering. */
export function setMentions(test: (name: string) => boolean): void {
  isAgent = test;
}

const mention = {
  name: "mention",
  level: "inline" as const,
  start: (src: string) => /(?<![\w.@])@\w/.exec(src)?.index,
  tokenizer(src: string): Tokens.Generic | undefined {
    const match = /^@([A-Za-z][\w-]*)(?![\w.]*@)/.exec(src);
    if (!match || !(isAgent(match[1]!) || match[1]!.toLowerCase() === "all")) return undefined;
    return { type: "mention", raw: match[0], name: match[1] };
  },
  renderer: (token: Tokens.Generic) => `<b class="mention">@${escape(String(token.name))}</b>`,
};

/** What a bare `#N` of the text that is being rendered stands for. */
let numbers: "messages" | "tasks" = "messages";
/** It is the room's own text: its references are always ones. Letters: those of these things are, in small letters, as
 * the room writes them. What it quotes may name the R2 of somebody else. */
export type Own = boolean | "r" | "rva";
let own: Own = false;

let isThere: (reference: Reference) => boolean = () => false;

/** Which `m14`, `t14`, `j14`, `h14`, `v14`, `a14` in people's words are references: what the room has; read at every rendering. */
export function setReferences(test: (reference: Reference) => boolean): void {
  isThere = test;
}

/** `m12` or `#12` is a message, `t12` or `task #12` a task of the board, `j12` or `job #12` a row of the
 * queue, `h12` or `handoff #12` a handoff, `v12` a verification, `a12` an approval. */
const reference = {
  name: "reference",
  level: "inline" as const,
  start: (src: string) => /(?<![\w&/#.@-])(?:(?:(?:tasks?|jobs?|handoffs?)[ \u00a0])?#\d|#?[mtjhrva]\d)/i.exec(src)?.index,
  tokenizer(src: string): Tokens.Generic | undefined {
    const match = /^(?:(tasks?|jobs?|handoffs?)[ \u00a0])?(#\d{1,9}|#?[mtjhrva]\d{1,9})(?![\w-]|\.\w)/.exec(src);
    if (!match) return undefined;
    const word = match[1]?.[0] as "t" | "j" | "h" | undefined;
    const found = readRef(match[2]!, word ?? (numbers === "tasks" ? "t" : "m"));
    if (!found) return undefined;
    // A letter and a digit is also the name of a chip or a paper size.
    const sure = typeof own === "string" ? own.includes(match[2]![0]!) : own;
    if (!match[2]!.startsWith("#") && !sure && numbers !== "tasks" && !isThere(found)) return undefined;
    return { type: "reference", raw: match[0], text: match[0], target: `#${ref(found.thing, found.number)}` };
  },
  renderer: (token: Tokens.Generic) => `<a class="ref" href="${String(token.target)}">${escape(String(token.text))}</a>`,
};

const marked = new Marked({
  gfm: true,
  breaks: true,
  extensions: [mention, reference],
  renderer: {
    html: ({ text }) => escape(text),
    image: ({ href, text }) =>
      SAFE_URL.test(href) ? `<a href="${escape(href)}">${escape(text || href)}</a>` : escape(text || href),
    link({ href, title, tokens }) {
      const inner = this.parser.parseInline(tokens);
      if (!SAFE_URL.test(href)) return inner;
      return `<a href="${escape(href)}"${title ? ` title="${escape(title)}"` : ""}>${inner}</a>`;
    },
    checkbox: ({ checked }) => `<span class="check">${checked ? "☑" : "☐"}</span> `,
  },
});

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  if (node.getAttribute("href")?.startsWith("#")) return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

const ALLOWED = {
  ALLOWED_TAGS: [
    "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "b", "i", "del", "code", "pre", "blockquote",
    "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "a", "span",
  ],
  ALLOWED_ATTR: ["href", "title", "class", "align", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#[mtjhrva]\d+$)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

export function renderMarkdown(text: string, bareNumbers: typeof numbers = "messages", rooms: Own = false): DocumentFragment {
  numbers = bareNumbers;
  own = rooms;
  return DOMPurify.sanitize(marked.parse(text, { async: false }), ALLOWED);
}

/** One line of plain text for quotes and notices. */
export function plainLine(text: string, length = 140): string {
  const line = text
    .slice(0, length * 4)
    .replace(/^ {0,3}(?:#{1,6}\s|>\s?)/gm, "")
    .replace(/```[\w-]*|`|\*\*|~~|^[|:\s-]+$/gm, " ")
    .replace(/(?<!\w)[*_]+(?=\w)|(?<=\w)[*_]+(?!\w)/g, "")
    .replace(/\s+/g, " ")
    .trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

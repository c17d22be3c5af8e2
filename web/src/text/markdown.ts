/**
 * Text of agents and people -> a fragment that is safe to mount.
 *
 * Three walls: HTML in the source is shown as the text it is (no HTML token is ever rendered), the output of
 * the renderer passes DOMPurify with a short list of tags and attributes, and the page's CSP runs no inline
 * script. Pictures become links: nothing is loaded from elsewhere because somebody wrote a message.
 */

import DOMPurify from "dompurify";
import { Marked, type Tokens } from "marked";

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

const reference = {
  name: "reference",
  level: "inline" as const,
  start: (src: string) => /(?<![\w&/#])#\d/.exec(src)?.index,
  tokenizer(src: string): Tokens.Generic | undefined {
    const match = /^#(\d{1,9})(?!\w)/.exec(src);
    return match ? { type: "reference", raw: match[0], number: match[1] } : undefined;
  },
  renderer: (token: Tokens.Generic) => `<a class="ref" href="#${token.number}">#${token.number}</a>`,
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
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#\d+$)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
};

export function renderMarkdown(text: string): DocumentFragment {
  return DOMPurify.sanitize(marked.parse(text, { async: false }), ALLOWED);
}

/** One line of plain text for quotes and notices. */
export function plainLine(text: string, length = 140): string {
  const line = text
    .slice(0, length * 4)
    .replace(/```[\w-]*\n?/g, " ")
    .replace(/[*_`>#]+(?=\S)|(?<=\S)[*_`]+/g, "")
    .replace(/\s+/g, " ")
    .trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

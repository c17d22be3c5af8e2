/**
 * Text of agents and people -> nodes that are safe to mount.
 *
 * Two walls: the nodes are made one by one from what `marked` reads, of the tags and attributes that are named here and
 * no others, so no text is ever read as HTML (HTML in the source is shown as the text it is); and the page's CSP runs no
 * inline script. Pictures of elsewhere become links: nothing is loaded from there because somebody wrote a message.
 */

import { getDefaults, Lexer, type MarkedOptions, type MarkedToken, type Token, type Tokens } from "marked";
import { readRef, ref, type Reference } from "./reference";

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
};

/** A file with lines, as people and agents write them: `src/app.py:12`, `src/app.py:12-20`. Without a folder it has an
 * ending that code has: `localhost.x:80` is a port. */
const PLACE = /^((?:[\w@.+-]*\/)+[\w@.+-]*\w|[\w.+-]+\.(?:py|tsx?|jsx?|mjs|cjs|go|rs|java|kt|rb|c|h|cc|cpp|hpp|cs|swift|php|sql|sh|css|html|json|ya?ml|toml|md|proto))(?::(\d{1,9})(?:-(\d{1,9}))?)(?![\w/:-]|\.\w)/;

const place = {
  name: "place",
  level: "inline" as const,
  start: (src: string) => /(?<![\w@./:+-])[\w@./+-]+:\d/.exec(src)?.index,
  tokenizer(src: string): Tokens.Generic | undefined {
    const match = PLACE.exec(src);
    return match ? { type: "place", raw: match[0], text: match[0] } : undefined;
  },
};

/** A way to the code as of then; who mounts it knows the message (rooms/code.ts). */
function placeLink(text: string): HTMLElement {
  const made = document.createElement("a");
  made.className = "place";
  made.setAttribute("href", `#code/${encodeURIComponent(text)}`);
  made.textContent = text;
  return made;
}

const OPTIONS: MarkedOptions = {
  ...getDefaults(),
  breaks: true,
  extensions: {
    renderers: {},
    childTokens: {},
    inline: [mention.tokenizer, reference.tokenizer, place.tokenizer],
    startInline: [mention.start, reference.start, place.start],
  },
};

/** Characters that are gone through at once: what `marked` and the rules above cost grows with their square. */
const AT_ONCE = 1000;

/** Reads a long text without an empty line in pieces, each of which begins at a line or a word. */
class Reader extends Lexer {
  override inlineTokens(src: string, tokens: Token[] = []): Token[] {
    let rest = src;
    while (rest.length > 4 * AT_ONCE) {
      const line = rest.lastIndexOf("\n", AT_ONCE);
      const end = line > 0 ? line : rest.lastIndexOf(" ", AT_ONCE);
      const piece = rest.slice(0, end > 0 ? end : AT_ONCE);
      super.inlineTokens(piece, tokens);
      rest = rest.slice(piece.length);
    }
    return super.inlineTokens(rest, tokens);
  }
}

/** `&amp;` and its like as the characters they stand for. A textarea's content is text, whatever it says. */
function decoded(text: string): string {
  return text.replace(/&(?:#\d{1,7}|#[Xx][a-fA-F0-9]{1,6}|\w+);/g, (said) => {
    const area = document.createElement("textarea");
    area.innerHTML = said;
    return area.value;
  });
}

function element(tag: string, children: readonly Token[] | undefined, into: Node): HTMLElement {
  const made = document.createElement(tag);
  if (children) build(children, made);
  into.appendChild(made);
  return made;
}

/** There is no link within a link. */
const isLinked = (into: Node): boolean => into instanceof Element && into.closest("a") !== null;

/** A file of this room that a message names (relay/room/parsing/file_names.py): its address here, else null. */
function fileOf(href: string, name: string): string | null {
  const id = /^relay-file:([0-9a-f]{64}\.[a-z0-9]{1,8})$/.exec(href)?.[1];
  return id ? `/api/files/${id}?name=${encodeURIComponent(name || "file")}` : null;
}

/** A picture of the room's own, which opens whole; another file is a download. */
function fileLink(address: string, name: string, picture: boolean, into: Node): void {
  const made = element("a", undefined, into) as HTMLAnchorElement;
  made.href = address;
  made.className = picture ? "file-picture" : "file-link";
  if (picture) {
    const image = element("img", undefined, made) as HTMLImageElement;
    image.alt = name;
    image.loading = "lazy";
    image.src = address;
    made.target = "_blank";
    made.rel = "noopener noreferrer";
  } else {
    made.textContent = name;
    made.download = name;
  }
}

/** Where its text goes: into a link, or where that leads to nothing of the web, beside. */
function link(href: string, title: string | null | undefined, into: Node): Node {
  if (!SAFE_URL.test(href) || isLinked(into)) return into;
  const made = element("a", undefined, into) as HTMLAnchorElement;
  made.href = href;
  if (title) made.title = decoded(title);
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  return made;
}

function cells(row: readonly Tokens.TableCell[], tag: string, into: Node): void {
  const line = element("tr", undefined, into);
  for (const cell of row) {
    const made = element(tag, cell.tokens, line);
    if (cell.align) made.setAttribute("align", cell.align);
  }
}

/** The nodes of each token, behind those that `into` has. What is none of these is shown as it was written. */
function build(tokens: readonly Token[], into: Node): void {
  for (const any of tokens) {
    const token = any as MarkedToken;
    switch (token.type) {
      case "space":
      case "def":
        break;
      case "paragraph":
        element("p", token.tokens, into);
        break;
      case "strong":
      case "em":
      case "del":
      case "blockquote":
        element(token.type, token.tokens, into);
        break;
      case "hr":
      case "br":
        element(token.type, undefined, into);
        break;
      case "heading":
        element(`h${token.depth}`, token.tokens, into);
        break;
      case "text":
        if ("tokens" in token && token.tokens) build(token.tokens, into);
        else into.appendChild(document.createTextNode(decoded(token.text)));
        break;
      case "escape":
        into.appendChild(document.createTextNode(decoded(token.text)));
        break;
      case "codespan":
        if (PLACE.exec(token.text)?.[0] === token.text && !isLinked(into)) element("code", undefined, into).appendChild(placeLink(token.text));
        else element("code", undefined, into).textContent = token.text;
        break;
      case "code": {
        const code = element("code", undefined, element("pre", undefined, into));
        const language = /^\S+/.exec(token.lang ?? "");
        if (language) code.className = `language-${language[0]}`;
        code.textContent = token.text && `${token.text.replace(/\n$/, "")}\n`;
        break;
      }
      case "list": {
        const list = element(token.ordered ? "ol" : "ul", undefined, into);
        if (token.ordered && token.start !== 1) list.setAttribute("start", String(token.start));
        for (const item of token.items) element("li", item.tokens, list);
        break;
      }
      case "checkbox":
        element("span", undefined, into).className = "check";
        into.lastChild!.textContent = token.checked ? "☑" : "☐";
        into.appendChild(document.createTextNode(" "));
        break;
      case "table": {
        const table = element("table", undefined, into);
        cells(token.header, "th", element("thead", undefined, table));
        if (token.rows.length) {
          const body = element("tbody", undefined, table);
          for (const row of token.rows) cells(row, "td", body);
        }
        break;
      }
      case "link": {
        const file = fileOf(token.href, token.text);
        if (file && !isLinked(into)) {
          fileLink(file, decoded(token.text), false, into);
          break;
        }
        // A bare address is what it says, without Markdown in it.
        const inner = link(token.autolink ? token.href : decoded(token.href), token.title, into);
        if (token.autolink) inner.appendChild(document.createTextNode(token.text));
        else build(token.tokens, inner);
        break;
      }
      case "image": {
        const file = fileOf(token.href, token.text);
        if (file && !isLinked(into)) {
          fileLink(file, decoded(token.text), /\.(?:png|jpg|gif|webp)\?/.test(file), into);
          break;
        }
        const inner = link(decoded(token.href), null, into);
        inner.appendChild(document.createTextNode(decoded(token.text || token.href)));
        break;
      }
      default:
        into.appendChild((!isLinked(into) && ofRoom(any)) || document.createTextNode("text" in any ? String(any.text) : any.raw));
    }
  }
}

/** The nodes of what this room's texts have beside Markdown. */
function ofRoom(token: Tokens.Generic): HTMLElement | null {
  if (token.type === "mention") {
    const made = document.createElement("b");
    made.className = "mention";
    made.textContent = `@${token.name}`;
    return made;
  }
  if (token.type === "place") return placeLink(String(token.text));
  if (token.type !== "reference") return null;
  const made = document.createElement("a");
  made.className = "ref";
  made.setAttribute("href", String(token.target));
  made.textContent = String(token.text);
  return made;
}

export function renderMarkdown(text: string, bareNumbers: typeof numbers = "messages", rooms: Own = false): DocumentFragment {
  numbers = bareNumbers;
  own = rooms;
  const made = document.createDocumentFragment();
  try {
    build(new Reader(OPTIONS).lex(text), made);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    // Thousands of quotes or lists within each other: `marked` calls itself for each.
    made.replaceChildren();
    element("p", undefined, made).textContent = text;
  }
  return made;
}

/** What stands before the words of who ordered something of agents by a command; and what comments on a branch begin with. As in relay/room/dispatch/view_queries.py. */
const ORDER = /^\s*\/(?:steer|review)\s+(?:@[\w-]+[,:]*\s+)+(?:(\d+ comments? on) `[^`\n]+` at [0-9a-f]+[^:\n]*)?/i;

/** What an entry says, in one line, without the command that it was ordered by; "deleted" where its author deleted it. */
export const inOneLine = (entry: { body: string; meta: { deleted?: unknown } }, length: number): string =>
  entry.meta.deleted ? "deleted" : plainLine(entry.body.replace(ORDER, (_, comments?: string) => (comments ? `${comments} your branch` : "")), length);

/** One line of plain text for quotes and notices. */
export function plainLine(text: string, length = 140): string {
  const line = text
    .slice(0, length * 4)
    .replace(/!?\[([^[\]\n]*)\]\([^()\s]*\)/g, "$1")
    .replace(/^ {0,3}(?:#{1,6}\s|>\s?)/gm, "")
    .replace(/```[\w-]*|^[|:\s-]+$/gm, " ")
    .replace(/`|\*\*|~~/g, "")
    .replace(/(?<!\w)[*_]+(?=\w)|(?<=\w)[*_]+(?!\w)/g, "")
    .replace(/\s+/g, " ")
    .trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

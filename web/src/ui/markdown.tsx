/** Mounts rendered text; keeps the blocks that did not change, so a streaming answer stays selectable. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { openCode } from "../rooms/code";
import { copyText } from "../state/prefs";
import { follow, nothing } from "../state/view";
import { bytes } from "../text/format";
import { renderMarkdown, type Own } from "../text/markdown";
import { toast } from "./bits";

const LONG = 20_000;
const FIRST = 6_000;
/** Beyond this the text is shown as it is: laying out so much markup would stop the page. */
const PLAIN = 200_000;

type Explain = (node: HTMLElement) => void;

/** What each mounted block was made from, to see whether it changed. */
const sources = new WeakMap<Node, string>();

function dressCode(block: HTMLElement, settled: boolean): HTMLElement {
  const code = block.querySelector("code");
  const language = /language-([\w+#-]+)/.exec(code?.className ?? "")?.[1]?.toLowerCase() ?? "";
  const frame = document.createElement("div");
  frame.className = "code";
  const head = document.createElement("div");
  head.className = "code-head";
  const title = document.createElement("span");
  title.textContent = language || "text";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "code-copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy code");
  head.append(title, button);
  block.tabIndex = 0;
  frame.append(head, block);
  if (code && language && settled && (code.textContent?.length ?? 0) < 60_000)
    void import("../text/highlight").then(({ colour }) => colour(code, language));
  return frame;
}

function mount(root: HTMLElement, text: string, settled: boolean, numbers: "messages" | "tasks", own: Own, explain?: Explain): void {
  const next: Node[] = [];
  for (const node of [...renderMarkdown(text, numbers, own).childNodes]) {
    if (node.nodeType === Node.TEXT_NODE && !node.textContent?.trim()) continue;
    next.push(node);
  }
  const held = [...root.childNodes];
  // What is mounted once needs no comparing, and so nothing to compare with.
  if (!settled || held.length)
    for (const node of next) sources.set(node, (settled ? "1" : "0") + (node instanceof Element ? node.outerHTML : (node.textContent ?? "")));
  let same = 0;
  while (same < held.length && same < next.length && sources.get(held[same]!) === sources.get(next[same]!)) same++;
  for (const node of held.slice(same)) node.remove();
  for (const node of next.slice(same)) {
    const source = sources.get(node);
    let shown = node;
    if (node instanceof HTMLElement) {
      explain?.(node);
      const isCode = node.tagName === "PRE";
      for (const inner of node.querySelectorAll("pre")) {
        const mark = document.createComment("");
        inner.replaceWith(mark);
        mark.replaceWith(dressCode(inner, settled));
      }
      if (isCode) shown = dressCode(node, settled);
      if (node.tagName === "TABLE") {
        const scroll = document.createElement("div");
        scroll.className = "table-scroll";
        scroll.append(node);
        shown = scroll;
      }
    }
    if (source !== undefined) sources.set(shown, source);
    root.append(shown);
  }
}

function onClick(event: MouseEvent): void {
  const target = event.target as Element;
  const copy = target.closest<HTMLButtonElement>(".code-copy");
  if (copy) {
    void copyText(copy.closest(".code")?.querySelector("code")?.textContent ?? "").then((done) => {
      copy.textContent = done ? "Copied" : "Select it and press Ctrl+C";
      setTimeout(() => (copy.textContent = "Copy"), 1600);
    });
    return;
  }
  const code = target.closest("a.place");
  if (code) {
    event.preventDefault();
    if (!openCode(code)) toast("The code can be opened from a message of the room.");
    return;
  }
  const ref = target.closest<HTMLAnchorElement>("a.ref, a[href^='#']");
  if (ref && !event.metaKey && !event.ctrlKey) {
    event.preventDefault();
    const target = ref.getAttribute("href")!.slice(1);
    void follow(target).then((there) => there || toast(nothing(target), { tone: "problem" }));
  }
}

/** `explain`: of ui/term.tsx, where words are to be explained. */
export function Markdown({ text, streaming = false, numbers = "messages", own = false, explain }: { text: string; streaming?: boolean; numbers?: "messages" | "tasks"; own?: Own; explain?: Explain }) {
  const root = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState(false);
  const long = text.length > LONG && !streaming;
  const shown = long && !open ? text.slice(0, FIRST) : streaming && text.length > LONG ? text.slice(-LONG) : text;
  const plain = shown.length > PLAIN;
  useLayoutEffect(() => {
    if (!plain) mount(root.current!, shown, !streaming, numbers, own, explain);
  }, [shown, plain, streaming, numbers, own, explain]);
  return (
    <>
      {plain ? <pre class="plain">{shown}</pre> : <div class={`md ${streaming ? "md-streaming" : ""}`} ref={root} onClick={onClick} />}
      {long && (
        <button type="button" class="more" onClick={() => setOpen(!open)}>
          {open ? "Show less" : `Show all of it (${bytes(text.length)})`}
        </button>
      )}
    </>
  );
}

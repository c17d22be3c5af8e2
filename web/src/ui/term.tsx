/**
 * A word of the field, explained where it stands: on hover, on keyboard focus, on a tap, and to a screen reader.
 *
 * Invariant: the descriptions stand once in the page, from the first word on that is explained; every `Term` refers to
 * one of them.
 */

import { render, type ComponentChildren } from "preact";
import { parted, term, TERMS } from "../text/terms";

export function Term({ id, children }: { id: string; children?: ComponentChildren }) {
  const one = term(id);
  return <button type="button" class="term" data-tip={one.text} aria-describedby={`term-${id}`} data-testid={`term-${id}`}>{children ?? one.name}</button>;
}

/** The same where the page is not made of components. */
function termButton(id: string, words: string): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "term";
  button.dataset.tip = term(id).text;
  button.dataset.testid = `term-${id}`;
  button.setAttribute("aria-describedby", `term-${id}`);
  button.textContent = words;
  return button;
}

/** A sentence of the room's, with its terms explained. */
export function Explained({ text }: { text: string }) {
  return <>{parted(text).map((part, i) => (part.id ? <Term key={i} id={part.id}>{part.text}</Term> : part.text))}</>;
}

/** The words of the field in a rendered text become buttons that explain them; code stays as it is. */
export function explain(node: HTMLElement): void {
  const walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  const texts: Text[] = [];
  while (walk.nextNode()) texts.push(walk.currentNode as Text);
  for (const one of texts) {
    if (one.parentElement?.closest("code, pre, a, button")) continue;
    const parts = parted(one.data);
    if (parts.some((part) => part.id)) one.replaceWith(...parts.map((part) => (part.id ? termButton(part.id, part.text) : part.text)));
  }
}

const described = document.body.appendChild(document.createElement("div"));
described.hidden = true;
render(TERMS.map((one) => <p key={one.id} id={`term-${one.id}`}>{one.text}</p>), described);

/** All of them, for the dialog that explains the page. */
export function Words() {
  return (
    <section class="words" data-testid="words">
      <h2>Words</h2>
      <dl>{TERMS.map((one) => <div key={one.id}><dt>{one.name}</dt><dd>{one.text}</dd></div>)}</dl>
    </section>
  );
}

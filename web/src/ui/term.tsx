/**
 * A word of the field, explained where it stands: on hover, on keyboard focus, on a tap, and to a screen reader.
 *
 * Invariant: `Descriptions` stands once in the page; every `Term` refers to it.
 */

import type { ComponentChildren } from "preact";
import { parted, term, TERMS } from "../text/terms";

export function Term({ id, children }: { id: string; children?: ComponentChildren }) {
  const one = term(id);
  return <button type="button" class="term" data-tip={one.text} aria-describedby={`term-${id}`} data-testid={`term-${id}`}>{children ?? one.name}</button>;
}

/** The same where the page is not made of components. */
export function termButton(id: string, words: string): HTMLButtonElement {
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

export function Descriptions() {
  return <div hidden>{TERMS.map((one) => <p key={one.id} id={`term-${one.id}`}>{one.text}</p>)}</div>;
}

/** All of them, for the dialog that explains the page. */
export function Words() {
  return (
    <section class="words" data-testid="words">
      <h2>Words</h2>
      <dl>{TERMS.map((one) => <div key={one.id}><dt>{one.name}</dt><dd>{one.text}</dd></div>)}</dl>
    </section>
  );
}

/** The code that a message speaks of: what is open. */

import { signal } from "@preact/signals";

/** A file with lines (`src/app.py:12-20`), and the entry that names it, by its id. */
export const codeOpen = signal<{ place: string; entry: string } | null>(null);

/** Opens what a link of a message's text leads to; false where it is in no message. */
export function openCode(link: Element): boolean {
  const entry = link.closest<HTMLElement>(".entry[id], [data-entry]");
  const id = entry?.dataset.entry ?? entry?.id.slice(2);
  if (!id) return false;
  codeOpen.value = { place: decodeURIComponent(link.getAttribute("href")!.slice("#code/".length)), entry: id };
  return true;
}

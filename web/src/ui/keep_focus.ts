/**
 * Where the focus goes when what had it is gone, or gave it up, behind a key: to the nearest thing that is left of what it stood
 * in, and else to the view. So Tab goes on from there, and not from the top of the page. Comes with the first key.
 *
 * Invariant: whoever has the focus keeps it, and behind the pointer nothing is moved.
 */

/** Milliseconds between two looks, and in which an action of the room may take away what had the focus. */
const LOOK = 150, LAST = 6000;

/** What has the focus, and what it stands in, the innermost first. */
let within: Element[] = [];
let until = 0;
let waits: ReturnType<typeof setTimeout> | undefined;

function note(): void {
  const at = document.activeElement;
  if (!at || at === document.body) return;
  within = [];
  for (let one: Element | null = at; one; one = one.parentElement) within.push(one);
}

function look(): void {
  if (document.hasFocus() && document.activeElement === document.body) {
    const left = within.find((one, i) => i > 0 && one.isConnected && one.matches("[tabindex], dialog, main")) as HTMLElement | undefined;
    const over = [...document.querySelectorAll<HTMLElement>("dialog[open]")].at(-1);
    const to = over && !over.contains(left ?? null) ? over : (left ?? document.querySelector("main"));
    if (to && !to.hasAttribute("tabindex")) to.tabIndex = -1;
    to?.focus({ preventScroll: true });
  }
  waits = Date.now() < until ? setTimeout(look, LOOK) : undefined;
}

function onKey(event: KeyboardEvent): void {
  clearTimeout(waits);
  // Behind the last one Tab comes to the browser's own.
  if (event.key === "Tab") return;
  until = Date.now() + LAST;
  waits = setTimeout(look, LOOK);
}

note();
document.addEventListener("focusin", note);
document.addEventListener("keydown", onKey, true);
document.addEventListener("pointerdown", () => clearTimeout(waits), true);

export {};

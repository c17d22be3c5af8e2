/** Reading something again when the room says that it changed: seldom, one at a time, and only while somebody looks. */

export interface Reading {
  /** Reads at once. */
  now(): Promise<void>;
  /** Reads soon: what is said until then is one reading. While nobody looks it waits. */
  soon(): void;
}

/** Milliseconds that changes are gathered. */
const GATHER = 250;
/** Milliseconds between two readings of what is read while nobody looks, too. */
const UNSEEN = 2000;

/** `unseen`: it is read while the page is hidden, too: its title and its notifications say what came. */
export function reading(read: () => Promise<void>, { gather = GATHER, unseen = false } = {}): Reading {
  let busy: Promise<void> | null = null;
  let again = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let missed = false;
  let last = 0;
  const all = async (): Promise<void> => {
    do {
      again = false;
      last = Date.now();
      await read();
    } while (again);
  };
  const now = (): Promise<void> => {
    again = true;
    return (busy ??= all().finally(() => (busy = null)));
  };
  const soon = (): void => {
    const hidden = unseen && document.hidden;
    // A browser may hold the timers of a hidden page for a minute.
    if (hidden && Date.now() - last > UNSEEN) return void now();
    timer ??= setTimeout(() => {
      timer = undefined;
      missed = document.hidden && !unseen;
      if (!missed) void now();
    }, hidden ? UNSEEN : gather);
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && missed) soon();
  });
  return { now, soon };
}

/** Reading something again when the room says that it changed: seldom, one at a time, and only while somebody looks. */

export interface Reading {
  /** Reads at once. */
  now(): Promise<void>;
  /** Reads soon: what is said until then is one reading. While nobody looks it waits. */
  soon(): void;
}

/** Milliseconds that changes are gathered. */
const GATHER = 250;

export function reading(read: () => Promise<void>, gather = GATHER): Reading {
  let busy: Promise<void> | null = null;
  let again = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let missed = false;
  const all = async (): Promise<void> => {
    do {
      again = false;
      await read();
    } while (again);
  };
  const now = (): Promise<void> => {
    again = true;
    return (busy ??= all().finally(() => (busy = null)));
  };
  const soon = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined;
      missed = document.hidden;
      if (!missed) void now();
    }, gather);
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && missed) soon();
  });
  return { now, soon };
}

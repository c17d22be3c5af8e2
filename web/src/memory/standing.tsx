/** What stands beside the name of whoever said something: that nobody proves it, and that it holds no longer. */

import { showMemory } from "../state/view";

interface Said {
  unverified?: boolean;
  is_valid?: boolean;
  replaced_by?: string | null;
}

export function Unverified({ said }: { said: Said }) {
  return said.unverified ? <span class="mark mark-unverified" data-tip="A line of the transcript file that proves nobody said so." data-testid="unverified">unverified</span> : null;
}

/** `plain`: within a button, so that what replaced it is no button itself. */
export function Ended({ said, class: name, plain = false }: { said: Said; class: string; plain?: boolean }) {
  if (said.is_valid !== false) return null;
  const by = said.replaced_by;
  if (!by) return <span class={name}>no longer holds</span>;
  const open = (): void => showMemory(by.startsWith("k") ? { as: "graph", entry: by } : { q: by });
  const called = plain ? by : <button type="button" class="link" onClick={open} data-tip="Show what replaced it">{by}</button>;
  return <span class={name}>no longer holds: {called} replaced it</span>;
}

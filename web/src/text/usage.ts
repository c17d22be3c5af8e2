/** What turns used, in words. Pure. */

import { amount, counted } from "./format";

/** Turns and tokens of a time (docs/http.md, USED). No token counts twice; `unpriced` turns told no price. */
export interface Used {
  turns: number;
  input: number;
  cache_write: number;
  cache_read: number;
  output: number;
  usd: number;
  unpriced: number;
}

/** Since midnight on the relay's machine, and by hour of the last day. */
export interface Usage {
  since: string;
  total: Used;
  agents: Readonly<Record<string, Used>>;
  hours: readonly { at: string; agents: Readonly<Record<string, Used>> }[];
}

export const fresh = (used: Used): number => used.input + used.cache_write;

/** "$0.75"; "$0.75+" where some turns told no price; "" where none did. */
export function dollars(used: Used): string {
  if (!used.usd) return "";
  const shown = used.usd < 0.005 ? "<$0.01" : `$${used.usd.toFixed(2)}`;
  return used.unpriced ? `${shown}+` : shown;
}

/** In the fewest words: dollars, or tokens where no price is told. */
export const short = (used: Used): string => dollars(used) || (fresh(used) + used.output ? `${amount(fresh(used) + used.output)} tokens` : "");

/** "1.2k fresh, 30k cached, 40 output" */
export const tokens = (used: Used): string => `${amount(fresh(used))} fresh, ${amount(used.cache_read)} cached, ${amount(used.output)} output`;

/** The whole of it, in one line. */
export function said(used: Used): string {
  const price = dollars(used) || "no price told";
  const missing = used.unpriced && used.unpriced < used.turns ? ` (${used.unpriced} told no price)` : "";
  return `${price}${missing} · ${tokens(used)} tokens · ${counted(used.turns, "turn")}`;
}

/** Who has which colour: the agents in the configuration's order, then others in the order in which they came. */

import { computed } from "@preact/signals";
import type { CSSProperties } from "preact";
import { COLOURS, css, kept, preferred, shared, type Colour } from "../text/colours";
import { memory } from "./prefs";
import { agents, people } from "./room";
import { sessions } from "./locks";

/** Others keep their place, also when they have left, and over a reload: this browser keeps who came with it, the newest of them. */
const MOST_KEPT = 40;
const came = new Map<string, number | null>();
for (const line of (memory.get("came") ?? "").split("\n")) {
  const [, place, name] = /^(?:(\d) )?(.+)$/.exec(line) ?? [];
  if (name) came.set(name, place === undefined ? null : Number(place));
}

const places = computed(() => {
  for (const name of [...sessions.value.map((session) => session.agent_id), ...people.value]) if (!came.has(name)) came.set(name, null);
  const all = kept(shared(agents.value.map((agent) => agent.name)), came);
  for (const name of came.keys()) came.set(name, all.get(name.toUpperCase())!);
  const here = new Set(people.value);
  // Those who are here are kept in any case: agents of their own, with many names, come and go.
  const last = [...came].sort(([a], [b]) => Number(here.has(a)) - Number(here.has(b))).slice(-MOST_KEPT);
  // Also where only who is here has changed: sessions may be known before the people are.
  const line = last.map(([name, place]) => `${place} ${name}`).join("\n");
  if (line !== memory.get("came")) memory.set("came", line);
  return all;
});

export function colourOf(name: string): Colour {
  return COLOURS[places.value.get(name.toUpperCase()) ?? preferred(name)]!;
}

/** The colours of a name as custom properties; set through the CSSOM, which the CSP allows. */
export function hued(name: string): CSSProperties {
  const { light, dark } = colourOf(name);
  return { "--who-light": css(light), "--who-dark": css(dark), "--h": String(light[0]) } as CSSProperties;
}

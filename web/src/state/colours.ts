/** Who has which colour: the agents in the configuration's order, then others in the order in which they came. */

import { computed } from "@preact/signals";
import type { CSSProperties } from "preact";
import { COLOURS, css, preferred, shared, type Colour } from "../text/colours";
import { memory } from "./prefs";
import { agents, people } from "./room";
import { sessions } from "./locks";

/** Others keep their place, also when they have left, and over a reload: this browser keeps who came, the newest of them. */
const MOST_KEPT = 20;
const came = new Set<string>((memory.get("came") ?? "").split("\n").filter(Boolean));

const places = computed(() => {
  const before = came.size;
  for (const session of sessions.value) came.add(session.agent_id);
  for (const person of people.value) came.add(person);
  if (came.size !== before) memory.set("came", [...came].slice(-MOST_KEPT).join("\n"));
  return shared([...agents.value.map((agent) => agent.name), ...came]);
});

export function colourOf(name: string): Colour {
  return COLOURS[places.value.get(name.toUpperCase()) ?? preferred(name)]!;
}

/** The colours of a name as custom properties; set through the CSSOM, which the CSP allows. */
export function hued(name: string): CSSProperties {
  const { light, dark } = colourOf(name);
  return { "--who-light": css(light), "--who-dark": css(dark), "--h": String(light[0]) } as CSSProperties;
}

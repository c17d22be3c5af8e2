/** Who has which colour: the agents in the configuration's order, then others in the order in which they came. */

import { computed } from "@preact/signals";
import type { CSSProperties } from "preact";
import { COLOURS, css, preferred, shared, type Colour } from "../text/colours";
import { agents, people } from "./room";
import { sessions } from "./locks";

/** Others keep their place while the page is open, also when they have left. */
const came = new Set<string>();

const places = computed(() => {
  for (const session of sessions.value) came.add(session.agent_id);
  for (const person of people.value) came.add(person);
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

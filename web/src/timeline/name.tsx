/** The name of a row: an agent's or a person's in its colour; what nobody did has none. */

import { hued } from "../ui/bits";
import { isNobody } from "./words";

export const nameClass = (name: string): string => `agent-name ${isNobody(name) ? "neutral" : ""}`;

export function Name({ name }: { name: string }) {
  return <b class={nameClass(name)} style={hued(name)}>{name}</b>;
}

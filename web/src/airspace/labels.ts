/**
 * The agents' names over the picture: buttons, so that the keyboard and a screen reader meet every agent.
 *
 * A name stands beside its marker where no other name stands; where there is no room at all only the marker is
 * seen, and the button stays for the keyboard.
 */

import { hue } from "../text/format";
import type { Model } from "./model";
import { markerSize } from "./ink";
import type { Spot } from "./stage";

interface Label {
  button: HTMLButtonElement;
  name: HTMLSpanElement;
  badge: HTMLSpanElement;
  width: number;
  side: number;
}

const HEIGHT = 20;
export const BADGE = { clear: "", advisory: "TA", resolution: "RA" } as const;
const SAID = { clear: "clear", advisory: "traffic advisory", resolution: "resolution advisory" } as const;

export class Labels {
  private readonly held = new Map<string, Label>();

  constructor(
    private readonly box: HTMLElement,
    private readonly pick: (agent: string) => void,
  ) {}

  private make(id: string): Label {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "air-label";
    button.dataset.agent = id;
    button.dataset.testid = `air-agent-${id}`;
    button.style.setProperty("--h", String(hue(id)));
    const name = document.createElement("span");
    name.textContent = id;
    const badge = document.createElement("span");
    button.append(name, badge);
    button.addEventListener("click", () => this.pick(id));
    this.box.append(button);
    return { button, name, badge, width: 0, side: 0 };
  }

  /** Who is there, and how; the places come with `place`. */
  set(model: Model): void {
    const here = new Set(model.markers.map((m) => m.id));
    for (const [id, label] of this.held) {
      if (here.has(id)) continue;
      label.button.remove();
      this.held.delete(id);
    }
    for (const marker of model.markers) {
      let label = this.held.get(marker.id);
      if (!label) this.held.set(marker.id, (label = this.make(marker.id)));
      const picked = model.picked !== null && "agent" in model.picked && model.picked.agent === marker.id;
      const badge = BADGE[marker.level];
      if (label.badge.textContent !== badge) {
        label.badge.textContent = badge;
        label.badge.className = badge ? `level level-${marker.level}` : "";
        label.width = 0;
      }
      label.button.ariaPressed = String(picked);
      label.button.ariaLabel = `${marker.id}, ${marker.person ? "person" : "agent"}, ${SAID[marker.level]}`;
      label.button.classList.toggle("faint", model.chosen.size > 0 && !model.chosen.has(marker.id));
    }
  }

  /** CSS pixels of the longest name with its badge. */
  get widest(): number {
    return Math.max(0, ...[...this.held.values()].map((label) => (label.width ||= label.button.offsetWidth)));
  }

  place(spots: ReadonlyMap<string, Spot>, width: number, height: number): void {
    const taken: { x: number; y: number; w: number; h: number }[] = [];
    // The markers themselves are not written over.
    for (const s of spots.values()) taken.push({ x: s.x - 7, y: s.y - 7, w: 14, h: 14 });
    for (const [id, label] of this.held) {
      const spot = spots.get(id);
      label.width ||= label.button.offsetWidth;
      if (!spot?.seen) {
        label.button.classList.add("nowhere");
        continue;
      }
      const w = label.width;
      const gap = markerSize(spot.near) + 7;
      const sides: [number, number][] = [
        [spot.x + gap, spot.y - HEIGHT / 2],
        [spot.x - gap - w, spot.y - HEIGHT / 2],
        [spot.x - w / 2, spot.y - gap - HEIGHT],
        [spot.x - w / 2, spot.y + gap],
      ];
      const free = ([x, y]: [number, number]): boolean =>
        x > 2 && y > 2 && x + w < width - 2 && y + HEIGHT < height - 2 &&
        !taken.some((t) => x < t.x + t.w && t.x < x + w && y < t.y + t.h && t.y < y + HEIGHT);
      // Where it was the last time, if it can: names do not hop from side to side.
      const order = [label.side, 0, 1, 2, 3];
      const side = order.find((s) => free(sides[s]!));
      label.button.classList.toggle("nowhere", side === undefined);
      label.side = side ?? label.side;
      const [x, y] = sides[label.side]!;
      if (side !== undefined) taken.push({ x, y, w, h: HEIGHT });
      label.button.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
    }
  }
}

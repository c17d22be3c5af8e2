/**
 * The names over the picture: of the agents, and on each line with a level the file that it is about. They are
 * buttons, so that the keyboard and a screen reader meet every agent and every such pair.
 *
 * A name stands beside its marker where no other name stands; where there is no room at all only the marker is
 * seen, and the button stays for the keyboard.
 */

import { hued } from "../state/colours";
import { term } from "../text/terms";
import type { Picked } from "../state/view";
import { markerSize } from "./ink";
import { toldLines, type Line, type Model } from "./model";
import { lineWords } from "./words";
import { overlap, type Box, type Spot } from "./stage";

interface Label {
  button: HTMLButtonElement;
  name: HTMLSpanElement;
  badge: HTMLSpanElement;
  away: HTMLSpanElement;
  width: number;
  side: number;
}

const HEIGHT = 20;
/** CSS pixels between a marker's middle and a name off its corner. */
const CORNER = 12;
export const BADGE = { clear: "", advisory: "TA", resolution: "RA" } as const;
const SAID = { clear: "clear", ahead: "may collide later", advisory: "traffic advisory", resolution: "resolution advisory" } as const;

interface LinkLabel {
  button: HTMLButtonElement;
  line: Line;
  width: number;
}

/** Parts of a line beside which its label may stand. */
const ALONG = [0.5, 0.35, 0.65, 0.2, 0.8];

export class Labels {
  private readonly held = new Map<string, Label>();
  private readonly links = new Map<string, LinkLabel>();

  constructor(
    private readonly box: HTMLElement,
    private readonly pick: (what: Picked) => void,
  ) {}

  private make(id: string): Label {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "air-label";
    button.dataset.agent = id;
    button.dataset.testid = `air-agent-${id}`;
    for (const [name, value] of Object.entries(hued(id))) button.style.setProperty(name, String(value));
    const name = document.createElement("span");
    name.textContent = id;
    const badge = document.createElement("span");
    const away = document.createElement("span");
    away.className = "air-away";
    // With spaces between, as the label has it: its name begins with what one sees.
    button.append(name, " ", away, " ", badge);
    button.addEventListener("click", () => this.pick({ agent: id }));
    this.box.append(button);
    return { button, name, badge, away, width: 0, side: 0 };
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
        if (badge) label.badge.dataset.tip = term(badge.toLowerCase()).text;
        else delete label.badge.dataset.tip;
        label.width = 0;
      }
      const away = marker.away ? "away" : "";
      if (label.away.textContent !== away) {
        label.away.textContent = away;
        label.width = 0;
      }
      label.button.classList.toggle("away", marker.away);
      label.button.ariaPressed = String(picked);
      label.button.ariaLabel = `${[marker.id, away, badge].filter(Boolean).join(" ")}, ${marker.person ? "person" : "agent"}, ${SAID[marker.level]}`;
      label.button.classList.toggle("faint", model.chosen.size > 0 && !model.chosen.has(marker.id));
    }
    this.setLinks(model);
  }

  private setLinks(model: Model): void {
    const told = new Map(toldLines(model).map((line) => [line.key, line]));
    for (const [key, label] of this.links) {
      if (told.has(key)) continue;
      label.button.remove();
      this.links.delete(key);
    }
    for (const line of told.values()) {
      let label = this.links.get(line.key);
      if (!label) {
        const button = document.createElement("button");
        button.type = "button";
        button.dataset.testid = `air-link-${line.a}-${line.b}`;
        button.addEventListener("click", () => this.pick({ link: line.key }));
        this.box.append(button);
        this.links.set(line.key, (label = { button, line, width: 0 }));
      }
      label.line = line;
      const words = lineWords(line);
      if (label.button.textContent !== words) {
        label.button.textContent = words;
        label.width = 0;
      }
      const picked = model.picked !== null && "link" in model.picked && model.picked.link === line.key;
      label.button.className = `air-label air-between air-between-${line.level}`;
      label.button.classList.toggle("faint", model.chosen.size > 0 && !model.chosen.has(line.key));
      label.button.ariaPressed = String(picked);
      label.button.ariaLabel = `${words}, ${line.a} and ${line.b}, ${SAID[line.kind]}${line.files.length ? `, ${line.files.join(", ")}` : ""}`;
    }
  }

  /** On the middle of its line where the line is long enough, else beside it. */
  private placeLinks(spots: ReadonlyMap<string, Spot>, taken: Box[], width: number, height: number): void {
    for (const { line, button, ...label } of [...this.links.values()]) {
      const [a, b] = [spots.get(line.a), spots.get(line.b)];
      const w = (this.links.get(line.key)!.width = label.width || button.offsetWidth);
      if (!a?.seen || !b?.seen) {
        button.classList.add("nowhere");
        continue;
      }
      const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
      const [nx, ny] = [-(b.y - a.y) / length, (b.x - a.x) / length];
      // As far from the line as half of the label reaches in that direction, and a little more.
      const reach = Math.abs(nx) * (w / 2) + Math.abs(ny) * (HEIGHT / 2) + 6;
      const boxes = [0, reach, -reach, 2 * reach, -2 * reach, 3 * reach, -3 * reach, 4 * reach, -4 * reach].flatMap((far) =>
        (far ? ALONG : [0.5]).map((t): Box => ({ x: a.x + (b.x - a.x) * t - w / 2 + nx * far, y: a.y + (b.y - a.y) * t - HEIGHT / 2 + ny * far, w, h: HEIGHT })),
      );
      const free = (box: Box): boolean => box.x > 2 && box.y > 2 && box.x + w < width - 2 && box.y + HEIGHT < height - 2 && !taken.some((t) => overlap(box, t));
      const found = boxes.find(free);
      button.classList.toggle("nowhere", found === undefined);
      const at = found ?? boxes[0]!;
      if (found) taken.push(found);
      button.style.transform = `translate(${Math.round(at.x)}px, ${Math.round(at.y)}px)`;
    }
  }

  /** CSS pixels of the longest name with its badge. */
  get widest(): number {
    return Math.max(0, ...[...this.held.values()].map((label) => (label.width ||= label.button.offsetWidth)));
  }

  /** Returns what is taken: the markers, and what is written. */
  place(spots: ReadonlyMap<string, Spot>, width: number, height: number): readonly Box[] {
    const taken: Box[] = [];
    // The markers themselves are not written over.
    for (const s of spots.values()) taken.push({ x: s.x - 12, y: s.y - 12, w: 24, h: 24 });
    for (const [id, label] of this.held) {
      const spot = spots.get(id);
      label.width ||= label.button.offsetWidth;
      // Where its marker stands, for whoever looks at the picture from outside.
      const at = spot?.seen ? `${Math.round(spot.x)},${Math.round(spot.y)}` : "";
      if (label.button.dataset.at !== at) label.button.dataset.at = at;
      if (!spot?.seen) {
        label.button.classList.add("nowhere");
        continue;
      }
      const w = label.width;
      const gap = markerSize(spot.near) + 7;
      const middle = Math.max(3, Math.min(width - w - 3, spot.x - w / 2));
      const sides: [number, number][] = [
        [spot.x + gap, spot.y - HEIGHT / 2],
        [spot.x - gap - w, spot.y - HEIGHT / 2],
        [middle, spot.y - gap - HEIGHT],
        [middle, spot.y + gap],
        ...[-gap - HEIGHT, gap].flatMap((dy): [number, number][] => [[spot.x + CORNER, spot.y + dy], [spot.x - CORNER - w, spot.y + dy]]),
      ];
      const free = ([x, y]: [number, number]): boolean =>
        x > 2 && y > 2 && x + w < width - 2 && y + HEIGHT < height - 2 &&
        !taken.some((t) => overlap({ x, y, w, h: HEIGHT }, t));
      // Where it was the last time, if it can: names do not hop from side to side.
      const order = [label.side, ...sides.keys()];
      const side = order.find((s) => free(sides[s]!));
      label.button.classList.toggle("nowhere", side === undefined);
      label.side = side ?? label.side;
      const [x, y] = sides[label.side]!;
      if (side !== undefined) taken.push({ x, y, w, h: HEIGHT });
      label.button.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
    }
    // After the names: a label has more places beside its line than a name beside its marker.
    this.placeLinks(spots, taken, width, height);
    return taken;
  }
}

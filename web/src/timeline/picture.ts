/**
 * The canvas and its hands: what is on it, and what a pointer, a wheel or a key does to it.
 *
 * Invariant: a frame is drawn because something changed (`stir`); a picture in which nothing changes asks for none.
 * What is indexed for a frame takes INDEX_MS of it at most; the rest comes with the next ones.
 */

import { readPalette, type Palette } from "../airspace/palette";
import type { Block, EventTable, Place } from "./columns";
import { EVERY } from "./kinds";
import { indexed, nearest, RowColumns, type Index, type Shown } from "./levels";
import { AXIS, paint, ROW, rowY, type RowOf, type Scene } from "./paint";
import { around, length, moved, timeAt, whole, zoomed, type Stretch } from "./scale";
import { turnsOf, type Turns } from "./turns";
import { isNobody } from "./words";

export interface Wishes {
  onPick(number: number | null): void;
  onMoment(at: number): void;
  /** What is looked at has changed, or how many events that are. */
  onView(view: Stretch, width: number, events: number): void;
  /** What is under the pointer, in words. */
  words(place: Place): string;
}

const INDEX_MS = 2;
/** Pixels from a mark within which a click is meant for it. */
const REACH = 9;
const STEP = 1.6;

export class Picture {
  private table: EventTable;
  private shown: Shown = { kinds: EVERY, who: null, numbers: null, gone: new Map() };
  private turns: Turns = { rows: new Map(), from: new Float64Array(0), to: new Float64Array(0) };
  /** The table has other events than those that the turns are of. */
  private turnsStale = true;
  private rows: readonly RowOf[] = [];
  private readonly columns = new RowColumns();
  /** The index of a block holds until what is shown changes; a block that changes is another block. */
  private indexes = new WeakMap<Block, Index>();
  private palette: Palette;
  private view: Stretch = { from: 0, to: 1 };
  /** Somebody chose what to look at. */
  private chosen = false;
  private selected: number | null = null;
  /** The selected event is held, so it has been brought into view. */
  private found = false;
  private effects: readonly number[] = [];
  private hovered: Place | null = null;
  private moments: Scene["moments"] = [];
  private frame = 0;
  private width = 1;
  private height = 1;
  private readonly canvas = document.createElement("canvas");
  private readonly tip = document.createElement("div");
  private readonly off = new AbortController();
  private readonly watch: ResizeObserver;
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private pressed: { x: number; y: number; dragged: boolean } | null = null;

  /** `scroller` scrolls the rows; `host` is made as high as what is seen of them. */
  constructor(
    private readonly host: HTMLElement,
    private readonly scroller: HTMLElement,
    table: EventTable,
    private readonly wishes: Wishes,
  ) {
    this.table = table;
    this.palette = readPalette(host);
    this.canvas.className = "tl-canvas";
    this.tip.className = "air-tip";
    this.tip.hidden = true;
    host.append(this.canvas, this.tip);
    const on = { signal: this.off.signal };
    host.addEventListener("pointerdown", (e) => this.down(e), on);
    host.addEventListener("pointermove", (e) => this.move(e), on);
    host.addEventListener("pointerup", (e) => this.up(e), on);
    host.addEventListener("pointercancel", (e) => this.taken(e), on);
    host.addEventListener("pointerleave", () => this.hover(null), on);
    host.addEventListener("wheel", (e) => this.wheel(e), { ...on, passive: false });
    host.addEventListener("keydown", (e) => this.key(e), on);
    scroller.addEventListener("scroll", () => this.stir(), on);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(scroller);
    this.resize();
  }

  /** The table has changed, or another is looked at. */
  setTable(table: EventTable, rows: readonly number[]): void {
    this.table = table;
    this.turnsStale = true;
    this.setRows(rows);
    const known = this.selected === null || this.found;
    if (this.selected !== null) this.effects = table.effectsOf(this.selected);
    if (!known) this.select(this.selected);
    if (!this.chosen) this.view = whole(table.span, Date.now());
    this.stir();
  }

  setRows(rows: readonly number[]): void {
    this.rows = rows.map((who) => {
      const name = this.table.who.texts[who]!;
      return { who, colour: isNobody(name) ? this.palette.quiet : this.palette.who(name) };
    });
    this.stir();
  }

  setShown(shown: Shown): void {
    this.shown = shown;
    this.indexes = new WeakMap();
    this.stir();
  }

  select(number: number | null): void {
    this.selected = number;
    this.found = number !== null && this.table.find(number) !== null;
    this.effects = number === null ? [] : this.table.effectsOf(number);
    const place = number === null ? null : this.table.find(number);
    if (place) {
      const next = around(this.view, place.block.at[place.i]!);
      if (next !== this.view) [this.view, this.chosen] = [next, true];
      const row = this.rows.findIndex((one) => one.who === place.block.who[place.i]);
      const y = rowY(row, this.scroller.scrollTop);
      if (row >= 0 && (y < AXIS + ROW / 2 || y > this.height - ROW / 2)) this.scroller.scrollTop = row * ROW - this.height / 2;
    }
    this.stir();
  }

  setMoments(moments: Scene["moments"]): void {
    this.moments = moments;
    this.stir();
  }

  repaint(): void {
    this.palette = readPalette(this.host);
    this.setRows(this.rows.map((row) => row.who));
  }

  zoom(factor: number, at = (this.view.from + this.view.to) / 2): void {
    this.look(zoomed(this.view, factor, at));
  }

  nearer(): void {
    this.zoom(1 / STEP, this.selectedAt());
  }

  farther(): void {
    this.zoom(STEP, this.selectedAt());
  }

  all(): void {
    this.look(whole(this.table.span, Date.now()));
    this.chosen = false;
  }

  look(view: Stretch): void {
    this.view = view;
    this.chosen = true;
    this.stir();
  }

  /** The shown event before or after a time in a row (`step` -1 or 1); null = there is none. */
  neighbour(who: number, at: number, number: number, step: -1 | 1): number | null {
    let [found, best, ties] = [null as number | null, Infinity, Infinity];
    for (const block of this.table.blocks) {
      const index = this.indexOf(block);
      const row = index.rows.indexOf(who);
      if (row < 0) continue;
      const level = index.levels[0]!;
      for (let k = level.starts[row]!; k < level.starts[row + 1]!; k++) {
        const here = block.number[index.order[k]!]!;
        const away = (level.at[k]! - at) * step;
        const after = (here - number) * step;
        if (away < 0 || (away === 0 && after <= 0) || away > best || (away === best && after >= ties)) continue;
        [found, best, ties] = [here, away, after];
      }
    }
    return found;
  }

  dispose(): void {
    this.off.abort();
    this.watch.disconnect();
    cancelAnimationFrame(this.frame);
    this.canvas.remove();
    this.tip.remove();
  }

  private selectedAt(): number | undefined {
    const place = this.selected === null ? null : this.table.find(this.selected);
    const at = place?.block.at[place.i];
    return at !== undefined && at > this.view.from && at < this.view.to ? at : undefined;
  }

  private indexOf(block: Block): Index {
    let found = this.indexes.get(block);
    if (!found) this.indexes.set(block, (found = indexed(block, this.shown)));
    return found;
  }

  private stir(): void {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.frame = 0;
    const until = performance.now() + INDEX_MS;
    for (const block of this.table.blocks) {
      if (this.indexes.has(block)) continue;
      if (performance.now() > until) {
        this.stir();
        break;
      }
      this.indexOf(block);
    }
    if (this.turnsStale) this.turns = turnsOf(this.table);
    this.turnsStale = false;
    const pen = this.canvas.getContext("2d", { alpha: false })!;
    const scale = devicePixelRatio;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const events = paint(pen, this.scene(), this.columns);
    this.host.dataset.frames = String(Number(this.host.dataset.frames ?? 0) + 1);
    this.wishes.onView(this.view, this.width, events);
  }

  private scene(): Scene {
    return {
      table: this.table,
      index: (b) => this.indexes.get(this.table.blocks[b]!) ?? null,
      turns: this.turns,
      rows: this.rows,
      view: this.view,
      width: this.width,
      height: this.height,
      scroll: this.scroller.scrollTop,
      palette: this.palette,
      selected: this.selected === null ? null : this.table.find(this.selected),
      effects: this.effects,
      hovered: this.hovered,
      gone: this.shown.gone,
      moments: this.moments,
    };
  }

  private resize(): void {
    this.host.style.height = `${this.scroller.clientHeight}px`;
    const box = this.host.getBoundingClientRect();
    [this.width, this.height] = [Math.max(1, Math.round(box.width)), Math.max(1, Math.round(box.height))];
    this.canvas.width = Math.round(this.width * devicePixelRatio);
    this.canvas.height = Math.round(this.height * devicePixelRatio);
    this.stir();
  }

  // -- the pointer

  private here(event: MouseEvent): { x: number; y: number } {
    const box = this.host.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private under(x: number, y: number): Place | null {
    const row = this.rows[Math.floor((y - AXIS + this.scroller.scrollTop) / ROW)];
    if (!row || y < AXIS) return null;
    const at = timeAt(this.view, x, this.width);
    let reach = (length(this.view) / this.width) * REACH;
    let found: Place | null = null;
    for (const block of this.table.blocks) {
      if (block.to < at - reach || block.from > at + reach) continue;
      const index = this.indexes.get(block);
      const i = index ? nearest(index, row.who, at, reach) : -1;
      if (i < 0) continue;
      found = { block, i };
      reach = Math.abs(block.at[i]! - at);
    }
    return found;
  }

  private hover(place: Place | null, x = 0, y = 0): void {
    const same = place?.block === this.hovered?.block && place?.i === this.hovered?.i;
    this.hovered = place;
    this.host.classList.toggle("pointing", place !== null);
    this.tip.hidden = !place;
    if (place) {
      this.tip.textContent = this.wishes.words(place);
      const left = Math.max(4, Math.min(this.width - this.tip.offsetWidth - 4, x + 12));
      this.tip.style.transform = `translate(${left}px, ${y > this.height - 60 ? y - 34 : y + 18}px)`;
    }
    if (!same) this.stir();
  }

  private down(event: PointerEvent): void {
    const at = this.here(event);
    this.pointers.set(event.pointerId, at);
    this.host.setPointerCapture(event.pointerId);
    this.pressed = this.pointers.size === 1 ? { ...at, dragged: false } : null;
  }

  private move(event: PointerEvent): void {
    const at = this.here(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) return this.hover(this.under(at.x, at.y), at.x, at.y);
    if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)![1];
      const [was, now] = [Math.abs(before.x - other.x), Math.abs(at.x - other.x)];
      if (was > 8 && now > 8) this.zoom(was / now, timeAt(this.view, (before.x + other.x) / 2, this.width));
    } else if (this.pressed) {
      if (Math.hypot(at.x - this.pressed.x, at.y - this.pressed.y) > 4) this.pressed.dragged = true;
      if (this.pressed.dragged) {
        this.hover(null);
        this.look(moved(this.view, (before.x - at.x) / this.width, this.table.span));
        if (event.pointerType === "mouse") this.scroller.scrollTop += before.y - at.y;
      }
    }
    this.pointers.set(event.pointerId, at);
  }

  /** The browser took the gesture: it scrolls. */
  private taken(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
    this.pressed = null;
  }

  private up(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
    const pressed = this.pressed;
    this.pressed = null;
    if (!pressed || pressed.dragged) return;
    const { x, y } = this.here(event);
    const place = this.under(x, y);
    if (place) this.wishes.onPick(place.block.number[place.i]!);
    else this.wishes.onMoment(timeAt(this.view, x, this.width));
  }

  private wheel(event: WheelEvent): void {
    const unit = event.deltaMode === 1 ? 16 : 1;
    const along = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    event.preventDefault();
    if (!event.ctrlKey && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) this.look(moved(this.view, (along * unit) / this.width, this.table.span));
    else this.zoom(Math.exp(Math.max(-0.5, Math.min(0.5, event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.002)))), timeAt(this.view, this.here(event).x, this.width));
  }

  // -- keys

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const pan = (part: number) => () => this.look(moved(this.view, part, this.table.span));
    const acts: Record<string, () => void> = {
      "+": () => this.nearer(),
      "=": () => this.nearer(),
      "-": () => this.farther(),
      _: () => this.farther(),
      "0": () => this.all(),
      ArrowLeft: event.shiftKey ? pan(-0.2) : () => this.step(-1),
      ArrowRight: event.shiftKey ? pan(0.2) : () => this.step(1),
      ArrowUp: () => this.otherRow(-1),
      ArrowDown: () => this.otherRow(1),
      Home: () => this.end(1),
      End: () => this.end(-1),
      Escape: () => this.wishes.onPick(null),
    };
    const act = acts[event.key];
    if (!act || (event.key === "Escape" && this.selected === null)) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  private pick(number: number | null): void {
    if (number !== null) this.wishes.onPick(number);
  }

  private step(by: -1 | 1): void {
    const place = this.selected === null ? null : this.table.find(this.selected);
    if (place) return this.pick(this.neighbour(place.block.who[place.i]!, place.block.at[place.i]!, this.selected!, by));
    // Of the first row that has one, what is nearest to the edge that one comes from.
    const from = by > 0 ? this.view.from : this.view.to;
    for (const row of this.rows) {
      const found = this.neighbour(row.who, from, by > 0 ? -1 : Infinity, by);
      if (found !== null) return this.pick(found);
    }
  }

  private otherRow(by: -1 | 1): void {
    const place = this.selected === null ? null : this.table.find(this.selected);
    if (!place) return this.step(1);
    const at = place.block.at[place.i]!;
    for (let row = this.rows.findIndex((one) => one.who === place.block.who[place.i]) + by; this.rows[row]; row += by) {
      const who = this.rows[row]!.who;
      const near = [this.neighbour(who, at, -1, 1), this.neighbour(who, at, Infinity, -1)].filter((n) => n !== null);
      const away = (number: number): number => {
        const found = this.table.find(number)!;
        return Math.abs(found.block.at[found.i]! - at);
      };
      if (near.length) return this.pick(near.sort((a, b) => away(a) - away(b))[0]!);
    }
  }

  private end(step: -1 | 1): void {
    const place = this.selected === null ? null : this.table.find(this.selected);
    const who = place ? place.block.who[place.i]! : this.rows[0]?.who;
    const span = this.table.span;
    if (who !== undefined && span) this.pick(this.neighbour(who, step > 0 ? span.from - 1 : span.to + 1, step > 0 ? -1 : Infinity, step));
  }
}

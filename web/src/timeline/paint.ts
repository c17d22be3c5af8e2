/**
 * What the canvas shows: rows of marks, turns behind them, arrows between them, and the axis.
 *
 * Invariant: a frame costs what is on the screen. Where a row has more events than places, it shows how many there are,
 * and of the rare kinds each mark that has a place; nothing is drawn an event at a time there.
 */

import type { Palette } from "../airspace/palette";
import { upTo, type EventTable, type Place } from "./columns";
import { glyph, path, toneOf } from "./glyphs";
import { EVERY, GONE, gravest, SPECIAL, WRITE } from "./kinds";
import { drawnKind, type Index, type RowColumns, type Shown } from "./levels";
import { length, ticks, xOf, type Stretch } from "./scale";
import type { Turns } from "./turns";

export const AXIS = 26;
export const ROW = 36;
/** Pixels of a column in which events are counted. */
const COLUMN = 2;
/** Pixels between two marks of a row; between the rare ones over a row of which the rest is counted. */
const APART = 11;
const RARE_APART = 26;
/** Events on the screen up to which all arrows are drawn. */
const ARROWS = 120;

export interface RowOf {
  who: number;
  colour: string;
}

export interface Scene {
  table: EventTable;
  index: (block: number) => Index | null;
  turns: Turns;
  rows: readonly RowOf[];
  view: Stretch;
  width: number;
  height: number;
  scroll: number;
  palette: Palette;
  selected: Place | null;
  effects: readonly number[];
  hovered: Place | null;
  gone: Shown["gone"];
  /** The moments that are looked at: a letter (empty of the only one), a time, and it in words. */
  moments: readonly { name: string; at: number; words: string }[];
}

/** The middle of a row, in the canvas. */
export const rowY = (row: number, scroll: number): number => AXIS + row * ROW + ROW / 2 - scroll;

/** Draws it; how many events are on the screen. */
export function paint(pen: CanvasRenderingContext2D, scene: Scene, columns: RowColumns): number {
  const { width, height, palette, rows, scroll } = scene;
  pen.fillStyle = palette.surface;
  pen.fillRect(0, 0, width, height);
  const marks = ticks(scene.view, width);
  pen.fillStyle = palette.clear;
  pen.globalAlpha = 0.35;
  for (const tick of marks) pen.fillRect(Math.round(xOf(scene.view, tick.at, width)), AXIS, tick.strong ? 2 : 1, height - AXIS);
  pen.globalAlpha = 1;
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, width, height - AXIS);
  pen.clip();
  const first = Math.max(0, Math.floor(scroll / ROW));
  const end = Math.min(rows.length, Math.ceil((scroll + height - AXIS) / ROW));
  let total = 0;
  for (let row = first; row < end; row++) {
    const y = AXIS + row * ROW - scroll;
    pen.globalAlpha = 0.45;
    pen.fillStyle = palette.clear;
    pen.fillRect(0, y + ROW - 1, width, 1);
    pen.globalAlpha = 1;
    paintTurns(pen, scene, rows[row]!, y);
    total += paintRow(pen, scene, rows[row]!, y, columns);
  }
  paintArrows(pen, scene, total <= ARROWS);
  paintPicked(pen, scene);
  pen.restore();
  paintMoments(pen, scene);
  paintAxis(pen, scene, marks);
  return total;
}

function paintTurns(pen: CanvasRenderingContext2D, scene: Scene, row: RowOf, y: number): void {
  const range = scene.turns.rows.get(row.who);
  if (!range) return;
  const { from, to } = scene.turns;
  const { view, width } = scene;
  const scale = width / length(view);
  const [begin, end] = range;
  pen.fillStyle = row.colour;
  pen.globalAlpha = 0.2;
  // A turn may have begun before the view; turns of one row hardly overlap, so the ones before are few.
  let k = Math.max(begin, begin + upTo(end - begin, (i) => from[begin + i]! < view.from) - 8);
  let [left, right] = [NaN, NaN];
  for (; k < end && from[k]! <= view.to; k++) {
    const x = Math.max(-4, (from[k]! - view.from) * scale);
    const until = Math.min(width + 4, Math.max(x + 1.5, (to[k]! - view.from) * scale));
    if (until < 0) continue;
    // Those that touch on the screen are one bar.
    if (x <= right + 1) {
      right = Math.max(right, until);
      continue;
    }
    if (right > left) pen.fillRect(left, y + 6, right - left, ROW - 13);
    [left, right] = [x, until];
  }
  if (right > left) pen.fillRect(left, y + 6, right - left, ROW - 13);
  pen.globalAlpha = 1;
}

/** One row's marks; how many events they stand for. */
function paintRow(pen: CanvasRenderingContext2D, scene: Scene, row: RowOf, y: number, columns: RowColumns): number {
  const { table, view, width } = scene;
  const count = Math.ceil(width / COLUMN);
  const ms = (length(view) / width) * COLUMN;
  columns.clear(count);
  for (let b = 0; b < table.blocks.length; b++) {
    const block = table.blocks[b]!;
    if (block.to < view.from || block.from > view.to) continue;
    const index = scene.index(b);
    if (index) columns.add(index, row.who, view.from, ms, count);
  }
  if (!columns.total) return 0;
  if (columns.total * APART <= width * 1.5) paintMarks(pen, scene, row, y, columns, count, EVERY);
  else {
    paintDensity(pen, row, y, columns, count);
    // Above the bars, so that neither hides the other.
    paintMarks(pen, scene, row, y - ROW / 4 + 1, columns, count, SPECIAL);
  }
  return columns.total;
}

/** Bars as high as there are many, in a few heights so that neighbours are drawn as one. */
function paintDensity(pen: CanvasRenderingContext2D, row: RowOf, y: number, columns: RowColumns, count: number): void {
  const most = Math.sqrt(columns.peak);
  pen.fillStyle = row.colour;
  let [from, height, faint] = [0, 0, false];
  for (let c = 0; c <= count; c++) {
    const n = c < count ? columns.count[c]! : 0;
    const now = n ? 2 + Math.ceil((Math.sqrt(n) / most) * 8) * 2 : 0;
    // Where all is taken back.
    const dim = n > 0 && columns.mask[c] === 1 << GONE;
    if (now === height && dim === faint) continue;
    if (height) {
      pen.globalAlpha = faint ? 0.35 : 1;
      pen.fillRect(from * COLUMN, y + ROW - 5 - height, (c - from) * COLUMN, height);
    }
    [from, height, faint] = [c, now, dim];
  }
  pen.globalAlpha = 1;
}

/** Marks of these kinds, each where there is a place for it; several in one place are one mark with their number. */
function paintMarks(pen: CanvasRenderingContext2D, scene: Scene, row: RowOf, y: number, columns: RowColumns, count: number, kinds: number): void {
  const middle = y + ROW / 2;
  const all = kinds === EVERY;
  const apart = all ? APART : RARE_APART;
  const dots: number[] = [];
  for (let c = 0; c < count; c++) {
    let mask = columns.mask[c]! & kinds;
    if (!mask) continue;
    let [sum, weight, end] = [columns.count[c]!, columns.count[c]! * c, c];
    for (let k = c + 1; k < count && (k - c) * COLUMN < apart; k++) {
      if (!(columns.mask[k]! & kinds)) continue;
      mask |= columns.mask[k]! & kinds;
      sum += columns.count[k]!;
      weight += columns.count[k]! * k;
      end = k;
    }
    const x = (all ? weight / sum + 0.5 : c + 0.5) * COLUMN;
    c = end;
    if (mask === 1 << WRITE) dots.push(x, sum);
    else paintGlyph(pen, scene, gravest(mask), x, middle, row.colour);
    if (all && sum > 1) {
      pen.font = "10px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.fillStyle = scene.palette.quiet;
      pen.fillText(sum > 99 ? "99+" : String(sum), x, y + ROW - 3);
    }
  }
  if (!dots.length) return;
  pen.fillStyle = row.colour;
  pen.beginPath();
  for (let k = 0; k < dots.length; k += 2) {
    const radius = Math.min(5.5, 3.2 + Math.log2(dots[k + 1]!) * 0.5);
    pen.moveTo(dots[k]! + radius, middle);
    pen.arc(dots[k]!, middle, radius, 0, 7);
  }
  pen.fill();
}

function paintGlyph(pen: CanvasRenderingContext2D, scene: Scene, kind: number, x: number, y: number, who: string): void {
  const shape = glyph(kind);
  const drawn = path(kind);
  pen.translate(x, y);
  pen.lineJoin = pen.lineCap = "round";
  pen.strokeStyle = scene.palette.surface;
  pen.lineWidth = shape.solid ? 2.5 : 4.5;
  pen.stroke(drawn);
  const colour = toneOf(shape.tone, scene.palette, who);
  if (shape.solid) {
    pen.fillStyle = colour;
    pen.fill(drawn, "evenodd");
  } else {
    pen.strokeStyle = colour;
    pen.lineWidth = 1.8;
    pen.stroke(drawn);
  }
  pen.translate(-x, -y);
}

function spot(scene: Scene, place: Place): { x: number; y: number; row: number } | null {
  const row = scene.rows.findIndex((one) => one.who === place.block.who[place.i]);
  return row < 0 ? null : { x: xOf(scene.view, place.block.at[place.i]!, scene.width), y: rowY(row, scene.scroll), row };
}

function arrow(pen: CanvasRenderingContext2D, from: { x: number; y: number }, to: { x: number; y: number }): void {
  const bend = Math.max(18, Math.min(90, Math.abs(to.x - from.x) / 2));
  const end = to.x - 7;
  pen.beginPath();
  pen.moveTo(from.x + 5, from.y);
  pen.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, end, to.y);
  pen.stroke();
  pen.setLineDash([]);
  pen.beginPath();
  pen.moveTo(end + 2, to.y);
  pen.lineTo(end - 5, to.y - 3.5);
  pen.lineTo(end - 5, to.y + 3.5);
  pen.fill();
}

/** Of the event that is picked: what caused it, and what it caused. With room enough: of all, between rows. */
function paintArrows(pen: CanvasRenderingContext2D, scene: Scene, every: boolean): void {
  const { table, view, palette, selected } = scene;
  if (every) {
    pen.strokeStyle = pen.fillStyle = palette.quiet;
    pen.lineWidth = 1;
    pen.globalAlpha = 0.55;
    table.blocks.forEach((block, b) => {
      if (block.to < view.from || block.from > view.to) return;
      for (const i of scene.index(b)?.order ?? []) {
        if (block.at[i]! < view.from || block.at[i]! > view.to) continue;
        for (const number of table.causesOf({ block, i })) {
          const cause = table.find(number);
          if (!cause || cause.block.who[cause.i] === block.who[i]) continue;
          const [a, z] = [spot(scene, cause), spot(scene, { block, i })];
          if (a && z) arrow(pen, a, z);
        }
      }
    });
    pen.globalAlpha = 1;
  }
  const at = selected && spot(scene, selected);
  if (!selected || !at) return;
  pen.strokeStyle = pen.fillStyle = palette.accent;
  pen.lineWidth = 2;
  for (const number of table.causesOf(selected)) {
    const cause = table.find(number);
    const from = cause && spot(scene, cause);
    if (from) arrow(pen, from, at);
  }
  for (const number of scene.effects) {
    const effect = table.find(number);
    const to = effect && spot(scene, effect);
    if (!to) continue;
    pen.setLineDash([5, 4]);
    arrow(pen, at, to);
  }
  pen.setLineDash([]);
}

function paintPicked(pen: CanvasRenderingContext2D, scene: Scene): void {
  for (const [place, colour, radius] of [[scene.hovered, scene.palette.quiet, 8], [scene.selected, scene.palette.accent, 9]] as const) {
    const at = place && spot(scene, place);
    if (!place || !at) continue;
    paintGlyph(pen, scene, drawnKind(place.block, place.i, scene.gone), at.x, at.y, scene.rows[at.row]!.colour);
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(at.x, at.y, radius, 0, 7);
    pen.stroke();
  }
}

function paintMoments(pen: CanvasRenderingContext2D, scene: Scene): void {
  pen.font = "600 11px system-ui, sans-serif";
  const shown = scene.moments
    .map((moment) => {
      const label = [moment.name, moment.words].filter(Boolean).join("  ");
      const half = Math.ceil(pen.measureText(label).width / 2) + 7;
      const x = xOf(scene.view, moment.at, scene.width);
      return { ...moment, label, half, x, middle: Math.max(half, Math.min(scene.width - half, x)) };
    })
    .filter(({ x }) => x > -20 && x < scene.width + 20)
    .sort((a, b) => a.x - b.x);
  const [first, second] = shown;
  // Neither label hides the other.
  const over = first && second ? first.middle + first.half + 2 - (second.middle - second.half) : 0;
  if (first && second && over > 0) {
    first.middle = Math.max(first.half, first.middle - over / 2);
    second.middle = first.middle + first.half + 2 + second.half;
  }
  for (const { name, x, label, half, middle } of shown) {
    pen.strokeStyle = pen.fillStyle = scene.palette.accent;
    pen.lineWidth = 1.5;
    pen.setLineDash(name === "B" ? [3, 3] : []);
    pen.beginPath();
    pen.moveTo(x, AXIS - 4);
    pen.lineTo(x, scene.height);
    pen.stroke();
    pen.setLineDash([]);
    pen.beginPath();
    pen.roundRect(middle - half, 3, half * 2, 18, 5);
    pen.fill();
    pen.fillStyle = scene.palette.surface;
    pen.textAlign = "center";
    pen.fillText(label, middle, 16);
  }
}

function paintAxis(pen: CanvasRenderingContext2D, scene: Scene, marks: ReturnType<typeof ticks>): void {
  pen.fillStyle = scene.palette.clear;
  pen.fillRect(0, AXIS - 1, scene.width, 1);
  pen.textAlign = "left";
  for (const tick of marks) {
    const x = Math.round(xOf(scene.view, tick.at, scene.width));
    if (scene.moments.some(({ at }) => Math.abs(xOf(scene.view, at, scene.width) - x - 20) < 78)) continue;
    pen.fillStyle = scene.palette.clear;
    pen.fillRect(x, AXIS - 7, tick.strong ? 2 : 1, 7);
    pen.fillStyle = tick.strong ? scene.palette.ink : scene.palette.quiet;
    pen.font = `${tick.strong ? "600 " : ""}11.5px "IBM Plex Sans Variable", system-ui, sans-serif`;
    pen.fillText(tick.label, x + 5, 16);
  }
}

/**
 * What of a block is shown, by row and time, at ever coarser levels: so that a frame reads about as many entries as it
 * has pixels, however many events there are.
 *
 * Invariant: each level counts every shown event once; an entry of a level covers at most its `width` of time.
 */

import { upTo, type Block } from "./columns";
import { BARS, GONE } from "./kinds";

export interface Shown {
  /** Bits of the kinds that are shown. */
  kinds: number;
  /** Whose; null = everybody's. */
  who: ReadonlySet<number> | null;
  /** Which numbers; null = all. */
  numbers: ReadonlySet<number> | null;
  /** Numbers of the changes that are taken back. */
  gone: ReadonlyMap<number, unknown>;
}

/** The kind that an event is drawn as. */
export const drawnKind = (block: Block, i: number, gone: Shown["gone"]): number => (gone.size && gone.has(block.number[i]!) ? GONE : block.kind[i]!);

export interface Level {
  /** Milliseconds; 0 = an entry an event. */
  readonly width: number;
  /** By row of the index: where its entries begin; one more at the end. */
  readonly starts: Int32Array;
  /** When the first event of each entry was. */
  readonly at: Float64Array;
  /** Where in `Index.order` each entry begins; one more at the end. */
  readonly first: Int32Array;
  readonly mask: Uint32Array;
}

export interface Index {
  /** Whose rows, ascending. */
  readonly rows: Uint16Array;
  /** Places in the block, by row, then by time. */
  readonly order: Uint16Array;
  /** Finest first. */
  readonly levels: readonly Level[];
}

const FINEST = 250;
const FACTOR = 4;
/** A level that is not much shorter than the one before it is not kept. */
const WORTH = 0.7;
const COARSEST = 400 * 86_400_000;

export function isShown(block: Block, i: number, shown: Shown): boolean {
  return Boolean(shown.kinds & ((1 << block.kind[i]!) | (1 << drawnKind(block, i, shown.gone)))) && (!shown.who || shown.who.has(block.who[i]!)) && (!shown.numbers || shown.numbers.has(block.number[i]!));
}

export function indexed(block: Block, shown: Shown): Index {
  const places: number[] = [];
  for (let i = 0; i < block.size; i++) if (!(BARS & (1 << block.kind[i]!)) && isShown(block, i, shown)) places.push(i);
  const { who, at } = block;
  places.sort((a, b) => who[a]! - who[b]! || at[a]! - at[b]! || a - b);
  const order = Uint16Array.from(places);
  const rows: number[] = [];
  const starts: number[] = [];
  order.forEach((place, k) => {
    if (rows.at(-1) === who[place]) return;
    rows.push(who[place]!);
    starts.push(k);
  });
  starts.push(order.length);
  let last: Level = {
    width: 0,
    starts: Int32Array.from(starts),
    at: Float64Array.from(order, (place) => at[place]!),
    first: Int32Array.from({ length: order.length + 1 }, (_, k) => k),
    mask: Uint32Array.from(order, (place) => 1 << drawnKind(block, place, shown.gone)),
  };
  const levels = [last];
  for (let width = FINEST; width < COARSEST && last.at.length > rows.length; width *= FACTOR) {
    const next = coarser(last, width);
    if (next.at.length > last.at.length * WORTH) continue;
    levels.push((last = next));
  }
  return { rows: Uint16Array.from(rows), order, levels };
}

function coarser(fine: Level, width: number): Level {
  const starts: number[] = [];
  const at: number[] = [];
  const first: number[] = [];
  const mask: number[] = [];
  for (let row = 0; row + 1 < fine.starts.length; row++) {
    starts.push(at.length);
    let bucket = NaN;
    for (let k = fine.starts[row]!; k < fine.starts[row + 1]!; k++) {
      const here = Math.floor(fine.at[k]! / width);
      if (here === bucket) {
        mask[mask.length - 1]! |= fine.mask[k]!;
        continue;
      }
      bucket = here;
      at.push(fine.at[k]!);
      first.push(fine.first[k]!);
      mask.push(fine.mask[k]!);
    }
  }
  starts.push(at.length);
  first.push(fine.first.at(-1)!);
  return { width, starts: Int32Array.from(starts), at: Float64Array.from(at), first: Int32Array.from(first), mask: Uint32Array.from(mask) };
}

/** The coarsest level whose entries cover no more than this. */
export function levelFor(index: Index, ms: number): Level {
  let found = index.levels[0]!;
  for (const level of index.levels) if (level.width <= ms) found = level;
  return found;
}

/** What one row shows, column by column; made once and used for each row. */
export class RowColumns {
  count: Uint32Array = new Uint32Array(0);
  mask: Uint32Array = new Uint32Array(0);
  total = 0;
  peak = 0;

  clear(columns: number): void {
    if (this.count.length < columns) {
      this.count = new Uint32Array(columns);
      this.mask = new Uint32Array(columns);
    } else {
      this.count.fill(0, 0, columns);
      this.mask.fill(0, 0, columns);
    }
    this.total = this.peak = 0;
  }

  /** Add a row of a block: `ms` a column, `from` at the left of the first one. */
  add(index: Index, who: number, from: number, ms: number, columns: number): void {
    const row = upTo(index.rows.length, (k) => index.rows[k]! < who);
    if (index.rows[row] !== who) return;
    const level = levelFor(index, ms);
    const [begin, end] = [level.starts[row]!, level.starts[row + 1]!];
    const to = from + ms * columns;
    for (let k = begin + upTo(end - begin, (i) => level.at[begin + i]! < from); k < end; k++) {
      const at = level.at[k]!;
      if (at >= to) break;
      const column = Math.min(columns - 1, Math.floor((at - from) / ms));
      const count = level.first[k + 1]! - level.first[k]!;
      this.total += count;
      this.mask[column]! |= level.mask[k]!;
      const sum = (this.count[column]! += count);
      if (sum > this.peak) this.peak = sum;
    }
  }
}

/** The shown event of a row that is nearest to a time, within `reach` ms; its place in the block, -1 = none. */
export function nearest(index: Index, who: number, at: number, reach: number): number {
  const row = upTo(index.rows.length, (k) => index.rows[k]! < who);
  if (index.rows[row] !== who) return -1;
  const level = index.levels[0]!;
  const [begin, end] = [level.starts[row]!, level.starts[row + 1]!];
  const k = begin + upTo(end - begin, (i) => level.at[begin + i]! < at);
  let [found, best] = [-1, reach];
  for (const near of [k - 1, k]) {
    if (near < begin || near >= end) continue;
    const away = Math.abs(level.at[near]! - at);
    if (away <= best) [found, best] = [index.order[near]!, away];
  }
  return found;
}

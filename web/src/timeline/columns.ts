/**
 * The heads of all loaded events, as blocks of typed arrays.
 *
 * Invariant: blocks are in the order of the log and have no gap between them; nothing here is an object an event. A
 * block is one page of the room's, so a page that comes makes one block, and a live event changes only the last.
 */

import type { Heads } from "../timeline_types";
import { kindOf } from "./kinds";

/** Events of a block at most, and of a page that is asked for: what is read, and what is indexed, within a frame. */
export const BLOCK = 4096;
export const PAGE = 2048;

/** Texts by number, each once. */
export class Names {
  readonly texts: string[] = [];
  private readonly places = new Map<string, number>();

  place(text: string): number {
    let found = this.places.get(text);
    if (found === undefined) {
      found = this.texts.push(text) - 1;
      this.places.set(text, found);
    }
    return found;
  }

  find(text: string): number {
    return this.places.get(text) ?? -1;
  }
}

export interface Block {
  readonly size: number;
  readonly number: Float64Array;
  /** Milliseconds. */
  readonly at: Float64Array;
  /** Whose it is: a place in `EventTable.who`. */
  readonly who: Uint16Array;
  readonly lane: Uint16Array;
  readonly kind: Uint8Array;
  readonly files: Uint32Array;
  /** A place in `EventTable.paths`, -1 = none; and in `EventTable.words`: what it did. */
  readonly file: Int32Array;
  readonly word: Int32Array;
  readonly tree: Uint8Array;
  /** The causes of event i are `causes[causeEnd[i - 1]]` up to `causes[causeEnd[i]]`, numbers of events. */
  readonly causeEnd: Uint32Array;
  readonly causes: Float64Array;
  readonly from: number;
  readonly to: number;
}

/** A place of an event: its block, and where in it. */
export interface Place {
  block: Block;
  i: number;
}

export class EventTable {
  readonly who = new Names();
  readonly lanes = new Names();
  readonly paths = new Names();
  readonly words = new Names();
  readonly blocks: Block[] = [];
  /** Of places in `who`: whose events another room recorded, with the room's id; and the lanes of those. */
  readonly others = new Map<number, string>();
  readonly othersLanes = new Set<number>();
  /** Older events are in the room's log. */
  older = true;

  get size(): number {
    return this.blocks.reduce((sum, block) => sum + block.size, 0);
  }

  get first(): number | null {
    return this.blocks[0]?.number[0] ?? null;
  }

  get last(): number | null {
    const block = this.blocks.at(-1);
    return block ? block.number[block.size - 1]! : null;
  }

  /** When the first and the last event were, in milliseconds; null without any. */
  get span(): { from: number; to: number } | null {
    if (!this.blocks.length) return null;
    let [from, to] = [Infinity, -Infinity];
    for (const block of this.blocks) [from, to] = [Math.min(from, block.from), Math.max(to, block.to)];
    return { from, to };
  }

  /** Take in a page of events older than all that are held. */
  putOlder(heads: Heads): void {
    this.older = heads.more;
    if (heads.number.length) this.blocks.unshift(this.blockOf(heads));
  }

  /** Take in a page of newer ones. Those that are held already are dropped. */
  putNewer(heads: Heads): void {
    const last = this.last ?? -1;
    const skip = heads.number.findIndex((number) => number > last);
    if (skip < 0) return;
    const block = this.blockOf(heads, skip);
    const before = this.blocks.at(-1);
    if (before && before.size + block.size <= BLOCK) this.blocks[this.blocks.length - 1] = joined(before, block);
    else this.blocks.push(block);
  }

  /** Where the event of this number is; null = not held. */
  find(number: number): Place | null {
    const b = upTo(this.blocks.length, (i) => this.blocks[i]!.number[0]! <= number) - 1;
    const block = this.blocks[b];
    if (!block) return null;
    const i = upTo(block.size, (k) => block.number[k]! <= number) - 1;
    return block.number[i] === number ? { block, i } : null;
  }

  /** The number of this room's event before this one; null = none is held. */
  before(number: number): number | null {
    for (let b = this.blocks.length - 1; b >= 0; b--) {
      const block = this.blocks[b]!;
      if (block.number[0]! >= number) continue;
      for (let i = upTo(block.size, (k) => block.number[k]! < number) - 1; i >= 0; i--) if (!this.others.has(block.who[i]!)) return block.number[i]!;
    }
    return null;
  }

  /** The last event of this room that was not later than this moment and has a tree; null = none is held. By the order of the log. */
  treeAt(at: number): Place | null {
    for (let b = this.blocks.length - 1; b >= 0; b--) {
      const block = this.blocks[b]!;
      if (block.from > at) continue;
      for (let i = block.size - 1; i >= 0; i--) if (block.tree[i] && block.at[i]! <= at && !this.others.has(block.who[i]!)) return { block, i };
    }
    return null;
  }

  causesOf({ block, i }: Place): Float64Array {
    return block.causes.subarray(i ? block.causeEnd[i - 1]! : 0, block.causeEnd[i]!);
  }

  /** The numbers of the events that have this one among their causes. */
  effectsOf(number: number): number[] {
    const found: number[] = [];
    for (const block of this.blocks) {
      if (block.number[block.size - 1]! <= number) continue;
      for (let c = 0, i = 0; c < block.causes.length; c++) {
        while (block.causeEnd[i]! <= c) i++;
        if (block.causes[c] === number) found.push(block.number[i]!);
      }
    }
    return found;
  }

  private blockOf(heads: Heads, skip = 0): Block {
    const who = heads.names.map((name) => this.who.place(name));
    const lanes = heads.lanes.map((lane) => this.lanes.place(lane));
    const paths = heads.paths.map((path) => this.paths.place(path));
    const words = heads.words.map((word) => this.words.place(word));
    const size = heads.number.length - skip;
    const causeEnd = new Uint32Array(size);
    let count = 0;
    for (let i = 0; i < size; i++) causeEnd[i] = count += heads.causes[i + skip]!.length;
    const causes = new Float64Array(count);
    for (let i = 0, at = 0; i < size; i++) for (const cause of heads.causes[i + skip]!) causes[at++] = cause;
    const block = {
      size,
      number: new Float64Array(size),
      at: new Float64Array(size),
      who: new Uint16Array(size),
      lane: new Uint16Array(size),
      kind: new Uint8Array(size),
      files: new Uint32Array(size),
      file: new Int32Array(size),
      word: new Int32Array(size),
      tree: new Uint8Array(size),
      causeEnd,
      causes,
    };
    let [from, to] = [Infinity, -Infinity];
    for (let i = 0; i < size; i++) {
      const k = i + skip;
      const at = heads.start + heads.at[k]!;
      const [file, change] = [heads.file[k]!, heads.change[k]!];
      block.number[i] = heads.number[k]!;
      block.at[i] = at;
      block.who[i] = who[heads.who[k]!]!;
      block.lane[i] = lanes[heads.lane[k]!]!;
      if (heads.replica[k]! >= 0) {
        this.others.set(block.who[i]!, heads.replicas[heads.replica[k]!]!);
        this.othersLanes.add(block.lane[i]!);
      }
      block.kind[i] = kindOf(heads.types[heads.type[k]!]!, change < 0 ? "" : heads.changes[change]!, heads.unseen[k] === 1);
      block.files[i] = heads.files[k]!;
      block.file[i] = file < 0 ? -1 : paths[file]!;
      block.word[i] = words[heads.word[k]!]!;
      block.tree[i] = heads.tree[k]!;
      if (at < from) from = at;
      if (at > to) to = at;
    }
    return { ...block, from, to };
  }
}

/** How many of the first of `count` places fit, where all that fit stand first. */
export function upTo(count: number, fits: (i: number) => boolean): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (fits(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function joined(a: Block, b: Block): Block {
  const size = a.size + b.size;
  const both = <T extends Float64Array | Uint32Array | Uint16Array | Uint8Array | Int32Array>(made: T, x: T, y: T): T => {
    made.set(x);
    made.set(y, x.length);
    return made;
  };
  const causeEnd = both(new Uint32Array(size), a.causeEnd, b.causeEnd);
  for (let i = a.size; i < size; i++) causeEnd[i] = causeEnd[i]! + a.causes.length;
  return {
    size,
    number: both(new Float64Array(size), a.number, b.number),
    at: both(new Float64Array(size), a.at, b.at),
    who: both(new Uint16Array(size), a.who, b.who),
    lane: both(new Uint16Array(size), a.lane, b.lane),
    kind: both(new Uint8Array(size), a.kind, b.kind),
    files: both(new Uint32Array(size), a.files, b.files),
    file: both(new Int32Array(size), a.file, b.file),
    word: both(new Int32Array(size), a.word, b.word),
    tree: both(new Uint8Array(size), a.tree, b.tree),
    causeEnd,
    causes: both(new Float64Array(a.causes.length + b.causes.length), a.causes, b.causes),
    from: Math.min(a.from, b.from),
    to: Math.max(a.to, b.to),
  };
}

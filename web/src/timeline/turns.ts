/** The turns, from their starts and ends, by row. Pure. */

import type { Block, EventTable } from "./columns";
import { END, TURN } from "./kinds";

export interface Turns {
  /** By row: the numbers of `who`, and where the row's turns begin; one more at the end. */
  readonly rows: ReadonlyMap<number, readonly [number, number]>;
  readonly from: Float64Array;
  /** When it ended; of a turn that runs, or whose end nobody recorded: when the lane's next one began, or the log's last event. */
  readonly to: Float64Array;
}

/** Where in a block turns start and end. A block does not change. */
const ends = new WeakMap<Block, readonly number[]>();

function endsIn(block: Block): readonly number[] {
  let found = ends.get(block);
  if (!found) {
    const places: number[] = [];
    for (let i = 0; i < block.size; i++) if (block.kind[i] === TURN || block.kind[i] === END) places.push(i);
    ends.set(block, (found = places));
  }
  return found;
}

export function turnsOf(table: EventTable): Turns {
  const last = table.span?.to ?? 0;
  const open = new Map<number, { who: number; from: number }>();
  const byWho = new Map<number, [number, number][]>();
  const close = (lane: number, to: number): void => {
    const turn = open.get(lane);
    if (!turn) return;
    open.delete(lane);
    const list = byWho.get(turn.who);
    if (list) list.push([turn.from, to]);
    else byWho.set(turn.who, [[turn.from, to]]);
  };
  for (const block of table.blocks) {
    for (const i of endsIn(block)) {
      close(block.lane[i]!, block.at[i]!);
      if (block.kind[i] === TURN) open.set(block.lane[i]!, { who: block.who[i]!, from: block.at[i]! });
    }
  }
  for (const lane of [...open.keys()]) close(lane, last);
  const count = [...byWho.values()].reduce((sum, list) => sum + list.length, 0);
  const made = { rows: new Map<number, readonly [number, number]>(), from: new Float64Array(count), to: new Float64Array(count) };
  let at = 0;
  for (const [who, list] of byWho) {
    list.sort((a, b) => a[0] - b[0]);
    made.rows.set(who, [at, at + list.length]);
    for (const [from, to] of list) {
      made.from[at] = from;
      made.to[at++] = to;
    }
  }
  return made;
}

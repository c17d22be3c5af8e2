/** The timeline's data: blocks without a gap, levels that lose nothing, turns from their ends, the scale. */

import { describe, expect, test } from "vitest";
import { BLOCK, EventTable } from "../src/timeline/columns";
import { glyph } from "../src/timeline/glyphs";
import { gravest, kindNumber, kindOf, KINDS } from "../src/timeline/kinds";
import { drawnKind, indexed, levelFor, nearest, RowColumns, type Shown } from "../src/timeline/levels";
import { around, length, lengthWords, LONGEST, moved, SHORTEST, ticks, timeAt, whole, xOf, zoomed } from "../src/timeline/scale";
import { turnsOf } from "../src/timeline/turns";
import { whyNot, type Asked } from "../src/timeline/taking_back";
import { IN_LEGEND } from "../src/timeline/legend";
import { deed } from "../src/timeline/words";
import type { Heads } from "../src/timeline_types";

interface Row { at: number; who: string; type?: string; word?: string; change?: string; unseen?: boolean; causes?: number[]; replica?: string; lane?: string; files?: string[] }

/** A page of the room's, numbered from `first` on. */
function page(rows: Row[], first = 1, more = false): Heads {
  const lists = { lanes: [] as string[], names: [] as string[], types: [] as string[], paths: [] as string[], words: [] as string[], changes: [] as string[], replicas: [] as string[] };
  const place = (list: string[], text: string | undefined): number => {
    if (!text) return -1;
    if (!list.includes(text)) list.push(text);
    return list.indexOf(text);
  };
  const start = Math.min(...rows.map((row) => row.at));
  return {
    number: rows.map((_, i) => first + i),
    at: rows.map((row) => row.at - start),
    lane: rows.map((row) => place(lists.lanes, row.lane ?? `s/${row.who}`)),
    who: rows.map((row) => place(lists.names, row.who)),
    type: rows.map((row) => place(lists.types, row.type ?? "files.changed")),
    files: rows.map((row) => row.files?.length ?? 1),
    file: rows.map((row) => place(lists.paths, row.files?.[0] ?? "a.py")),
    word: rows.map((row) => place(lists.words, row.word ?? "wrote 1")),
    change: rows.map((row) => place(lists.changes, row.change)),
    unseen: rows.map((row) => Number(row.unseen ?? false)),
    tree: rows.map((row) => Number((row.type ?? "files.changed").startsWith("files."))),
    replica: rows.map((row) => place(lists.replicas, row.replica)),
    causes: rows.map((row) => row.causes ?? []),
    start,
    ...lists,
    more,
  };
}

const ALL: Shown = { kinds: (1 << KINDS.length) - 1, who: null, numbers: null, gone: new Map() };

/** As many events as that, of a few names, thick and thin by turns. The same each time. */
function crowd(count: number): Row[] {
  let seed = 7;
  const chance = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647;
  let at = 1_700_000_000_000;
  return Array.from({ length: count }, (_, i) => {
    at += chance() < 0.02 ? chance() * 80_000_000 : chance() * 900;
    // Clocks are not in the order of the log.
    return { at: Math.round(at - chance() * 5000), who: `A${Math.floor(chance() * 5)}`, type: chance() < 0.01 ? "checkpoint.made" : "files.changed", unseen: chance() < 0.05, causes: i > 3 && chance() < 0.2 ? [i - 2] : [] };
  });
}

describe("the table", () => {
  test("pages that come from the newest backwards, and new ones, are one run", () => {
    const rows = crowd(900);
    const table = new EventTable();
    table.putOlder(page(rows.slice(600, 800), 601, true));
    table.putOlder(page(rows.slice(0, 600), 1, false));
    table.putNewer(page(rows.slice(780, 900), 781));
    expect(table.size).toBe(900);
    expect([table.first, table.last, table.older]).toEqual([1, 900, false]);
    expect(table.blocks.length).toBe(2);
    for (const number of [1, 600, 601, 780, 781, 900]) {
      const place = table.find(number)!;
      expect(place.block.at[place.i]).toBe(rows[number - 1]!.at);
      expect(table.who.texts[place.block.who[place.i]!]).toBe(rows[number - 1]!.who);
      expect([...table.causesOf(place)]).toEqual(rows[number - 1]!.causes);
    }
    expect([table.find(0), table.find(901)]).toEqual([null, null]);
    expect([table.before(601), table.before(1), table.before(5)]).toEqual([600, null, 4]);
  });

  test("what comes twice is dropped, and a full block is followed by another", () => {
    const table = new EventTable();
    table.putOlder(page(crowd(BLOCK), 1));
    table.putNewer(page(crowd(3), BLOCK - 1));
    table.putNewer(page(crowd(3), BLOCK - 1));
    expect(table.size).toBe(BLOCK + 1);
    expect(table.blocks.map((block) => block.size)).toEqual([BLOCK, 1]);
  });

  test("effects are the events that name it as a cause", () => {
    const table = new EventTable();
    table.putOlder(page([{ at: 1, who: "A" }, { at: 2, who: "B", causes: [1] }, { at: 3, who: "A" }, { at: 4, who: "C", causes: [1, 2] }]));
    expect([table.effectsOf(1), table.effectsOf(2), table.effectsOf(4)]).toEqual([[2, 4], [4], []]);
  });

  test("the tree of a moment is that of the last event which has one", () => {
    const table = new EventTable();
    table.putOlder(page([{ at: 10, who: "A" }, { at: 20, who: "A", type: "turn.ended" }, { at: 30, who: "B" }]));
    const number = (at: number): number | undefined => {
      const place = table.treeAt(at);
      return place ? place.block.number[place.i] : undefined;
    };
    expect([number(5), number(10), number(25), number(99)]).toEqual([undefined, 1, 1, 3]);
  });
});

describe("levels", () => {
  const rows = crowd(4000);
  const table = new EventTable();
  table.putOlder(page(rows));
  const block = table.blocks[0]!;

  test("every level counts each shown event once, and keeps its kinds", () => {
    const index = indexed(block, ALL);
    expect(index.levels.length).toBeGreaterThan(3);
    for (const level of index.levels) {
      expect(level.first.at(-1)).toBe(rows.length);
      expect([...level.first].every((at, k) => k === 0 || at > level.first[k - 1]!)).toBe(true);
      const masks = level.mask.reduce((sum, mask) => sum | mask, 0);
      expect(masks).toBe(index.levels[0]!.mask.reduce((sum, mask) => sum | mask, 0));
    }
    const sizes = index.levels.map((level) => level.at.length);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(rows.length * 4);
  });

  test("whatever the zoom, a row's columns are what a count of all says, to a column", () => {
    const index = indexed(block, ALL);
    const columns = new RowColumns();
    const span = table.span!;
    for (const part of [1, 0.3, 0.02, 0.0005]) {
      const ms = ((span.to - span.from) * part) / 600;
      const from = span.from + (span.to - span.from) * (1 - part) * 0.6;
      for (let who = 0; who < table.who.texts.length; who++) {
        columns.clear(600);
        columns.add(index, who, from, ms, 600);
        const exact = new Uint32Array(600);
        for (let i = 0; i < block.size; i++) {
          const column = Math.floor((block.at[i]! - from) / ms);
          if (block.who[i] === who && column >= 0 && column < 600) exact[column]! += 1;
        }
        // An entry stands where its first event does, so up to a column earlier; at the edges one may be cut.
        let [sum, is] = [0, 0];
        const most = Math.max(...exact) + 1;
        for (let c = 0; c < 600; c++) {
          sum += columns.count[c]!;
          is += exact[c]!;
          expect(Math.abs(sum - is)).toBeLessThanOrEqual(2 * most);
        }
        expect(levelFor(index, ms).width).toBeLessThanOrEqual(ms);
      }
    }
  });

  test("a filter leaves out what is not shown", () => {
    const who = table.who.find("A2");
    const index = indexed(block, { kinds: 1 << kindNumber("checkpoint"), who: new Set([who]), numbers: null, gone: new Map() });
    const wanted = rows.filter((row) => row.who === "A2" && row.type === "checkpoint.made");
    expect(index.order.length).toBe(wanted.length);
    expect([...index.rows]).toEqual([who]);
    expect(indexed(block, { ...ALL, numbers: new Set([5, 9]) }).order.length).toBe(2);
  });

  test("what is taken back is drawn as that, and found by both kinds", () => {
    const small = new EventTable();
    small.putOlder(page([{ at: 100, who: "A" }, { at: 5000, who: "A" }, { at: 9000, who: "A", unseen: true }]));
    const gone = new Map([[2, true], [3, true]]);
    const block = small.blocks[0]!;
    expect([0, 1, 2].map((i) => KINDS[drawnKind(block, i, gone)]!.id)).toEqual(["write", "gone", "gone"]);
    const count = (kind: string): number => indexed(block, { ...ALL, kinds: 1 << kindNumber(kind), gone }).order.length;
    expect([count("write"), count("gone"), count("unseen")]).toEqual([2, 2, 1]);
    const columns = new RowColumns();
    columns.clear(2);
    columns.add(indexed(block, { ...ALL, gone }), block.who[0]!, 0, 5000, 2);
    expect([...columns.mask.subarray(0, 2)]).toEqual([1 << kindNumber("write"), 1 << kindNumber("gone")]);
  });

  test("the nearest event is found within reach, and no other", () => {
    const small = new EventTable();
    small.putOlder(page([{ at: 100, who: "A" }, { at: 200, who: "A" }, { at: 150, who: "B" }]));
    const index = indexed(small.blocks[0]!, ALL);
    expect([nearest(index, 0, 160, 50), nearest(index, 0, 149, 50), nearest(index, 1, 160, 50)]).toEqual([1, 0, 2]);
    expect([nearest(index, 0, 160, 10), nearest(index, 7, 160, 50)]).toEqual([-1, -1]);
  });
});

test("turns are from a start to its end, to the next start, or to the last event", () => {
  const table = new EventTable();
  table.putOlder(page([
    { at: 10, who: "A", type: "turn.started" }, { at: 15, who: "B", type: "turn.started" }, { at: 20, who: "A", type: "turn.ended" },
    { at: 30, who: "A", type: "turn.started" }, { at: 40, who: "A", type: "turn.started" }, { at: 50, who: "B" },
  ]));
  const turns = turnsOf(table);
  const of = (who: number): [number, number][] => {
    const [from, to] = turns.rows.get(who)!;
    return Array.from({ length: to - from }, (_, k) => [turns.from[from + k]!, turns.to[from + k]!]);
  };
  expect(of(0)).toEqual([[10, 20], [30, 40], [40, 50]]);
  expect(of(1)).toEqual([[15, 50]]);
});

test("kinds are by type, word and what was not seen; the graver stands for several", () => {
  const id = (type: string, word = "", unseen = false): string => KINDS[kindOf(type, word, unseen)]!.id;
  expect([id("files.changed"), id("files.changed", "", true), id("worktree.changed", "merged"), id("worktree.changed", "created"), id("worktree.changed", "discarded"), id("handoff")]).toEqual(["write", "unseen", "merge", "branch", "worktree", "handoff"]);
  expect(id("a.type.of.later")).toBe("worktree");
  const mask = (...ids: string[]): number => ids.reduce((sum, one) => sum | (1 << kindNumber(one)), 0);
  expect([gravest(mask("write", "read")), gravest(mask("write", "checkpoint", "conflict"))]).toEqual([kindNumber("write"), kindNumber("conflict")]);
});

test("each kind has a shape of its own", () => {
  const shapes = KINDS.map((_, kind) => glyph(kind).d);
  expect(new Set(shapes).size).toBe(KINDS.length);
  expect(KINDS.length).toBeLessThanOrEqual(31);
});

describe("the scale", () => {
  const view = { from: 1_700_000_000_000, to: 1_700_003_600_000 };

  test("what is at the pointer stays there while zooming, within bounds", () => {
    const at = timeAt(view, 300, 1000);
    const near = zoomed(view, 0.5, at);
    expect(xOf(near, at, 1000)).toBeCloseTo(300, 6);
    expect(length(near)).toBeCloseTo(length(view) / 2);
    expect([length(zoomed(view, 1e-9, at)), length(zoomed(view, 1e9, at))]).toEqual([SHORTEST, LONGEST]);
  });

  test("all that there is stays within reach", () => {
    const span = { from: view.from, to: view.to };
    expect(moved(view, 50, span).from).toBeLessThan(span.to);
    expect(moved(view, -50, span).to).toBeGreaterThan(span.from);
    const all = whole(span, 0);
    expect(all.from).toBeLessThan(span.from);
    expect(all.to).toBeGreaterThan(span.to);
    expect(length(whole(null, 1e12))).toBeGreaterThan(0);
    const far = around(view, view.to + 1000);
    expect(far.to).toBeGreaterThan(view.to + 1000);
    expect(around(view, view.from + length(view) / 2)).toBe(view);
  });

  test.each([2e3, 6e4, 3.6e6, 8.64e7, 6e8, 2.6e9, 3.2e10, 3e11])("ticks of %d ms are apart, in order, and named", (ms) => {
    const found = ticks({ from: view.from, to: view.from + ms }, 1000);
    expect(found.length).toBeGreaterThan(0);
    expect(found.length).toBeLessThan(14);
    expect(found.every((tick, i) => tick.at >= view.from && tick.at <= view.from + ms && (i === 0 || tick.at > found[i - 1]!.at))).toBe(true);
    expect(new Set(found.map((tick) => tick.label)).size).toBe(found.length);
  });

  test("lengths in words", () => {
    expect([2e3, 9e4, 7.2e6, 1.8e8, 8e9].map((ms) => lengthWords({ from: 0, to: ms }))).toEqual(["2 seconds", "2 minutes", "2 hours", "2 days", "3 months"]);
  });
});

test("what an event did is in the room's words, with its first file behind them", () => {
  const table = new EventTable();
  const told = "had its work merged into the main branch by ann (tw/ann/a)";
  table.putNewer(page([
    { at: 1, who: "A", word: "wrote 3, 1 unseen", files: ["src/a.py", "b.py", "c.py"] },
    { at: 2, who: "A", type: "worktree.changed", word: told, change: "merged", files: [""] },
  ]));
  expect(deed(table, table.find(1)!)).toBe("wrote 3, 1 unseen: src/a.py and 2 more");
  expect(deed(table, table.find(2)!)).toBe(told);
  expect(table.find(2)!.block.kind[1]).toBe(kindNumber("merge"));
});

describe("other rooms", () => {
  const other = "3f2a91bc00000000";
  const table = new EventTable();
  table.putOlder(page([{ at: 1, who: "A" }, { at: 2, who: "A@3f2a91bc", replica: other, lane: "t/A" }, { at: 3, who: "A", type: "turn.started" }]));

  test("have rows and lanes of their own", () => {
    expect([...table.others]).toEqual([[table.who.find("A@3f2a91bc"), other]]);
    expect([...table.othersLanes]).toEqual([table.lanes.find("t/A")]);
  });

  test("no moment of this room is theirs", () => {
    expect(table.treeAt(10)!.i).toBe(0);
    expect(table.before(3)).toBe(1);
  });
});

describe("what can be taken back", () => {
  const base: Asked = { name: "AVA", kind: "write", replica: null, nobody: false, known: true, uncommitted: false, carried: null, next: null };
  test.each<[string, Partial<Asked>, string | RegExp]>([
    ["an agent's change", {}, ""],
    ["a turn", { kind: "turn" }, ""],
    ["the newest rewind", { kind: "rewind", next: "undo" }, ""],
    ["an older rewind", { kind: "rewind" }, /not their turn/],
    ["what relay carried", { name: "main", nobody: true, carried: { name: "AVA", kind: "write" } }, "relay carried this for AVA: take it back from AVA’s row."],
    ["a rewind's commit", { name: "main", nobody: true, carried: { name: "ann", kind: "rewind" } }, /committed this for ann’s rewind/],
    ["what nobody knows", { name: "unknown", nobody: true, known: false }, /not known who/],
    ["another room's", { replica: "3f2a91bc00000000" }, /\(3f2a91bc\).*taken back there/],
    ["a person's open edit", { name: "ann", uncommitted: true }, /ann has not committed this/],
    ["a person's checkpoint", { name: "ann", kind: "checkpoint" }, /no file itself/],
  ])("%s", (_, more, said) => {
    const why = whyNot({ ...base, ...more });
    if (typeof said === "string") expect(why).toBe(said);
    else expect(why).toMatch(said);
  });
});

test("the legend has every kind that is drawn", () => {
  expect(IN_LEGEND.map((kind) => KINDS[kind]!.id)).toEqual(KINDS.map((kind) => kind.id).filter((id) => id !== "end"));
});

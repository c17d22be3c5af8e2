import { describe, expect, it } from "vitest";
import { fit, flat, groups, makeCloud, remade, scaled } from "../src/airspace/cloud";
import { inFrame, margins, standInSpace, standOnPlan } from "../src/airspace/frame";
import { liveModel, pastModel } from "../src/airspace/model";
import { MOVE_MS, moving, placeOf, towards } from "../src/airspace/motion";
import { appended, indexAt, inOrder, near, stillAt, strip, waysUpTo } from "../src/airspace/replay";
import { precisionLine, readings } from "../src/airspace/words";
import { isOpen, linkKey, sameCoordinates, why } from "../src/state/nearness";
import type { Advisory, AirspaceState, Link, Sample } from "../src/airspace_types";
import type { Level, Point } from "../src/basic_types";

const link = (a: string, b: string, risk: number, level: Level): Link => ({ a, b, risk, distance: 1 - risk, level, channels: {} });
const advisory = (more: Partial<Advisory>): Advisory => ({
  id: "x", agents: ["A", "B"], level: "resolution", risk: 0.9, opened_at: 1, closed_at: null, files: [], transmit: [], steer: [], hold: [], reason: "",
  evidence: [], text: "", message_id: null, answers: {}, deadline_at: null, outcome: null, mark: null, steering: null, ...more,
});
const state = (links: Link[], positions: Record<string, Point>): AirspaceState => ({
  profile: "calibrated", enabled: true, thresholds: { traffic: 0.35, resolution: 0.7, slack: 0.05 }, agents: [], links, advisories: [], positions,
  counts: { agents: 0, pairs: 0, clear: 0, advisory: 0, resolution: 0, files: 0 }, graph: { files: 0, edges: 0, failed: [], building: false },
  precision: { true: 0, false: 0, open: 0, useful: 0, noise: 0 }, at: 100,
});

describe("the cloud", () => {
  it("opens the folder that holds nearly everything", () => {
    const paths = ["README.md", ...["a", "b", "c"].flatMap((d) => [1, 2, 3].map((n) => `src/${d}/${n}.py`))];
    expect(new Set(groups(paths))).toEqual(new Set(["", "src/a", "src/b", "src/c"]));
  });

  it("ends when a folder cannot be opened any more", () => {
    expect(new Set(groups(["one/a", "one/b", "one/c"]))).toEqual(new Set(["one"]));
    expect(groups([])).toEqual([]);
  });

  it("is seen from its two widest sides", () => {
    const c: Record<string, Point> = {};
    for (let i = 0; i < 200; i++) c[`f${i}`] = [Math.sin(i) * 0.01, Math.sin(i * 7.3) * 5, Math.cos(i * 3.1) * 2];
    const f = fit(makeCloud(c).xyz);
    expect(Math.abs(f.axes[0][1])).toBeGreaterThan(0.99);
    expect(Math.abs(f.axes[1][2])).toBeGreaterThan(0.99);
    // Largest part positive: never mirrored.
    expect(f.axes[0][1]).toBeGreaterThan(0);
    expect(f.axes[1][2]).toBeGreaterThan(0);
  });

  it("keeps what is there in its place when files come", () => {
    const before: Record<string, Point> = { a: [0, 0, 0], b: [2, 0, 0], c: [0, 1, 0] };
    const f = fit(makeCloud(before).xyz);
    const at = flat(f, 2, 0, 0);
    makeCloud({ ...before, d: [9, 9, 9] });
    expect(flat(f, 2, 0, 0)).toEqual(at);
    expect(scaled(f, f.centre)).toEqual([0, 0, 0]);
  });

  it("takes new places of the same files over, and new files", () => {
    const cloud = makeCloud({ "x/a": [0, 0, 0], "y/b": [1, 0, 0] });
    const moved = remade(cloud, { "y/b": [5, 0, 0], "x/a": [0, 0, 0] });
    expect([...moved.xyz]).toEqual([0, 0, 0, 5, 0, 0]);
    expect(moved.folder).toBe(cloud.folder);
    expect(remade(cloud, { "x/a": [0, 0, 0], "z/c": [1, 1, 1] }).paths).toEqual(["x/a", "z/c"]);
    expect(remade(null, { a: [0, 0, 0] }).paths).toEqual(["a"]);
  });

  it("may be empty, or one file", () => {
    for (const c of [{}, { a: [3, 3, 3] }] as Record<string, Point>[]) {
      const cloud = makeCloud(c);
      expect(flat(fit(cloud.xyz), 3, 3, 3).every(Number.isFinite)).toBe(true);
    }
  });
});

describe("the frame", () => {
  const [width, height] = [360, 300];
  const m = margins(width, height, 80);
  const inside = (x: number, y: number): boolean =>
    x >= m.left - 1e-6 && x <= width - m.right + 1e-6 && y >= m.top - 1e-6 && y <= height - m.bottom + 1e-6;
  const scenes: Point[][] = [
    [[-3, 0, 0], [2, 1, 0.5], [0.2, -4, -1]],
    [[0, 0, 9], [0.1, 0, -9], [5, 5, 5]],
    [[1, 1, 1], [1, 1, 1]],
    [[40, 40, 40]],
  ];

  it("leaves room for a name, and for the picture where the name is long", () => {
    expect(m.right - m.left).toBe(80);
    const long = margins(width, height, 4000);
    expect(long.left + long.right).toBeLessThan(width * 0.6);
  });

  it.each(scenes.map((s) => [s]))("of space has all of %j within the margins, and is no farther than that", (points) => {
    const tan: [number, number] = [0.36, 0.3];
    const near = Math.max(...points.map((p) => p[2])) + 0.01;
    const at = standInSpace(points, tan, width, height, m, near);
    for (const p of points) {
      const depth = at.z - p[2];
      expect(inside((1 + (p[0] - at.x) / depth / tan[0]) * width / 2, (1 - (p[1] - at.y) / depth / tan[1]) * height / 2)).toBe(true);
    }
    // A hundredth nearer nobody could stand so that all are inside: no more is left empty than must be.
    const z = at.z * 0.99;
    const bound = (k: 0 | 1, high: number, low: number): boolean =>
      Math.max(...points.map((p) => p[k] - high * (z - p[2]))) <= Math.min(...points.map((p) => p[k] + low * (z - p[2])));
    const [w, h] = [1 - (2 * m.left) / width, 1 - (2 * m.top) / height];
    const fits = z > Math.max(...points.map((p) => p[2])) && bound(0, tan[0] * (1 - (2 * m.right) / width), tan[0] * w) && bound(1, tan[1] * h, tan[1] * h);
    expect(fits).toBe(false);
  });

  it.each(scenes.map((s) => [s]))("of the plan has all of %j within the margins", (points) => {
    const at = standOnPlan(points.map((p) => [p[0], p[1]] as const), 0.5, width, height, m);
    for (const p of points) expect(inside(width / 2 + (p[0] - at.x) * at.unit, height / 2 - (p[1] - at.y) * at.unit)).toBe(true);
  });

  it("has the cloud, but not where it makes those who are there tiny", () => {
    const must: Point[] = [[0, 0, 0], [1, 0, 0]];
    const [small, big]: [Point[], Point[]] = [[[2, 0, 0]], [[90, 0, 0]]];
    expect(inFrame(must, [small]).points).toEqual([...must, ...small]);
    expect(inFrame(must, [small, big]).points).toEqual([...must, ...small]);
    expect(inFrame(must, [big]).points).toEqual(must);
    // Nobody, or all in one place: the whole.
    expect(inFrame([], [big]).points).toEqual(big);
    expect(inFrame([[1, 0, 0]], [big]).points).toEqual([[1, 0, 0], ...big]);
  });
});

describe("motion", () => {
  const places = (x: number): Map<string, Point> => new Map([["A", [x, 0, 0]]]);

  it("goes from where it is seen to where it is told to be, and ends", () => {
    let m = towards(new Map(), places(0), 0, MOVE_MS);
    expect(moving(m, 0)).toBe(false);
    m = towards(m, places(1), 1000, MOVE_MS);
    const half = placeOf(m, "A", 1000 + MOVE_MS / 2)!;
    expect(half[0]).toBeGreaterThan(0.3);
    expect(half[0]).toBeLessThan(1);
    // A new tick in the middle of a move does not jump.
    const again = towards(m, places(5), 1000 + MOVE_MS / 2, MOVE_MS);
    expect(placeOf(again, "A", 1000 + MOVE_MS / 2)).toEqual(half);
    expect(placeOf(m, "A", 1000 + MOVE_MS)).toEqual([1, 0, 0]);
    expect(moving(m, 1000 + MOVE_MS)).toBe(false);
  });

  it("does not begin a move for a place that is the same", () => {
    const m = towards(new Map(), places(1), 0, MOVE_MS);
    expect(moving(towards(m, places(1), 10, MOVE_MS), 11)).toBe(false);
  });

  it("forgets who has left", () => {
    expect(placeOf(towards(towards(new Map(), places(1), 0, 0), new Map(), 1, 0), "A", 2)).toBeNull();
  });
});

describe("replay", () => {
  const sample = (at: number, x: number, level: Level = "clear", risk = 0.1): Sample => ({ at, positions: { A: [x, 0, 0] }, links: [{ a: "A", b: "B", risk, level }], advisories: [] });
  const stills = inOrder([sample(200, 2, "resolution", 0.9), sample(100, 1), sample(100, 1)]);

  it("has each time once, oldest first", () => {
    expect(stills.map((s) => s.at)).toEqual([100_000, 200_000]);
  });

  it.each([[99_000, -1], [100_000, 0], [150_000, 0], [200_000, 1], [900_000, 1]])("at %d the sample %d stands", (time, index) => {
    expect(indexAt(stills, time)).toBe(index);
  });

  it("stands until just before the next change, then glides", () => {
    expect(stillAt(stills, 50_000)).toBeNull();
    expect(stillAt(stills, 150_000)!.positions.A).toEqual([1, 0, 0]);
    expect(stillAt(stills, 190_000)!.positions.A![0]).toBeCloseTo(1.5);
    expect(stillAt(stills, 190_000)!.links[0]!.level).toBe("clear");
    expect(stillAt(stills, 300_000)!.positions.A).toEqual([2, 0, 0]);
  });

  it("goes on with what is told live, once", () => {
    const told = state([link("A", "B", 0.5, "advisory")], { A: [3, 0, 0] });
    expect(appended(stills, told)).toBe(stills);
    const more = appended(stills, { ...told, at: 300 });
    expect(more).toHaveLength(3);
    expect(appended(more, { ...told, at: 300 })).toBe(more);
  });

  it("shows the worst of each part of the track", () => {
    expect(strip(stills, 100_000, 300_000, 4).map((b) => b.level)).toEqual(["clear", "clear", "resolution", "resolution"]);
    expect(strip([], 0, 1000, 2)).toEqual([{ risk: 0, level: "clear" }, { risk: 0, level: "clear" }]);
  });

  it("leaves the way behind, without the steps in which nobody moved", () => {
    const still = inOrder([sample(100, 1), sample(110, 1), sample(120, 2)]);
    expect(waysUpTo(still, 125_000, 60_000).get("A")).toEqual([[1, 0, 0], [2, 0, 0]]);
  });

  it("says who was near whom, the gravest first", () => {
    const s = { at: 0, positions: {}, advisories: [], links: [link("A", "B", 0.6, "advisory"), link("C", "D", 0.1, "clear"), link("B", "C", 0.5, "resolution")] };
    expect(near(s).map((l) => linkKey(l.a, l.b))).toEqual(["B ↔ C", "A ↔ B"]);
  });
});

describe("the model", () => {
  const cloud = makeCloud({ "a.py": [0, 0, 0], "b.py": [1, 0, 0] });
  const now = state([link("A", "B", 0.3, "clear")], { A: [0, 0, 0], B: [1, 0, 0] });

  it.each(["clear", "advisory", "resolution"] as const)("shows the level %s of the link, not what its advisory was at worst", (level) => {
    const told = state([link("A", "B", 0.45, level)], now.positions);
    const m = liveModel(told, [], cloud, new Map([["x", advisory({ level: "resolution" })]]), null);
    expect(m.lines[0]).toMatchObject({ level, lit: true });
    expect(m.markers.map((x) => x.level)).toEqual([level, level]);
  });

  it("gives an agent the worst level of its own links only", () => {
    const told = state([link("A", "B", 0.45, "advisory"), link("B", "C", 0.9, "resolution")], { ...now.positions, C: [2, 0, 0] });
    const m = liveModel(told, [], cloud, new Map([["x", advisory({ agents: ["A", "B", "C"] })]]), null);
    expect(m.lines.map((l) => l.level)).toEqual(["advisory", "resolution"]);
    expect(m.markers.map((x) => [x.id, x.level])).toEqual([["A", "advisory"], ["B", "resolution"], ["C", "resolution"]]);
  });

  it("does not light a closed one", () => {
    const m = liveModel(now, [], cloud, new Map([["x", advisory({ closed_at: 5 })]]), null);
    expect(m.lines[0]).toMatchObject({ level: "clear", lit: false });
  });

  it("marks the files of the evidence that are in the cloud", () => {
    const x = advisory({ files: ["a.py", "gone.py"], evidence: [{ text: "", path: "b.py" }] });
    const m = liveModel(now, [], cloud, new Map([["x", x]]), { advisory: "x" });
    expect(m.marked.map((i) => cloud.paths[i])).toEqual(["a.py", "b.py"]);
    expect([...m.chosen].sort()).toEqual(["A", "A ↔ B", "B"]);
  });

  it("has no working sets in the past", () => {
    const still = { at: 1, positions: now.positions, links: now.links, advisories: ["x"] };
    const m = pastModel(still, [still], now, cloud, new Map([["x", advisory({})]]), null);
    expect(m.past).toBe(true);
    expect(m.markers.every((x) => x.files.length === 0)).toBe(true);
  });
});

describe("words", () => {
  it.each([
    [null, "no outcome known yet"],
    [{ true: 0, false: 0, open: 0, useful: 0, noise: 0 }, "no outcome known yet"],
    [{ true: 0, false: 0, open: 2, useful: 0, noise: 0 }, "no outcome known yet, 2 open"],
    [{ true: 12, false: 1, open: 2, averted: 3, useful: 0, noise: 0 }, "12 of 13 true, 3 averted, 2 open"],
    [{ true: 0, false: 1, open: 0, useful: 1, noise: 2 }, "0 of 1 true, 1 marked useful, 2 marked noise"],
  ])("precision %j is %s", (precision, words) => expect(precisionLine(precision)).toBe(words));

  it("takes channels as numbers with readings beside them", () => {
    const l: Link = { ...link("A", "B", 0.5, "advisory"), channels: { tree: 0.9, overlap: 0.5 }, readings: { tree: { risk: 0.9, weight: 0.1, alone: false, evidence: [] }, overlap: { risk: 0.5, weight: 1, alone: true, evidence: [] } } };
    expect(readings(l).map(([name]) => name)).toEqual(["overlap", "tree"]);
    expect(readings({ ...l, readings: undefined }).map(([name]) => name)).toEqual(["tree", "overlap"]);
  });

  it("says why", () => {
    expect(why(advisory({ evidence: [{ text: "both change a.py" }] }))).toBe("both change a.py");
    expect(why(advisory({ files: ["a.py"] }))).toBe("both are at a.py");
    expect(isOpen(advisory({ level: "clear" }))).toBe(false);
  });

  it("sees a cloud that changed", () => {
    expect(sameCoordinates({ a: [0, 0, 0] }, { a: [0, 0, 0] })).toBe(true);
    expect(sameCoordinates({ a: [0, 0, 0] }, { a: [0, 0, 1] })).toBe(false);
    expect(sameCoordinates({ a: [0, 0, 0] }, { b: [0, 0, 0] })).toBe(false);
  });
});

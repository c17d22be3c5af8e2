import { describe, expect, it } from "vitest";
import { apart, LEAST, PAIR } from "../src/airspace/apart";
import { lineWords } from "../src/airspace/words";
import type { Spot } from "../src/airspace/stage";

const spot = (x: number, y: number): Spot => ({ x, y, near: 1, seen: true });
const far = (a: Spot, b: Spot): number => Math.hypot(a.x - b.x, a.y - b.y);

describe("markers in the picture", () => {
  it("are apart when the room gives a colliding pair one place, the same way whatever the order", () => {
    const one = new Map([["A", spot(200, 200)], ["B", spot(200, 200)]]);
    const two = new Map([["B", spot(200, 200)], ["A", spot(200, 200)]]);
    apart(one, [["A", "B"]], 800, 600);
    apart(two, [["B", "A"]], 800, 600);
    expect(far(one.get("A")!, one.get("B")!)).toBeCloseTo(PAIR, 0);
    expect(one.get("A")!.x).toBeLessThan(one.get("B")!.x);
    expect(two.get("A")).toEqual(one.get("A"));
  });
  it("do not cover one another without a level either, and stand where they are when there is room", () => {
    const spots = new Map([["A", spot(100, 100)], ["B", spot(104, 100)], ["C", spot(400, 300)]]);
    apart(spots, [], 800, 600);
    expect(far(spots.get("A")!, spots.get("B")!)).toBeGreaterThanOrEqual(LEAST - 1);
    expect(spots.get("C")).toMatchObject({ x: 400, y: 300 });
  });
  it("stay in the picture, and what is outside stays outside", () => {
    const spots = new Map([["A", spot(5, 5)], ["B", spot(5, 5)], ["C", spot(-90, 40)]]);
    apart(spots, [["A", "B"]], 390, 300);
    for (const id of ["A", "B"]) expect(Math.min(spots.get(id)!.x, spots.get(id)!.y)).toBeGreaterThanOrEqual(16);
    expect(far(spots.get("A")!, spots.get("B")!)).toBeGreaterThan(60);
    expect(spots.get("C")!.x).toBe(-90);
  });
});

it.each([
  [["src/a/cart.py"], "cart.py 0.90"],
  [["src/a/cart.py", "b.py", "c.py"], "cart.py +2 0.90"],
  [[], "0.90"],
])("a line about %j says %s", (files, words) => expect(lineWords({ files, risk: 0.9 })).toBe(words));

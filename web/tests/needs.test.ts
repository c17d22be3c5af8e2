import { describe, expect, it } from "vitest";
import { merged, type Placed } from "../src/needs/words";
import type { Need } from "../src/types";

const need = (id: string, text = ""): Need => ({ id, kind: "question", at: "", about: "AVA", text, ref: null, ends_at: null, actions: [] });
const placed = (...ids: string[]): Placed[] => ids.map((id) => ({ need: need(id), gone: false }));
const shown = (of: { shown: readonly Placed[] }): string[] => of.shown.map((one) => `${one.need.id}${one.need.text}${one.gone ? " gone" : ""}`);
const nobody = new Set<string>();

describe("the list of needs", () => {
  it("is what the room says while nobody is in it", () => {
    expect(shown(merged(placed("a", "b"), [need("c"), need("a")], "", nobody))).toEqual(["c", "a"]);
  });
  it("moves no card while a person is in it, and counts what is new", () => {
    const told = merged(placed("a", "b"), [need("c"), need("d"), need("a", "!")], "focus", nobody);
    expect(shown(told)).toEqual(["a!", "b gone"]);
    expect(told.fresh).toBe(2);
  });
  it("lets go at once what the person settled, and what comes back stands again", () => {
    expect(shown(merged(placed("a", "b"), [need("b")], "focus", new Set(["a"])))).toEqual(["b"]);
    const before = merged(placed("a", "b"), [need("b")], "focus", nobody).shown;
    expect(shown(merged(before, [need("a"), need("b")], "focus", nobody))).toEqual(["a", "b"]);
  });
  it("keeps the place of what the person settles under a pointer, and of each button", () => {
    const does = (name: string) => ({ name, label: name, command: `/${name}`, asks: null });
    const before: Placed[] = [...placed("a"), { need: { ...need("b"), actions: [does("take"), does("leave")] }, gone: false }, ...placed("c")];
    const told = merged(before, [need("new"), { ...need("b"), actions: [does("ask"), does("leave")] }, need("c")], "pointer", new Set(["a"]));
    expect(shown(told)).toEqual(["a gone", "b", "c"]);
    // What is new comes when the pointer has left: another row of buttons would move the cards below.
    expect(told.shown[1]!.need.actions.map((one) => one.name)).toEqual(["take", "leave"]);
    expect([...told.shown[1]!.past!]).toEqual(["take"]);
    const other = merged(told.shown, [{ ...need("b"), actions: [does("ask")] }], "pointer", nobody).shown[1]!;
    expect(other.need.actions.map((one) => one.name)).toEqual(["take", "leave", "ask"]);
    expect([...other.past!]).toEqual(["take", "leave"]);
    // Also the only one: what is new would come below the pointer.
    expect(shown(merged(placed("a"), [need("new")], "pointer", new Set(["a"])))).toEqual(["a gone"]);
    expect(shown(merged(told.shown, [need("new"), need("b"), need("c")], "", new Set(["a"])))).toEqual(["new", "b", "c"]);
  });
  it("names the need that stands for a task's question now, and calls settled only what nobody asks any more", () => {
    const asks: Need = { ...need("answered:t1"), kind: "answered", ref: "t1" };
    const clash: Need = { ...need("conflict:c1"), kind: "conflict", tasks: [{ ref: "t1", says: "" }] };
    const told = merged([{ need: asks, gone: false }, ...placed("b")], [clash, need("b")], "focus", nobody);
    expect(shown(told)).toEqual(["answered:t1 gone", "b"]);
    expect(told.shown[0]!.heir?.id).toBe("conflict:c1");
    expect(merged(told.shown, [need("b")], "focus", nobody).shown[0]!.heir).toBeUndefined();
  });
  it("holds back nothing that expires: it comes to the end, where it moves no card", () => {
    const asks: Need = { ...need("p"), kind: "permission", ends_at: "2026-11-28T06:00:00Z" };
    const budget: Need = { ...need("s"), kind: "budget", ends_at: "2026-11-28T06:00:00Z" };
    const told = merged(placed("a", "b"), [asks, budget, need("c"), need("a"), need("b")], "focus", nobody);
    expect(shown(told)).toEqual(["a", "b", "p"]);
    expect([told.fresh, told.shown[2]!.late]).toEqual([2, true]);
    expect(shown(merged(told.shown, [asks, need("a"), need("b")], "focus", nobody))).toEqual(["a", "b", "p"]);
    expect(shown(merged(told.shown, [asks, need("a"), need("b")], "", nobody))).toEqual(["p", "a", "b"]);
  });
  it("takes in all that is new where nothing is left that could move", () => {
    expect(shown(merged(placed("a"), [need("b")], "focus", nobody))).toEqual(["b"]);
    expect(shown(merged([], [need("b")], "focus", nobody))).toEqual(["b"]);
  });
});

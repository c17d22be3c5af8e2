import { describe, expect, it } from "vitest";
import { capacity, drawn, radius, within, wrapped, type Drawing, type Label, type Size } from "../src/memory/layout";
import type { KnowledgeEntry, KnowledgeRelation, Source } from "../src/memory/types";
import { asTyped, folded, markedParts, relationWords, since, sourceWords } from "../src/memory/words";
import { readRef } from "../src/text/reference";

function entry(id: string, distance: number, more: Partial<KnowledgeEntry> = {}): KnowledgeEntry {
  return {
    id, distance, knowledge_type: "fact", content: `What ${id} says of the clock`, source_agent: "ann", source_event: `e-${id}`, topics: [], related_files: [],
    rationale: null, alternatives: [], severity: null, created_at: "2027-01-01T00:00:00Z", valid_from: "2027-01-01T00:00:00Z", valid_to: null, is_valid: true,
    extracted_by: "rule", visibility: "public", visible_to: [], ...more,
  };
}

/** The chosen one, so many beside it, and so many behind these. */
function star(direct: number, behind: number): [KnowledgeEntry[], KnowledgeRelation[]] {
  const near = Array.from({ length: direct }, (_, i) => entry(`n${i}`, 1));
  const far = Array.from({ length: behind }, (_, i) => entry(`f${i}`, 2));
  const relations = [
    ...near.map((other) => ({ source: other.id, relation: "supports", target: "mid" })),
    ...far.map((other, i) => ({ source: other.id, relation: "depends_on", target: `n${i % direct}` })),
  ];
  return [[entry("mid", 0), ...near, ...far], relations];
}

const DESK: Size = { width: 650, height: 600 };
const PHONE: Size = { width: 390, height: 300 };
const overlap = (a: Label, b: Label): boolean => Math.abs(a.x - b.x) * 2 < a.width + b.width && Math.abs(a.y - b.y) * 2 < a.height + b.height;
const labels = ({ spots, lines }: Drawing): Label[] => [...spots, ...lines].flatMap(({ name }) => (name ? [name] : []));

describe("the graph of knowledge", () => {
  it.each([[0, 0, DESK], [5, 3, DESK], [110, 9, DESK], [100, 200, DESK], [300, 0, PHONE], [4, 2, PHONE]])("of %i and %i further ones lies in its box, and nothing on another thing", (direct, behind, box) => {
    const [entries, relations] = star(Math.max(direct, 0), direct ? behind : 0);
    const drawing = drawn(entries, relations, "mid", box);
    expect(drawing.spots.length).toBe(Math.min(entries.length, capacity(box)));
    expect(drawing.spots[0]!.entry.id).toBe("mid");
    for (const spot of drawing.spots) {
      expect(spot.x).toBeGreaterThanOrEqual(radius(spot));
      expect(spot.y).toBeGreaterThanOrEqual(radius(spot));
      expect(spot.x).toBeLessThanOrEqual(box.width - radius(spot));
      expect(spot.y).toBeLessThanOrEqual(box.height - radius(spot));
    }
    drawing.spots.forEach((one, i) => {
      for (const other of drawing.spots.slice(i + 1)) expect(Math.hypot(one.x - other.x, one.y - other.y)).toBeGreaterThan(2 * radius(other));
    });
    const shown = labels(drawing);
    expect(shown).toContain(drawing.spots[0]!.name);
    shown.forEach((one, i) => {
      for (const other of shown.slice(i + 1)) expect(overlap(one, other), `${one.text} on ${other.text}`).toBe(false);
      expect(one.x - one.width / 2).toBeGreaterThanOrEqual(0);
      expect(one.x + one.width / 2).toBeLessThanOrEqual(box.width);
    });
  });

  it("is the same for the same", () => {
    const places = (): number[][] => drawn(...star(20, 20), "mid", DESK).spots.map((spot) => [spot.x, spot.y]);
    expect(places()).toEqual(places());
  });

  it("names all of a small one", () => {
    const { spots, lines } = drawn(...star(5, 3), "mid", DESK);
    expect(spots.filter((spot) => !spot.name)).toEqual([]);
    expect(lines.filter((line) => line.target.steps === 0 && !line.name)).toEqual([]);
  });

  it.each([[1, 0, PHONE], [1, 3, DESK], [5, 0, { width: 390, height: 160 }]])("of %i and %i has the chosen one in its middle", (direct, behind, box) => {
    const [middle] = drawn(...star(direct, behind), "mid", box).spots;
    expect(middle!.x).toBe(box.width / 2);
    expect(Math.abs(middle!.y - box.height / 2)).toBeLessThan(10);
  });

  it("cuts no words that have room", () => {
    const text = "The walrus cache loses writes when two of them are flushed at the same moment";
    const [entries, relations] = star(1, 0);
    const { spots } = drawn(entries.map((one) => ({ ...one, content: text })), relations, "mid", { width: 390, height: 280 });
    expect(spots.map((spot) => spot.name!.text.replaceAll("\n", " "))).toEqual([text, text]);
    expect(wrapped("one two three four", 7, 2)).toBe("one two\nthree…");
    expect(wrapped("averylongword b", 7, 3)).toBe("averyl…\nb");
  });

  it("has those within so many steps, the nearest first", () => {
    const entries = [entry("c", 2), entry("a", 1), entry("mid", 0), entry("d", 3)];
    expect(within(entries, "mid", 1).map((one) => one.id)).toEqual(["mid", "a"]);
    expect(within(entries, "mid", 3).map((one) => one.id)).toEqual(["mid", "a", "c", "d"]);
  });
});

describe("the words of the memory", () => {
  it("marks whole words that match, whatever their letters' size", () => {
    const marked = (text: string, marks: string[]): string[] => markedParts(text, marks).filter((part) => part.marked).map((part) => part.text);
    expect(marked("Clocks: never mock the CLOCK, o'clock, über", ["clock", "clocks", "über"])).toEqual(["Clocks", "CLOCK", "clock", "über"]);
    expect(markedParts("nothing", [])).toEqual([{ text: "nothing", marked: false }]);
    const text = "<b>mock</b> the\nclock";
    expect(markedParts(text, ["mock", "clock"]).map((part) => part.text).join("")).toBe(text);
  });

  it("folds the changes of one file where the first of them stands", () => {
    const change = (id: string, file: string): KnowledgeEntry => entry(id, 1, { topics: ["file_modification"], related_files: [file] });
    const about = entry("d", 1, { related_files: ["a.py"] });
    const groups = folded([about, change("1", "a.py"), change("2", "b.py"), change("3", "a.py")]);
    expect(groups.map((group) => group.map((one) => one.id))).toEqual([["d"], ["1", "3"], ["2"]]);
  });

  it("says what opens", () => {
    const source: Source = { type: "message.posted", event: null, message: "m", task: null, moment: 4 };
    expect(sourceWords(source)).toBe("Open the message");
    expect(sourceWords({ ...source, message: null, task: 3 })).toBe("Open task t3");
    expect(sourceWords({ ...source, message: null, type: "turn.ended", event: 7 })).toBe("Open the turn");
    expect(sourceWords({ ...source, message: null })).toBe("Files at that moment");
    expect(sourceWords(null)).toBe("");
  });

  it("reads relations both ways, times and numbers", () => {
    expect([relationWords("supersedes"), relationWords("supersedes", true), relationWords("new_one")]).toEqual(["replaces", "is replaced by", "new one"]);
    expect(since("day", Date.parse("2027-01-02T00:00:00Z"))).toBe("2027-01-01T00:00:00.000Z");
    expect(since("", 0)).toBe("");
    expect(readRef("r14")).toEqual({ thing: "r", number: 14 });
  });
});

describe("the words of a question", () => {
  it.each([
    [["postgre", "sql"], "why PostgreSQL here?", ["PostgreSQL"]],
    [["sql", "postgre"], "SQL or PostgreSQL", ["SQL", "PostgreSQL"]],
    [["clock"], "the clo", ["clock"]],
    [["cafe"], "Café", ["cafe"]],
  ])("%j in %j are %j", (pieces, question, said) => expect(asTyped(pieces, question)).toEqual(said));
});

import { describe, expect, it } from "vitest";
import { COLOURS, kept, preferred, shared, type Shade } from "../src/text/colours";

type Triple = readonly [number, number, number];

/** oklch to linear sRGB (Ottosson, "A perceptual color space for image processing"). */
function linear([hue, l, chroma]: Shade): Triple {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const p = (l + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const q = (l - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const r = (l - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [4.0767416621 * p - 3.3077115913 * q + 0.2309699292 * r, -1.2684380046 * p + 2.6097574011 * q - 0.3413193965 * r, -0.0041960863 * p - 0.7034186147 * q + 1.707614701 * r];
}

function oklab(rgb: Triple): Triple {
  const [r, g, b] = rgb.map((part) => Math.max(0, Math.min(1, part))) as unknown as Triple;
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}

/** What eyes without one kind of cone see, of linear sRGB (Machado, Oliveira and Fernandes 2009, severity 1). */
const EYES: Readonly<Record<string, readonly Triple[]>> = {
  usual: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

const luminance = ([r, g, b]: Triple): number => 0.2126 * r + 0.7152 * g + 0.0722 * b;
const ofHex = (hex: string): number =>
  luminance([1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)) as unknown as Triple);
/** As tokens.css has them. */
const GROUNDS = { light: ["#f4f6f4", "#eaeeeb", "#ffffff", "#eef1ef"], dark: ["#101413", "#0c100f", "#171c1b", "#1d2422"] };

describe("the colours of names", () => {
  for (const theme of ["light", "dark"] as const) {
    it(`can be read on every ground of the ${theme} theme`, () => {
      for (const colour of COLOURS) {
        const rgb = linear(colour[theme]);
        expect(Math.min(...rgb)).toBeGreaterThan(-0.002);
        expect(Math.max(...rgb)).toBeLessThan(1.002);
        const soft: Shade = theme === "light" ? [colour.light[0], 0.95, 0.03] : [colour.light[0], 0.26, 0.04];
        for (const ground of [...GROUNDS[theme].map(ofHex), luminance(linear(soft))]) {
          const [high, low] = [Math.max(luminance(rgb), ground), Math.min(luminance(rgb), ground)];
          expect((high + 0.05) / (low + 0.05)).toBeGreaterThanOrEqual(4.5);
        }
      }
    });

    for (const [eyes, see] of Object.entries(EYES)) {
      it(`differ in the ${theme} theme for ${eyes} eyes`, () => {
        const seen = COLOURS.map((colour) => {
          const rgb = linear(colour[theme]);
          return oklab(see.map((row) => row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]) as unknown as Triple);
        });
        // Two colours that are 0.02 apart can just be told from one another.
        for (const [at, one] of seen.entries())
          for (const other of seen.slice(at + 1)) expect(Math.hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2])).toBeGreaterThan(eyes === "usual" ? 0.1 : 0.065);
      });
    }
  }

  it("are each given once among ten names, and stay where they are when others come", () => {
    const names = ["CLAUDE", "CODEX", "GEMINI", "AVA", "BEN", "CLEO", "DAN", "EVE", "FAY", "GUS"];
    const places = shared(names);
    expect(new Set(places.values()).size).toBe(10);
    expect(places.get("CLAUDE")).toBe(preferred("claude"));
    const more = shared([...names, "ann", "bob"]);
    for (const name of names) expect(more.get(name)).toBe(places.get(name));
    expect(more.get("ANN")).not.toBe(more.get("BOB"));
  });

  it("stay people's own, whoever came before them is forgotten, and whichever agent is new", () => {
    const own = shared(["AVA", "BEN"]);
    const first = kept(own, new Map(["ann", "bob", "eve", "cat", "dan"].map((name) => [name, null])));
    expect(new Set(first.values()).size).toBe(7);
    // The next visit: others came first, and the oldest are forgotten.
    const again = new Map<string, number | null>([["zoe", null], ["bob", first.get("BOB")!], ["dan", first.get("DAN")!]]);
    const then = kept(own, new Map([...again].reverse()));
    expect(then.get("BOB")).toBe(first.get("BOB"));
    expect(then.get("DAN")).toBe(first.get("DAN"));
    // An agent keeps its own, and only who has that one gives way.
    const taken = kept(new Map([...own, ["CLEO", first.get("BOB")!]]), again);
    expect(taken.get("BOB")).not.toBe(first.get("BOB"));
    expect(taken.get("DAN")).toBe(first.get("DAN"));
    // Beside ten agents people differ from one another.
    const ten = kept(shared([..."ABCDEFGHIJ"]), new Map(["ann", "bob", "cat", "dan"].map((name) => [name, null])));
    expect(new Set(["ANN", "BOB", "CAT", "DAN"].map((name) => ten.get(name))).size).toBe(4);
  });
});

/** The shapes and what they mean, as the canvas draws them. */

import { glyph } from "./glyphs";
import { END, KINDS } from "./kinds";

export function Glyph({ kind }: { kind: number }) {
  const { d, tone, solid } = glyph(kind);
  return (
    <svg class={`tl-glyph tl-tone-${tone} ${solid ? "solid" : ""}`} viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true">
      <path d={d} fill-rule="evenodd" />
    </svg>
  );
}

/** All that is drawn as a mark or a bar of its own: the end of a turn is the end of its bar. */
export const IN_LEGEND: readonly number[] = KINDS.map((_, kind) => kind).filter((kind) => kind !== END);

/** What is drawn besides: lines and bars. */
const LINES: readonly { d: string; dashed?: boolean; solid?: boolean; name: string }[] = [
  { d: "M-7 4C-2 4 0-3 5-3M6-3L1.5-6M6-3L1.5 0", name: "Caused it, or was seen by it" },
  { d: "M-7 4C-2 4 0-3 5-3", dashed: true, name: "Came of the picked one" },
  { d: "M-7 5V1H-4V-4H-1V-1H2V-6H5V5Z", solid: true, name: "Many at once: the higher, the more" },
  { d: "M0-7V7", name: "Moment that is looked at, or A" },
  { d: "M0-7V7", dashed: true, name: "Moment B of a comparison" },
];

export function Legend() {
  return (
    <section class="tl-legend" aria-label="What the marks mean">
      <ul>
        {IN_LEGEND.map((kind) => <li key={kind}><Glyph kind={kind} />{KINDS[kind]!.name}</li>)}
        {LINES.map((line) => <li key={line.name}><svg class={`tl-glyph ${line.solid ? "solid" : ""}`} viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true"><path d={line.d} stroke-dasharray={line.dashed ? "3 3" : undefined} /></svg>{line.name}</li>)}
      </ul>
      <p>The colour is its author’s, as in the names; grey is nobody’s. A number below a mark: so many in one place. A name with a sign, as <code>CLAUDE@3f2a91bc</code>, is of another room.</p>
    </section>
  );
}

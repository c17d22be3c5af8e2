/** The shapes and what they mean, as the canvas draws them. */

import { glyph } from "./glyphs";
import { KINDS, kindNumber } from "./kinds";

export function Glyph({ kind }: { kind: number }) {
  const { d, tone, solid } = glyph(kind);
  return (
    <svg class={`tl-glyph tl-tone-${tone} ${solid ? "solid" : ""}`} viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true">
      <path d={d} fill-rule="evenodd" />
    </svg>
  );
}

const SHOWN = ["write", "unseen", "read", "turn", "branch", "merge", "conflict", "settled", "checkpoint", "handoff", "rewind", "undo", "redo"];

export function Legend() {
  return (
    <ul class="tl-legend" aria-label="What the marks mean">
      {SHOWN.map((id) => <li key={id}><Glyph kind={kindNumber(id)} />{KINDS[kindNumber(id)]!.name}</li>)}
      <li><svg class="tl-glyph" viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true"><path class="tl-arrow" d="M-7 4C-2 4 0-3 5-3M6-3L1.5-6M6-3L1.5 0" /></svg>Caused it, or was seen by it</li>
    </ul>
  );
}

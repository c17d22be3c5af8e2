/** The slider under the picture: the files of any moment within what is looked at. */

import { useRef } from "preact/hooks";
import { look, momentAt, set, table, version, viewNow, words } from "./state";
import { when } from "./words";

/** Milliseconds that the slider rests before the files are read. */
const REST_MS = 140;
const STEPS = 1000;

/** The next event with a tree, before or after the one of this number. */
function beside(number: number, step: -1 | 1): number | null {
  const place = table.find(number);
  if (!place) return null;
  let b = table.blocks.indexOf(place.block);
  let i = place.i + step;
  for (;;) {
    const block = table.blocks[b];
    if (!block) return null;
    for (; i >= 0 && i < block.size; i += step) if (block.tree[i] && !table.others.has(block.who[i]!)) return block.number[i]!;
    b += step;
    i = step > 0 ? 0 : (table.blocks[b]?.size ?? 0) - 1;
  }
}

export function Scrubber() {
  void version.value;
  const rest = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const at = momentAt.value;
  const seen = viewNow.value?.view ?? table.span;
  if (!seen || !table.size) return null;
  const length = Math.max(1, seen.to - seen.from);
  const value = at === null ? STEPS : Math.round(((at - seen.from) / length) * STEPS);
  return (
    <div class="tl-scrub" data-testid="tl-scrub">
      <input
        type="range"
        min={0}
        max={STEPS}
        step={1}
        value={Math.max(0, Math.min(STEPS, value))}
        aria-label="Moment whose files are shown"
        aria-valuetext={at === null ? "none chosen" : when(at)}
        data-testid="tl-slider"
        onInput={(event) => {
          const time = seen.from + (Number(event.currentTarget.value) / STEPS) * length;
          clearTimeout(rest.current);
          rest.current = setTimeout(() => look(time), REST_MS);
        }}
        onKeyDown={(event) => {
          const step = event.key === "ArrowLeft" || event.key === "ArrowDown" ? -1 : event.key === "ArrowRight" || event.key === "ArrowUp" ? 1 : 0;
          if (!step) return;
          event.preventDefault();
          const next = words.value.at ? beside(Number(words.value.at), step) : null;
          if (next !== null) set({ at: String(next) });
          else if (!words.value.at) look(seen.to);
        }}
      />
      <output class="muted">{at === null ? "Move it to see the files of that moment" : `Files at ${when(at)}`}</output>
    </div>
  );
}

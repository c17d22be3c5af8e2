/** The same events as a list, newest first: for the keyboard, for readers of the screen, and for whoever looks for one. */

import { useEffect, useState } from "preact/hooks";
import { counted } from "../text/format";
import type { Place } from "./columns";
import { Glyph } from "./legend";
import { drawnKind, isShown } from "./levels";
import { Name } from "./name";
import { hasOlder, loadOlder, set, shown, table, takenWords, version, words } from "./state";
import { deed, nameOf, when } from "./words";

const PAGE = 50;

/** The places of a page, and how many there are. Turns are shown here, as long as nothing else is asked for. */
function pageOf(page: number): { places: Place[]; count: number } {
  const wanted = shown.value;
  const places: Place[] = [];
  let count = 0;
  for (let b = table.blocks.length - 1; b >= 0; b--) {
    const block = table.blocks[b]!;
    for (let i = block.size - 1; i >= 0; i--) {
      if (!isShown(block, i, wanted)) continue;
      if (count >= page * PAGE && count < (page + 1) * PAGE) places.push({ block, i });
      count++;
    }
  }
  return { places, count };
}

export function EventList() {
  void version.value;
  const [page, setPage] = useState(0);
  const { agent, file, kind, event } = words.value;
  useEffect(() => setPage(0), [agent, file, kind]);
  const { places, count } = pageOf(page);
  const pages = Math.max(1, Math.ceil(count / PAGE));
  return (
    <div class="tl-list-box" data-testid="tl-list">
      <p class="offscreen" role="status" aria-live="polite">{counted(count, "event")}, page {page + 1} of {pages}</p>
      {count === 0 && <p class="diff-note">No event is like that. Change the filters above.</p>}
      <ol class="tl-list" aria-label={`Events, newest first, ${page * PAGE + 1} to ${page * PAGE + places.length} of ${count}`}>
        {places.map((place) => {
          const number = String(place.block.number[place.i]!);
          const name = nameOf(table, place);
          const at = place.block.at[place.i]!;
          const back = takenWords(Number(number));
          return (
            <li key={number}>
              <button type="button" class={`tl-event ${back && "tl-gone"}`} aria-pressed={event === number} onClick={() => set({ event: event === number ? "" : number })} data-testid="tl-event" data-number={number}>
                <Glyph kind={drawnKind(place.block, place.i, shown.value.gone)} />
                <time dateTime={new Date(at).toISOString()}>{when(at)}</time>
                <Name name={name} />
                <span class="tl-deed"><span>{deed(table, place)}</span>{back && <span class="tl-back">{back}</span>}</span>
                <span class="muted">#{number}</span>
              </button>
            </li>
          );
        })}
      </ol>
      <nav class="tl-pages" aria-label="Pages of the list">
        <button type="button" class="button small" disabled={page === 0} onClick={() => setPage(page - 1)} data-testid="tl-newer">Newer</button>
        <span class="muted">{count ? `${page * PAGE + 1}–${page * PAGE + places.length} of ${count.toLocaleString("en")}` : "0"}</span>
        <button type="button" class="button small" disabled={page + 1 >= pages} onClick={() => setPage(page + 1)} data-testid="tl-older">Older</button>
        {hasOlder.value && <button type="button" class="link" onClick={loadOlder}>Read older ones from the log</button>}
      </nav>
    </div>
  );
}

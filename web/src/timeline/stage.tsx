/** The picture in the page: names beside it, buttons over it, and what readers of the screen are told. */

import { computed, effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../state/prefs";
import { IconButton, hued } from "../ui/bits";
import { counted } from "../text/format";
import { nameClass } from "./name";
import { AXIS, ROW } from "./paint";
import { Picture } from "./picture";
import { lengthWords } from "./scale";
import { look, momentAt, picture, rows, set, shown, story, table, version, viewNow, withAt, words, type Look } from "./state";
import { clock } from "./words";

function summary(): string {
  return `${counted(table.size, "event")} of ${counted(rows.value.length, "row")}. Left and right go from event to event, up and down from row to row, plus and minus zoom, 0 shows all, Shift with left and right moves. “List” above has the same as a list.`;
}

/** What is looked at, for buttons and for readers of the screen. */
function Looking() {
  const at = viewNow.value;
  return <output class="tl-looking" data-testid="tl-looking" data-span={at ? Math.round(at.view.to - at.view.from) : 0} data-from={at ? Math.round(at.view.from) : 0}>{at ? `${lengthWords(at.view)} · ${counted(at.events, "mark")}` : ""}</output>;
}

const shownOnly = computed(() => words.value.agent);
const picked = computed(() => words.value.event);

function Names() {
  const only = shownOnly.value;
  return (
    <ul class="tl-names" aria-label="Agents and people">
      {rows.value.map((who) => {
        const name = table.who.texts[who]!;
        return (
          <li key={who}>
            <button type="button" class={nameClass(name)} style={hued(name)} aria-pressed={only === name} data-tip={only === name ? "Show everybody" : `Show only ${name}`} onClick={() => set({ agent: only === name ? "" : name })} data-testid={`tl-row-${name}`}>{name}</button>
          </li>
        );
      })}
    </ul>
  );
}

/** The picked event, for readers of the screen. */
function Said() {
  void version.value;
  const place = picked.value ? table.find(Number(picked.value)) : null;
  return <p class="offscreen" role="status" aria-live="polite" data-testid="tl-said">{place ? `${story(place)}. Event ${picked.value}.` : ""}</p>;
}

export function Stage() {
  const host = useRef<HTMLDivElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const made = new Picture(host.current!, scroller.current!, table, {
      onPick: (number) => set({ event: number === null ? "" : String(number) }),
      onMoment: look,
      onView: (view, width, events) => (viewNow.value = { view, width, events } satisfies Look),
      words: story,
    });
    picture.current = made;
    const themes = matchMedia("(prefers-color-scheme: dark)");
    const repaint = (): void => made.repaint();
    themes.addEventListener("change", repaint);
    const ends = [
      theme.subscribe(repaint),
      effect(() => made.setShown(shown.value)),
      effect(() => (void version.value, made.setTable(table, rows.peek()))),
      effect(() => made.setRows(rows.value)),
      effect(() => made.select(picked.value ? Number(picked.value) : null)),
      effect(() => {
        const [a, b] = [momentAt.value, withAt.value];
        const moment = (name: string, at: number | null) => (at === null ? [] : [{ name, at, words: clock(at) }]);
        made.setMoments([...moment(b === null ? "" : "A", a), ...moment("B", b === a ? null : b)]);
      }),
    ];
    return () => {
      themes.removeEventListener("change", repaint);
      for (const end of ends) end();
      made.dispose();
      picture.current = null;
      viewNow.value = null;
    };
  }, []);
  return (
    <div class="tl-stage" style={{ "--tl-rows": `${AXIS + rows.value.length * ROW + 58}px` }}>
      <div class="tl-scroll" ref={scroller}>
        <div class="tl-inner" style={{ minHeight: `${AXIS + rows.value.length * ROW}px` }}>
          <Names />
          <div class="tl-picture" ref={host} tabIndex={0} role="application" aria-roledescription="timeline" aria-label={summary()} data-testid="tl-picture" />
        </div>
      </div>
      <div class="tl-tools">
        <Looking />
        <IconButton icon="minus" label="Farther" keys="-" onClick={() => picture.current?.farther()} testid="tl-out" />
        <IconButton icon="plus" label="Nearer" keys="+" onClick={() => picture.current?.nearer()} testid="tl-in" />
        <IconButton icon="frame" label="Show all" keys="0" onClick={() => picture.current?.all()} testid="tl-all" />
      </div>
      <Said />
    </div>
  );
}

/** The time slider under the picture: the last hours, play and pause, and the way back to the present. */

import { useMemo } from "preact/hooks";
import { airspace, LEVEL_WORDS, linkKey } from "../state/airspace";
import { dayName } from "../text/format";
import { Icon, IconButton } from "../ui/bits";
import { ends, HOURS, hours, live, loadPast, pastAt, pause, play, playing, problem, seek, speed, SPEEDS, still, stills } from "./past";
import { near, strip } from "./replay";

const timeFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const shortFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const BARS = 160;
/** Milliseconds of one key press on the slider. */
const KEY_STEP = 10_000;

function Track({ from, to, at }: { from: number; to: number; at: number | null }) {
  const held = stills.value;
  const bars = useMemo(() => strip(held, from, to, BARS), [held, from, to]);
  return (
    <svg class="air-track" viewBox={`0 0 ${BARS} 24`} preserveAspectRatio="none" aria-hidden="true">
      {bars.map((bar, i) => bar.risk > 0 && <rect key={i} class={`bar-${bar.level}`} x={i} width={1.02} y={24 - Math.max(1.5, bar.risk * 24)} height={Math.max(1.5, bar.risk * 24)} />)}
      {at !== null && <rect class="air-now" x={(BARS * (at - from)) / (to - from) - 0.15} width={0.3} y={0} height={24} />}
    </svg>
  );
}

function Near() {
  const past = still.value;
  const at = pastAt.value;
  const list = near(past ?? { at: 0, positions: {}, links: airspace.value?.links ?? [], advisories: [] });
  if (at !== null && !past) return <p class="air-near muted">Before the first record.</p>;
  return (
    <p class="air-near" data-testid="air-near">
      {list.length === 0 && <span class="muted">{at === null ? "Nobody is near anybody." : "Nobody was near anybody."}</span>}
      {list.slice(0, 4).map((l) => (
        <span key={linkKey(l.a, l.b)} class={`near near-${l.level}`}>
          {linkKey(l.a, l.b)} <b>{LEVEL_WORDS[l.level]} {l.risk.toFixed(2)}</b>
        </span>
      ))}
      {list.length > 4 && <span class="muted">and {list.length - 4} more</span>}
    </p>
  );
}

export function TimeBar() {
  const { from, to } = ends.value;
  const at = pastAt.value;
  const empty = stills.value.length < 2;
  const shown = at ?? to;
  return (
    <div class="air-time" data-testid="air-time" data-live={at === null}>
      <div class="air-time-head">
        <IconButton icon={playing.value ? "pause" : "play"} label={playing.value ? "Pause" : at === null ? "Replay from the beginning" : "Play"} disabled={empty} onClick={() => (playing.value ? pause() : play())} testid="air-play" />
        <output class="air-clock" data-testid="air-clock">
          {at === null ? <><i class="dot dot-ready" aria-hidden="true" /> live</> : <>{dayName(new Date(at).toISOString(), Date.now())} {timeFormat.format(at)}</>}
        </output>
        {at !== null && <button type="button" class="button small" onClick={live} data-testid="air-live">Back to live</button>}
        <Near />
        <span class="air-time-set">
          <label><span class="offscreen">Replay speed</span>
            <select value={String(speed.value)} onChange={(e) => (speed.value = Number(e.currentTarget.value))}>
              {SPEEDS.map((s) => <option key={s} value={String(s)}>{s}×</option>)}
            </select>
          </label>
          <label><span class="offscreen">Span of the slider</span>
            <select value={String(hours.value)} onChange={(e) => { hours.value = Number(e.currentTarget.value); void loadPast(); }}>
              {HOURS.map((h) => <option key={h} value={String(h)}>{h} h</option>)}
            </select>
          </label>
        </span>
      </div>
      <div class="air-slide">
        <Track from={from} to={to} at={at} />
        <input
          type="range"
          min={from}
          max={to}
          step={1000}
          value={shown}
          disabled={empty}
          aria-label="Time"
          aria-valuetext={at === null ? "live" : timeFormat.format(at)}
          data-testid="air-slider"
          onInput={(event) => { pause(); seek(Number(event.currentTarget.value)); }}
          onKeyDown={(event) => {
            const by = event.key === "ArrowLeft" ? -KEY_STEP : event.key === "ArrowRight" ? KEY_STEP : 0;
            if (!by) return;
            event.preventDefault();
            pause();
            seek(Math.max(from, shown + by));
          }}
        />
        <div class="air-ends"><span>{shortFormat.format(from)}</span>{problem.value ? <span class="problem-line"><Icon name="help" size={12} /> {problem.value}</span> : empty && <span>Nothing changed in this time.</span>}<span>now</span></div>
      </div>
    </div>
  );
}

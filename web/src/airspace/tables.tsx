/** All that the picture shows, as tables: for readers of the screen, and for whoever likes them better. */

import { KIND_WORDS, kindOf, linkKey, other } from "../state/airspace";
import { picked } from "../state/view";
import type { Level, Point } from "../basic_types";
import { LevelChip } from "../ui/advisory";
import { Who } from "../ui/proximity";
import { flying } from "./flying";
import { pastAt, still } from "./past";
import { channelName, readings } from "./words";

const place = (p: Point | null | undefined): string => (p ? p.map((x) => x.toFixed(2)).join(", ") : "");
/** Rows that are listed; the rest is counted. */
const MOST = 200;

interface Pair {
  a: string;
  b: string;
  risk: number;
  level: Level;
  ahead?: boolean;
  why: string;
}

/** `acts` = with the buttons that pick; off the screen they would be in the way of the keyboard. */
export function Tables({ acts }: { acts: boolean }) {
  const state = flying.value;
  const past = still.value;
  const positions = past?.positions ?? (pastAt.value === null ? state?.positions : undefined) ?? {};
  const pairs: Pair[] = past
    ? past.links.map((l) => ({ ...l, why: "" }))
    : (state?.links ?? []).map((l) => ({ ...l, why: readings(l).filter(([, r]) => r.risk > 0).slice(0, 2).map(([name, r]) => `${channelName(name)} ${(r.risk * (r.weight ?? 1)).toFixed(2)}`).join(", ") }));
  pairs.sort((x, y) => y.risk - x.risk);
  const names = Object.keys(positions).sort();
  return (
    <div class="air-tables">
      <table class="jobs" data-testid="air-agents">
        <caption>{past ? "Agents then" : "Agents now"}</caption>
        <thead><tr><th>Agent</th>{!past && <><th>Kind</th><th>Branch</th><th class="num">Files</th></>}<th>Nearest</th><th class="num">Risk</th><th class="num">Place (x, y, z)</th></tr></thead>
        <tbody>
          {names.map((name) => {
            const agent = past ? undefined : state?.agents.find((a) => a.agentId === name);
            const link = pairs.find((l) => l.a === name || l.b === name);
            return (
              <tr key={name}>
                <td>{acts ? <button type="button" class="link plain-link" onClick={() => (picked.value = { agent: name })}><Who name={name} /></button> : name}</td>
                {!past && <><td>{agent?.kind ?? ""}{agent?.away && <span class="muted"> away with {agent.member}</span>}</td><td><code>{agent?.branch ?? ""}</code></td><td class="num">{agent?.files.length ?? ""}</td></>}
                <td>{link ? <><LevelChip level={link.level} inside={!acts} /> {other(link, name)}</> : "nobody"}</td>
                <td class="num">{link ? link.risk.toFixed(2) : ""}</td>
                <td class="num muted">{place(positions[name])}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <table class="jobs" data-testid="air-links">
        <caption>{pairs.length ? "Who is near whom" : "Nobody is near anybody"}{pairs.length > MOST ? `, the nearest ${MOST} of ${pairs.length} pairs` : ""}</caption>
        {pairs.length > 0 && (
          <>
            <thead><tr><th>Pair</th><th>Level</th><th class="num">Risk</th><th class="num dist">Distance</th>{!past && <th>Most by</th>}</tr></thead>
            <tbody>
              {pairs.slice(0, MOST).map((l) => (
                <tr key={linkKey(l.a, l.b)}>
                  <td>{acts ? <button type="button" class="link plain-link" onClick={() => (picked.value = { link: linkKey(l.a, l.b) })}><Who name={l.a} /> ↔ <Who name={l.b} /></button> : linkKey(l.a, l.b)}</td>
                  <td><LevelChip level={l.level} inside={!acts} /> {kindOf(l) === "clear" ? "" : KIND_WORDS[kindOf(l)]}</td>
                  <td class="num">{l.risk.toFixed(2)}</td>
                  <td class="num dist">{(1 - l.risk).toFixed(2)}</td>
                  {!past && <td class="muted most">{l.why}</td>}
                </tr>
              ))}
            </tbody>
          </>
        )}
      </table>
    </div>
  );
}

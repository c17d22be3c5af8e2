/** What is in the picture: agents, what is between them, and where they came from. Pure values, live or past. */

import { isOpen, kindOf, linkKey, RANK, type Kind } from "../state/nearness";
import type { Picked } from "../state/view";
import type { Advisory, AirspaceState, Evidence, Link } from "../airspace_types";
import type { Level, Point } from "../basic_types";
import type { Cloud } from "./cloud";
import { waysUpTo, type Still } from "./replay";

export interface Marker {
  id: string;
  person: boolean;
  /** Its machine is not here: it stands as it was seen last. */
  away: boolean;
  at: Point;
  level: Level;
  way: readonly Point[];
  /** Indices into the cloud. */
  files: readonly number[];
}

export interface Line {
  key: string;
  a: string;
  b: string;
  risk: number;
  level: Level;
  kind: Kind;
  /** An open advisory stands on it. */
  lit: boolean;
  /** The files that it is about, the first one the most. */
  files: readonly string[];
}

export interface Model {
  markers: readonly Marker[];
  lines: readonly Line[];
  picked: Picked;
  /** Agents and links of the pick; all others stand back. Empty = nothing is picked. */
  chosen: ReadonlySet<string>;
  /** Files of the evidence. */
  marked: readonly number[];
  past: boolean;
}

/** Milliseconds of the way that is drawn behind an agent. */
const WAY_MS = 20 * 60_000;

const worse = (x: Level, y: Level): Level => (RANK[y] > RANK[x] ? y : x);

type Between = Pick<Link, "a" | "b" | "risk" | "level" | "ahead" | "readings">;

/** The files of a pair: those of its advisory, else those of the evidence that weighs most. */
function filesOf(readings: Link["readings"], standing: readonly Advisory[]): string[] {
  const told = Object.values(readings ?? {}).sort((x, y) => y.risk * y.weight - x.risk * x.weight);
  const named = [...standing.flatMap((one) => one.files), ...told.flatMap((one) => evidenceFiles(one.evidence).slice(0, 1))];
  return [...new Set(standing.some((one) => one.files.length) ? standing.flatMap((one) => one.files) : named.slice(0, 1))];
}

function linesOf(links: readonly Between[], open: readonly Advisory[]): Line[] {
  return links.map(({ a, b, risk, level, ahead, readings }) => {
    const standing = open.filter((one) => one.agents.includes(a) && one.agents.includes(b));
    // The level is that of the link now: an advisory stands on with the worst that it was, also of another pair of its agents.
    return { key: linkKey(a, b), a, b, risk, level, kind: kindOf({ level, ahead }), lit: standing.length > 0, files: filesOf(readings, standing) };
  });
}

export function evidenceFiles(list: readonly (Evidence | string)[]): string[] {
  return list.flatMap((one) => (typeof one === "string" ? [] : [one.path, one.other_path])).filter((path): path is string => Boolean(path));
}

/** The agents and links a pick is about, and the files of its evidence. */
function chosenBy(picked: Picked, state: AirspaceState | null, lines: readonly Line[], advisories: ReadonlyMap<string, Advisory>): { chosen: Set<string>; files: string[] } {
  if (!picked) return { chosen: new Set(), files: [] };
  if ("agent" in picked) {
    const links = lines.filter((l) => l.a === picked.agent || l.b === picked.agent);
    const files = state?.agents.find((a) => a.agentId === picked.agent)?.files.map((f) => f.path) ?? [];
    return { chosen: new Set([picked.agent, ...links.flatMap((l) => [l.key, l.a, l.b])]), files };
  }
  if ("link" in picked) {
    const link = state?.links.find((l) => linkKey(l.a, l.b) === picked.link);
    const line = lines.find((l) => l.key === picked.link);
    const files = Object.values(link?.readings ?? {}).flatMap((reading) => evidenceFiles(reading.evidence));
    return { chosen: new Set([picked.link, ...(line ? [line.a, line.b] : [])]), files };
  }
  const one = advisories.get(picked.advisory);
  if (!one) return { chosen: new Set(), files: [] };
  const between = lines.filter((l) => one.agents.includes(l.a) && one.agents.includes(l.b)).map((l) => l.key);
  return { chosen: new Set([...one.agents, ...between]), files: [...one.files, ...evidenceFiles(one.evidence)] };
}

const known = (cloud: Cloud, paths: readonly string[]): number[] =>
  [...new Set(paths)].map((path) => cloud.index.get(path)).filter((i): i is number => i !== undefined);

/** The lines that say their file and their risk: in a crowd only the gravest. */
const MOST_TOLD = 12;

export function toldLines(model: Model): Line[] {
  const grave = [...model.lines].filter((l) => l.level !== "clear").sort((x, y) => y.risk - x.risk).slice(0, MOST_TOLD);
  const own = model.picked !== null && "link" in model.picked ? model.picked.link : null;
  const more = model.lines.filter((l) => l.key === own && !grave.includes(l));
  return [...grave, ...more];
}

/** The worst level of the links of one agent now. */
export function levelOf(id: string, lines: readonly Pick<Line, "a" | "b" | "level">[]): Level {
  return lines.filter((l) => l.a === id || l.b === id).reduce<Level>((worst, l) => worse(worst, l.level), "clear");
}

export function liveModel(state: AirspaceState, stills: readonly Still[], cloud: Cloud, advisories: ReadonlyMap<string, Advisory>, picked: Picked): Model {
  const lines = linesOf(state.links, [...advisories.values()].filter(isOpen));
  const { chosen, files } = chosenBy(picked, state, lines, advisories);
  const ways = waysUpTo(stills, Date.now(), WAY_MS);
  const markers = Object.entries(state.positions).map(([id, at]): Marker => {
    const agent = state.agents.find((a) => a.agentId === id);
    return {
      id,
      at,
      person: agent?.kind === "person",
      away: agent?.away === true,
      level: levelOf(id, lines),
      way: ways.get(id) ?? [],
      files: known(cloud, agent?.files.map((f) => f.path) ?? []),
    };
  });
  return { markers, lines, picked, chosen, marked: known(cloud, files), past: false };
}

/** The past knows places, risks and advisories; working sets it does not keep. */
export function pastModel(still: Still, stills: readonly Still[], state: AirspaceState | null, cloud: Cloud, advisories: ReadonlyMap<string, Advisory>, picked: Picked): Model {
  const stood = still.advisories.map((id) => advisories.get(id)).filter((one): one is Advisory => one !== undefined);
  // What level it had then is in the link; the advisory's own is that of its end.
  const lines = linesOf(still.links, stood).map((l) => ({ ...l, lit: l.lit && l.level !== "clear" }));
  const { chosen, files } = chosenBy(picked, null, lines, advisories);
  const ways = waysUpTo(stills, still.at, WAY_MS);
  const markers = Object.entries(still.positions).map(([id, at]): Marker => ({
    id,
    at,
    person: state?.agents.find((a) => a.agentId === id)?.kind === "person",
    away: false,
    level: levelOf(id, lines),
    way: ways.get(id) ?? [],
    files: [],
  }));
  return { markers, lines, picked, chosen, marked: known(cloud, files), past: true };
}

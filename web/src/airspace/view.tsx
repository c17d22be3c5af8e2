/** The airspace view: the picture, the time under it, and the evidence and the advisories beside it. */

import "../style/views.css";
import { effect, signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { airspaceProblem, advisories, coordinates, loadAdvisories, showCloud } from "../state/airspace";
import { memory, theme } from "../state/prefs";
import { phone, picked } from "../state/view";
import "../style/airspace.css";
import { counted } from "../text/format";
import { IconButton, Words } from "../ui/bits";
import { Term } from "../ui/term";
import { AdvisoryList } from "./advisories";
import { remade, type Cloud } from "./cloud";
import { PickPanel } from "./evidence";
import { absent, flying } from "./flying";
import { liveModel, pastModel } from "./model";
import { followLive, live, loadPast, pastAt, pause, still, stills } from "./past";
import { Picture, smooth } from "./picture";
import { Tables } from "./tables";
import { TimeBar } from "./timeline";

type Shown = "space" | "plan" | "table";
const MODES: readonly { mode: Shown; name: string }[] = [
  { mode: "space", name: "3D" },
  { mode: "plan", name: "Plan" },
  { mode: "table", name: "Table" },
];

/** What the reader chose; null = what suits the screen. */
const chosen = signal<Shown | null>(MODES.find((m) => m.mode === memory.get("airspace"))?.mode ?? null);
/** Why there is no 3D. */
const noSpace = signal("");

function choose(mode: Shown): void {
  if (mode === "space") noSpace.value = "";
  chosen.value = mode;
  memory.set("airspace", mode);
}

let isSmooth: boolean | null = null;

/** Without a graphics card the plan is what moves well; 3D is there for whoever asks for it. */
function shown(): Shown {
  const wanted = chosen.value ?? (phone.value || !(isSmooth ??= smooth()) ? "plan" : "space");
  return wanted === "space" && noSpace.value ? "plan" : wanted;
}

/** In words, for whoever does not see the picture. */
function summary(): string {
  const state = flying.value;
  if (!state) return "";
  const { agents, advisory, resolution } = state.counts;
  return `Map of the code: ${counted(agents, "agent")} among ${counted(Object.keys(coordinates.value).length, "file")}, ${counted(advisory, "pair")} at traffic, ${resolution} at resolution. Arrow keys turn it, plus and minus zoom, 0 resets. Tab goes to the agents. The same is below as tables.`;
}

function Legend() {
  const t = flying.value?.thresholds;
  return (
    <ul class="air-legend" aria-label="Lines">
      <li><i class="key key-clear" aria-hidden="true" />clear</li>
      <li><i class="key key-ahead" aria-hidden="true" /><Term id="ahead">may collide later</Term></li>
      <li><i class="key key-advisory" aria-hidden="true" /><Term id="ta">traffic</Term>{t ? ` ${t.traffic}` : ""}</li>
      <li><i class="key key-resolution" aria-hidden="true" /><Term id="ra">resolution</Term>{t ? ` ${t.resolution}` : ""}</li>
      <li><i class="key key-way" aria-hidden="true" />where an agent came from</li>
    </ul>
  );
}

function Stage({ mode }: { mode: "space" | "plan" }) {
  const host = useRef<HTMLDivElement>(null);
  const picture = useRef<Picture | null>(null);
  const held = useRef<Cloud | null>(null);
  const cloud = useMemo(() => remade(held.current, coordinates.value), [coordinates.value]);
  held.current = cloud;
  useEffect(() => {
    const made = new Picture(host.current!, {
      onPick: (what) => (picked.value = what),
      onNoSpace: (why) => (noSpace.value = why),
    });
    picture.current = made;
    const themes = matchMedia("(prefers-color-scheme: dark)");
    const repaint = (): void => made.repaint();
    themes.addEventListener("change", repaint);
    const unfollow = theme.subscribe(repaint);
    return () => {
      themes.removeEventListener("change", repaint);
      unfollow();
      made.dispose();
      picture.current = null;
    };
  }, []);
  useEffect(() => void picture.current?.setMode(mode), [mode]);
  useEffect(() => picture.current?.setCloud(cloud), [cloud]);
  // The model follows its signals without drawing the view anew.
  useEffect(
    () =>
      effect(() => {
        const state = flying.value;
        const past = still.value;
        if (pastAt.value !== null) {
          const nothing = { at: pastAt.value, positions: {}, links: [], advisories: [] };
          picture.current?.setModel(pastModel(past ?? nothing, stills.value, state, cloud, advisories.value, picked.value), false);
        } else if (state) picture.current?.setModel(liveModel(state, stills.value, cloud, advisories.value, picked.value), true);
      }),
    [cloud],
  );
  return (
    <div class="air-stage">
      <div class="air-picture" ref={host} tabIndex={0} role="group" aria-label={summary()} data-testid="air-picture" data-mode={mode} />
      <div class="air-tools">
        <IconButton icon="plus" label="Nearer" keys="+" onClick={() => picture.current?.act("in")} />
        <IconButton icon="minus" label="Farther" keys="-" onClick={() => picture.current?.act("out")} />
        <IconButton icon="frame" label="Reset the view" keys="0" onClick={() => picture.current?.reset()} testid="air-reset" />
      </div>
      <Legend />
    </div>
  );
}

function Counts() {
  const state = flying.value;
  if (!state) return null;
  const { counts } = state;
  const unchecked = state.unchecked ?? [];
  const failed = unchecked.filter((pair) => pair.why);
  const setBack = new Set(state.advisories.flatMap((one) => (one.set_back ?? []).map((back) => back.agent)));
  return (
    <p class="air-counts" data-testid="air-counts">
      {pastAt.value !== null && "now: "}{counted(counts.agents, "agent")} · {counted(counts.pairs, "pair")}
      {counts.advisory > 0 && <b class="said-advisory-count"> · {counts.advisory} traffic</b>}
      {counts.resolution > 0 && <b class="said-resolution-count"> · {counts.resolution} resolution</b>}
      {setBack.size > 0 && <b class="said-resolution-count"> · {setBack.size} set back</b>}
      {failed.length > 0 && (
        <b class="said-advisory-count" data-tip={failed.map((pair) => `${pair.a} and ${pair.b}: ${pair.why}`).join("; ")} data-testid="air-unchecked">
          {` · ${counted(failed.length, "pair")} not compared across files`}
        </b>
      )}
      {unchecked.length > failed.length && ` · ${counted(unchecked.length - failed.length, "pair")} still to be compared`}
      {counts.files > 0 && ` · ${counted(counts.files, "file")} touched`}
    </p>
  );
}

/** What the picture cannot say itself. */
function Hints() {
  const state = flying.value;
  const lines: string[] = [];
  if (state) {
    if (!state.enabled) lines.push("The airspace is switched off: nothing is measured. Set `airspace.enabled` to true in `config.json`, and start the room again.");
    if (state.graph.building) lines.push(`The graph of the code is being built (${counted(state.graph.files, "file")} so far). Risks from imports and symbols are missing until then.`);
    if (state.enabled && state.counts.agents === 0) lines.push(`Nobody is at work here. This shows who works where in the code, and how near they come to each other. An agent appears when it has a worktree or a lock, or when \`/intent @AGENT path\` says what it will change.${absent.value.size ? ` ${[...absent.value].join(", ")} ${absent.value.size === 1 ? "is" : "are"} not installed.` : ""}`);
    if (state.enabled && state.counts.agents > 0 && state.agents.every((a) => !a.files.length && !a.intent.length)) lines.push("Nobody has changed a file, or said what they will change, so there is nothing to measure. This shows who works where in the code, and how near they come.");
    if (state.enabled && state.counts.agents === 1) lines.push("There is only one agent, so nothing can be near it.");
    if (state.graph.failed.length) lines.push(`${state.graph.failed.length} ${state.graph.failed.length === 1 ? "file does" : "files do"} not parse now and keep${state.graph.failed.length === 1 ? "s its" : " their"} last good edges: ${state.graph.failed.slice(0, 3).join(", ")}${state.graph.failed.length > 3 ? ", …" : ""}`);
  }
  if (noSpace.value && chosen.value !== "plan" && chosen.value !== "table") lines.push(`${noSpace.value} This is the plan.`);
  return <>{lines.map((line) => <p key={line} class="notice air-notice" data-testid="air-hint"><Words text={line} /></p>)}</>;
}

function Nothing() {
  return (
    <div class="empty" data-testid="air-none">
      <h2>{airspaceProblem.value ? "There is no airspace here" : "Reading the airspace…"}</h2>
      {airspaceProblem.value && <p><Words text={airspaceProblem.value} /></p>}
      {airspaceProblem.value && <p class="muted">It measures how near agents come to each other in the code. It needs <code>workspace.repo</code> in <code>config.json</code>, and agents with a worktree each.</p>}
    </div>
  );
}

export default function AirspaceView() {
  useEffect(() => {
    void loadPast();
    showCloud(true);
    loadAdvisories().catch(() => undefined); // the whole state brings the open ones; the past is then missing, not wrong
    const stop = followLive();
    return () => {
      showCloud(false);
      stop();
      pause();
      live();
    };
  }, []);
  const side = useRef<HTMLElement>(null);
  // Where the evidence stands below the picture, a pick brings its beginning into view.
  useEffect(() => {
    if (picked.value) side.current?.querySelector(".evi-head")?.scrollIntoView({ block: "nearest" });
  }, [picked.value]);
  const mode = shown();
  const state = flying.value;
  return (
    <section class="view air-view" aria-label="Airspace" data-shown={mode}>
      <header class="view-head">
        <h1>Airspace</h1>
        <Counts />
        <div class="segments" role="group" aria-label="Shown as">
          {MODES.map((m) => <button key={m.mode} type="button" aria-pressed={mode === m.mode} data-tip={m.mode === "space" && isSmooth === false ? "This machine has no graphics card for it: it is slow" : undefined} onClick={() => choose(m.mode)} data-testid={`air-${m.mode}`}>{m.name}</button>)}
        </div>
      </header>
      {!state ? <Nothing /> : (
        <div class="air-body">
          <div class="air-main">
            <Hints />
            {mode === "table" ? <div class="air-table-box"><Tables acts /></div> : <><Stage mode={mode} /><div class="offscreen"><Tables acts={false} /></div></>}
            <TimeBar />
          </div>
          <aside class="air-side" ref={side}>
            <PickPanel />
            <AdvisoryList />
          </aside>
        </div>
      )}
    </section>
  );
}

/** What runs in the agents' worktrees: the app of each branch with its link, its setup, and what they print. */

import "../style/runs.css";
import { useEffect, useRef } from "preact/hooks";
import { lastLines, plain } from "../landing/over";
import { api } from "../api_views";
import { commands, disk, loadWorktrees, printed } from "../state/worktrees";
import { counted } from "../text/format";
import type { Worktree, WorktreeApp, WorktreeSetup } from "../worktree_types";
import { attempt, Icon, IconButton, tell } from "./bits";
import { Who } from "./proximity";

export const size = (count: number): string => (count >= 1e9 ? `${(count / 1e9).toFixed(1)} GB` : `${Math.round(count / 1e6) || (count ? "<1" : 0)} MB`);

/**
 * The app is opened where this page is: on another machine than the room's, that one's name leads there. On this machine
 * it has the other name: a browser sends the room's cookie to every port of a name.
 */
const OTHER: Readonly<Record<string, string>> = { "127.0.0.1": "localhost", localhost: "127.0.0.1" };
const address = (app: WorktreeApp): string => `http://${OTHER[location.hostname] ?? location.hostname}:${app.port}/`;

const alive = (app: WorktreeApp | null | undefined): app is WorktreeApp => !!app && ["starting", "running", "listening", "stopping"].includes(app.state);

function appWords(app: WorktreeApp): string {
  if (app.state === "exited") return app.reason || "ended";
  if (app.state === "interrupted") return `${app.reason}; Run starts it again`;
  return { starting: "is being started", running: "runs, and listens on no port yet", listening: `listens on port ${app.port}`, stopping: "is being ended", stopped: "stopped" }[app.state];
}

function setupWords(setup: WorktreeSetup): string {
  if (setup.state === "failed") return `setup failed: ${setup.reason}`;
  return { due: "setup is due", running: "setup runs", done: setup.notes.length ? `set up, ${counted(setup.notes.length, "file")} not copied` : "set up" }[setup.state];
}

async function act(agent: string, what: "run" | "stop" | "setup"): Promise<void> {
  await tell(api.runInWorktree(agent, what));
  void loadWorktrees();
}

async function look(agent: string): Promise<void> {
  if (printed.value?.agent === agent) printed.value = null;
  else await attempt(api.worktreeRuns(agent).then((told) => { printed.value = told; }));
}

/** The cell of one worktree. */
export function Runs({ tree }: { tree: Worktree }) {
  const { app, setup } = tree;
  if (tree.member || !tree.ports) return <span class="muted">–</span>;
  const running = alive(app);
  const [low, high] = tree.ports;
  const tip = [low === high ? `Port ${low}` : `Ports ${low} to ${high}`, tree.disk ? `${tree.disk.whole ? "" : "At least "}${size(tree.disk.bytes)} on disk` : ""].filter(Boolean).join("\n");
  const wrong = setup?.state === "failed" || !!setup?.notes.length;
  return (
    <span class="runs" data-testid="runs" data-state={app?.state ?? "none"}>
      <span class="runs-act">
        {commands.value.run && (running
          ? <button type="button" class="button small" disabled={app.state === "stopping"} onClick={() => void act(tree.agent, "stop")} data-testid="app-stop"><Icon name="stop" size={12} /> Stop<span class="offscreen"> the app of {tree.agent}</span></button>
          : <button type="button" class="button small" disabled={tree.busy === "archive"} onClick={() => void act(tree.agent, "run")} data-testid="app-run"><Icon name="play" size={12} /> Run<span class="offscreen"> the app of {tree.agent}</span></button>)}
        {running && app.port !== null && <a class="runs-link" href={address(app)} target="_blank" rel="noreferrer" data-testid="app-link">:{app.port}<span class="offscreen"> of {tree.agent}, in a new tab</span></a>}
        {(app || setup) && <button type="button" class="link" aria-expanded={printed.value?.agent === tree.agent} onClick={() => void look(tree.agent)} data-testid="app-output">Output<span class="offscreen"> of {tree.agent}</span></button>}
      </span>
      {app && !(app.state === "listening" || app.state === "stopped") && <span class={app.state === "exited" ? "runs-bad" : "muted"} data-testid="app-state">{appWords(app)}</span>}
      {setup && (wrong || setup.state !== "done") && <span class={wrong ? "runs-bad" : "muted"} data-tip={setup.notes.slice(0, 10).join("\n") || undefined} tabIndex={setup.notes.length ? 0 : undefined} data-testid="setup-state">{setupWords(setup)}</span>}
      {wrong && tree.own && <button type="button" class="link" disabled={tree.working === true || !!tree.busy} onClick={() => void act(tree.agent, "setup")} data-testid="setup-again">Run setup again</button>}
      <span class="runs-place muted" data-tip={tip}>{low === high ? `port ${low}` : `ports ${low}–${high}`}{tree.disk && <> · <span class="runs-size">{tree.disk.whole ? "" : "≥ "}{size(tree.disk.bytes)}</span></>}</span>
    </span>
  );
}

function Said({ name, words, output }: { name: string; words: string; output: string }) {
  const box = useRef<HTMLPreElement>(null);
  const text = lastLines(plain(output));
  useEffect(() => {
    const at = box.current;
    // Who has scrolled up reads.
    if (at && at.scrollHeight - at.scrollTop - at.clientHeight < 80) at.scrollTop = at.scrollHeight;
  }, [text]);
  return (
    <div class="runs-said">
      <h3>{name} <span class="muted">{words}</span></h3>
      {text && <pre ref={box} class="runs-output" tabIndex={0} aria-label={`What the ${name.toLowerCase()} printed`}>{text}</pre>}
    </div>
  );
}

/** What the setup and the app of one worktree print. */
export function Printed() {
  useEffect(() => () => { printed.value = null; }, []);
  const told = printed.value;
  if (!told?.agent) return null;
  return (
    <section class="runs-box" aria-label={`Output of ${told.agent}'s worktree`} data-testid="app-printed">
      <header>
        <h2><Who name={told.agent} /> <span class="muted">output of its worktree</span></h2>
        {commands.value.setup && <button type="button" class="button small" disabled={!!told.busy} onClick={() => void act(told.agent, "setup")} data-testid="setup-run">Run setup again</button>}
        <IconButton icon="close" label="Hide output" onClick={() => (printed.value = null)} />
      </header>
      {told.app && <Said name="App" words={appWords(told.app)} output={told.app.output ?? ""} />}
      {told.setup && <Said name="Setup" words={setupWords(told.setup)} output={told.setup.output ?? ""} />}
      {!told.app && !told.setup && <p class="diff-note">Nothing has run in it.</p>}
    </section>
  );
}

/** No new worktree is made: what could be removed. */
export function Full() {
  const told = disk.value;
  if (!told?.full || told.cap === null) return null;
  return (
    <p class="notice notice-warn" data-testid="disk-full">
      No new worktree is made: they take {size(told.bytes)}, and <code>worktrees.disk_cap_mb</code> allows {size(told.cap)}.{" "}
      {told.removable.length > 0 ? <>Landed and idle: {told.removable.slice(0, 5).map((agent, i) => <span key={agent}>{i > 0 && ", "}<Who name={agent} /></span>)}. <code>relay worktrees remove {told.removable[0]}</code> removes one.</> : "None is landed and idle: land or discard work, or raise the limit."}
    </p>
  );
}

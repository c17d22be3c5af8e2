/** The dispatch queue as rows: what is asked of whom, and how it went. */

import "../style/views.css";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { requestOf } from "../state/permissions";
import { away, entryNow, jobs, now, numberOf } from "../state/room";
import { jobFocus, showEntry } from "../state/view";
import { ago, instant, lasting, receipt, span } from "../text/format";
import { inOneLine, plainLine } from "../text/markdown";
import { ref } from "../text/reference";
import type { Job, JobState } from "../types";
import { attempt, hued, tell } from "./bits";

const FILTERS: readonly { state: JobState | ""; name: string }[] = [
  { state: "", name: "All" },
  { state: "active", name: "Working" },
  { state: "pending", name: "Queued" },
  { state: "failed", name: "Retrying" },
  { state: "dead", name: "Failed" },
  { state: "skipped", name: "Skipped" },
  { state: "done", name: "Answered" },
];

function took(job: Job, at: number): string {
  const started = instant(job.started_at);
  if (started === null) return "";
  const ended = instant(job.ended_at);
  return ended === null ? lasting(at - started) : span(ended - started);
}

export default function QueueView() {
  const [filter, setFilter] = useState<JobState | "">("");
  const [older, setOlder] = useState<Job[]>([]);
  useEffect(() => {
    let gone = false;
    void attempt(api.queue(200, filter).then((found) => { if (!gone) setOlder(found); }));
    return () => { gone = true; };
  }, [filter]);
  // The live ones win over what was read.
  const all = new Map(older.map((j) => [j.id, j]));
  for (const job of jobs.value.values()) all.set(job.id, job);
  // What the room answered itself (commands) is not waited for; listed, it would hide the rest.
  const list = [...all.values()].filter((j) => j.agent !== "RELAY" || j.state !== "done").sort((a, b) => b.id - a.id);
  const rows = list.filter((j) => !filter || j.state === filter).slice(0, 300);
  const count = (state: JobState | ""): number => (state ? list.filter((j) => j.state === state).length : list.length);
  const at = now.value;
  const asked = jobFocus.value;
  useEffect(() => {
    const row = asked === null ? null : document.querySelector<HTMLElement>(`[data-job="${asked}"]`);
    if (!row) return;
    row.scrollIntoView({ block: "center" });
    row.focus();
    jobFocus.value = null;
  }, [asked, rows.length]);
  return (
    <section class="view queue-view" aria-label="Queue">
      <header class="view-head">
        <h1>Queue</h1>
        <div class="segments" role="group" aria-label="Filter by state">
          {FILTERS.map((f) => (
            <button key={f.state} type="button" aria-pressed={filter === f.state} onClick={() => setFilter(f.state)} data-testid={`filter-${f.state || "all"}`}>
              {f.name}{count(f.state) ? <span>{count(f.state)}</span> : null}
            </button>
          ))}
        </div>
      </header>
      {rows.length ? (
        <div class="table-box">
          <table class="jobs">
            <thead>
              <tr><th>Job</th><th>Agent</th><th>State</th><th>Message</th><th class="num">Tries</th><th class="num">Took</th><th class="num">Asked</th><th><span class="offscreen">Actions</span></th></tr>
            </thead>
            <tbody>
              {rows.map((job) => {
                const read = receipt(job, at, (id) => numberOf(all.get(id)?.message_id ?? ""), away.value.find((one) => one.name === job.agent), requestOf(job.agent));
                const message = entryNow(job.message_id);
                const deleted = message ? message.meta.deleted : job.asked?.text === "deleted";
                return (
                  <tr key={job.id} tabIndex={-1} data-job={job.id} data-testid="job" data-state={job.state}>
                    <td class="mono muted">{ref("j", job.id)}</td>
                    <td><b class="who" style={hued(job.agent)}>{job.agent}</b></td>
                    <td><span class={`state state-${read.tone}`} data-tip={read.detail} tabIndex={0}>{job.state === "skipped" ? "skipped" : read.label}</span></td>
                    <td class="about">
                      <button type="button" class="link" onClick={() => void showEntry(job.message_id)}>
                        {message ? <><span class="mono">{ref("m", message.number)}</span> {inOneLine(message, 80)}</> : job.asked ? <><span class="mono">{ref("m", job.asked.number)}</span> {plainLine(job.asked.text, 80)}</> : "show the message"}
                      </button>
                      {job.reason && <small>{plainLine(job.reason, 240)}</small>}
                    </td>
                    <td class="num">{job.attempts || ""}</td>
                    <td class="num">{took(job, at)}</td>
                    <td class="num muted">{ago(job.created_at, at)}</td>
                    <td class="act">
                      {!deleted && ["dead", "failed", "skipped"].includes(job.state) && (
                        <button type="button" class="button small" onClick={() => void tell(api.retry(job.id))}>Retry</button>
                      )}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      ) : (
        <div class="empty">
          <h2>{filter ? "No job in this state" : "Nothing has been asked yet"}</h2>
          <p>Every question becomes one job per agent. Here you see who is working, who waits, and what failed.</p>
        </div>
      )}
    </section>
  );
}

/** What the landing queue, the approvals and the results share: the runs of policies, their output, a difference. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { roomNow } from "../state/locks";
import { beginOutputs, outputOf } from "../state/landing";
import { bytes } from "../text/format";
import { RefTo, StateWord } from "../ui/verified";
import { DiffFiles } from "../ui/worktrees_diff";
import type { Difference, Result, Verification } from "./types";
import { byPolicy, outcomeSaid, plain, runNotes, tierWords, took } from "./words";

/** What a program prints, as it prints it. It stays at the end until somebody scrolls up. It is no live region: nobody wants each line
 * read out. */
export function LiveOutput({ verification, policy }: { verification: number; policy: string }) {
  const text = outputOf(verification, policy).value;
  const box = useRef<HTMLPreElement>(null);
  const follows = useRef(true);
  useLayoutEffect(() => {
    if (box.current && follows.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  if (!text) return <p class="run-nothing">It has printed nothing yet.</p>;
  return (
    <pre
      ref={box}
      class="run-output"
      tabIndex={0}
      aria-label={`What ${policy} prints`}
      data-testid="live-output"
      onScroll={({ currentTarget: at }) => (follows.current = at.scrollHeight - at.scrollTop - at.clientHeight < 24)}
    >
      {text}
    </pre>
  );
}

function Printed({ result, open }: { result: Result; open: boolean }) {
  const text = plain(result.output ?? "").replace(/\s+$/, "");
  const good = result.state === "passed" || result.state === "cancelled";
  if (!text) return good || result.reused || result.executor === "manual" ? null : <p class="run-nothing">It printed nothing.</p>;
  return (
    <details class="run-printed" open={open && !good}>
      <summary>What it printed <span class="muted">{bytes(result.output_bytes)}</span></summary>
      <pre class="run-output" tabIndex={0} aria-label={`What ${result.policy} printed`} data-testid="run-output">{text}</pre>
    </details>
  );
}

function Run({ result, of, live, whole, last }: { result: Result; of: Verification; live: boolean; whole: boolean; last: boolean }) {
  const notes = runNotes(result);
  const time = took(result, roomNow.value);
  const decides = of.tier !== null && result.tier === of.tier;
  return (
    <li class="run" data-testid="run" data-policy={result.policy} data-state={result.state} data-attempt={result.attempt}>
      <p class="run-head">
        <b>{result.policy}</b>
        <StateWord said={outcomeSaid(result)} />
        {time && <span class="run-time">{time}</span>}
        <span class="muted">{tierWords(result.tier)}{decides ? "; it decides" : ""}</span>
      </p>
      {(notes.length > 0 || result.reused || result.url) && (
        <p class="run-notes">
          {notes.join(" · ")}
          {result.reused && <>{notes.length > 0 && " · "}reused from <RefTo reference={result.reused} /></>}
          {result.url && <>{notes.length + Number(Boolean(result.reused)) > 0 && " · "}<a href={result.url} target="_blank" rel="noopener noreferrer">its page</a></>}
        </p>
      )}
      {live && result.state === "running" && <LiveOutput verification={of.number} policy={result.policy} />}
      {whole && result.output !== undefined && result.state !== "running" && <Printed result={result} open={last} />}
    </li>
  );
}

/** The policies of a verification. `live`: with what those that run print; `whole`: with all attempts and what they printed. */
export function Runs({ of, live = false, whole = false }: { of: Verification; live?: boolean; whole?: boolean }) {
  const runs = of.results.some((result) => result.state === "running");
  useEffect(() => {
    if (live && runs) void beginOutputs(of.number);
  }, [of.number, live, runs]);
  const policies = byPolicy(of.results);
  return (
    <ul class="runs">
      {policies.flatMap((attempts) => (whole ? attempts : attempts.slice(0, 1)).map((result, i) => <Run key={`${result.policy} ${result.attempt}`} result={result} of={of} live={live} whole={whole} last={i === 0} />))}
    </ul>
  );
}

/** A difference, read when it is shown. */
export function Differs({ read, label }: { read: () => Promise<Difference>; label: string }) {
  const [told, setTold] = useState<Difference | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let gone = false;
    read().then(
      (found) => { if (!gone) setTold(found); },
      (error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        if (!gone) setProblem([error.message, error.fix].filter(Boolean).join(" "));
      },
    );
    return () => { gone = true; };
  }, []);
  return (
    <section class="differs" aria-label={label} data-testid="difference">
      {problem && <p class="problem" role="alert">{problem}</p>}
      {!told && !problem && <p class="diff-note" role="status">Reading the difference…</p>}
      {told?.truncated && <p class="diff-note diff-note-warn">The rest is too long to be shown.</p>}
      {told && !told.diff && !told.truncated && <p class="diff-note">Nothing differs.</p>}
      {told?.diff && <DiffFiles text={told.diff} />}
    </section>
  );
}

/** Paths in a line: the first few, the rest on hover and focus. */
export function Paths({ of, most = 3 }: { of: readonly string[]; most?: number }) {
  const more = of.length - most;
  return (
    <span class="paths">
      {of.slice(0, most).map((path) => <code key={path}>{path}</code>)}
      {more > 0 && <span class="muted" tabIndex={0} data-tip={of.slice(most, most + 20).join("\n")}>and {more} more</span>}
    </span>
  );
}

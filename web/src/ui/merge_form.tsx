/**
 * A merge as it will be committed: its kind, its message, who signs it.
 *
 * Invariant: what is shown is what is sent, together with the work that it was made for; the room refuses it when
 * the work has changed since.
 */

import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { memory } from "../state/prefs";
import type { MergeMethod, MergeProposal } from "../worktree_types";
import { counted } from "../text/format";
import { joinedWords } from "../state/merging";
import { Words } from "./bits";
import { DiffFiles } from "./worktrees_diff";

const METHODS: readonly { method: MergeMethod; name: string; tip: string }[] = [
  { method: "merge", name: "Merge commit", tip: "All commits of the branch, and one that joins them" },
  { method: "squash", name: "Squash", tip: "One commit of everything; the branch as it was is kept aside" },
];

export interface MergeChoice {
  method: MergeMethod;
  message: string;
  head: string;
  /** The merged tree with what relay joins, where it joins something. */
  joined: string;
}

/** `onChange(null)` while there is nothing that can be merged. */
export function MergeForm({ agent, onChange }: { agent: string; onChange: (choice: MergeChoice | null) => void }) {
  const [method, setMethod] = useState<MergeMethod>(memory.get("merge") === "squash" ? "squash" : "merge");
  const [told, setTold] = useState<MergeProposal | null>(null);
  const [problem, setProblem] = useState("");
  /** The person's own words; null = the proposed ones. */
  const [own, setOwn] = useState<string | null>(null);
  useEffect(() => {
    let gone = false;
    setTold(null);
    setProblem("");
    api.mergeProposal(agent, method).then(
      (found) => { if (!gone) setTold(found); },
      (error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        if (!gone) setProblem([error.message, error.fix].filter(Boolean).join(" "));
      },
    );
    return () => { gone = true; };
  }, [agent, method]);
  const text = own ?? told?.text ?? "";
  useEffect(() => onChange(told && text.trim() ? { method, message: text, head: told.head, joined: told.joined?.length ? (told.tree ?? "") : "" } : null), [told, text]);
  const choose = (wanted: MergeMethod): void => {
    memory.set("merge", wanted === "merge" ? null : wanted);
    setMethod(wanted);
  };
  return (
    <div class="merge-form" data-testid="merge-form">
      <div class="segments" role="group" aria-label="Kind of merge">
        {METHODS.map((one) => <button key={one.method} type="button" aria-pressed={method === one.method} data-tip={one.tip} onClick={() => choose(one.method)} data-testid={`merge-as-${one.method}`}>{one.name}</button>)}
      </div>
      {!told && !problem && <p class="muted" role="status">Trying the merge…</p>}
      {problem && <p class="problem" role="alert" data-testid="merge-problem"><Words text={problem} /></p>}
      {told && (
        <>
          <label class="merge-message">
            <span>Commit message</span>
            <textarea rows={Math.min(12, Math.max(4, text.split("\n").length + 1))} value={text} onInput={(e) => setOwn(e.currentTarget.value)} data-testid="merge-message" spellcheck={false} />
          </label>
          {told.trailers.length > 0 && <pre class="merge-trailers" aria-label="Added to the message" data-testid="merge-trailers">{told.trailers.join("\n")}</pre>}
          <dl class="merge-signed" data-testid="merge-signed">
            <dt>Author</dt><dd>{told.author}</dd>
            <dt>Committer</dt><dd>{told.committer}</dd>
            <dt>Into</dt><dd><code>{told.into}</code>: {counted(told.commits, "commit")}{told.method === "squash" && told.commits > 1 ? " as one" : ""}, {counted(told.files, "file")}</dd>
          </dl>
          {!!told.joined?.length && (
            <section class="merge-joined" data-testid="merge-joined" aria-label="What relay joins">
              <p class="notice notice-warn">git alone conflicts in {counted(told.joined.length, "file")}; relay joins {joinedWords(told.joined)}. Look at {told.joined.length === 1 ? "it" : "them"} before you merge.</p>
              <DiffFiles text={told.diff ?? ""} />
            </section>
          )}
          {!!told.warnings?.length && (
            <div class="notice notice-warn" data-testid="merge-warnings">
              <p>git finds no conflict here. Look at it all the same:</p>
              <ul>{told.warnings.map((each) => <li key={each}><Words text={each} /></li>)}</ul>
            </div>
          )}
          {told.decided && <p class="notice notice-warn" data-testid="merge-decided"><Words text={`${told.decided}.`} /></p>}
          {told.note && <p class="notice notice-warn" data-testid="merge-note"><Words text={told.note} /></p>}
        </>
      )}
    </div>
  );
}

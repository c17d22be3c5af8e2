/** The side panel: why the picked agent, link or advisory is what it is. */

import type { ComponentChildren } from "preact";
import { api } from "../api_views";
import {
  advisories, airspace, evidence, isOpen, linkKey, KIND_WORDS, kindOf, openAdvisories, other, warningsOf, why,
} from "../state/airspace";
import { agents, now } from "../state/room";
import { agentPanel, picked, showEntry, showWorktree } from "../state/view";
import { worktreeFor } from "../state/worktrees";
import { ago, instant, moment, span } from "../text/format";
import type { Advisory, Evidence, Link, Reading } from "../airspace_types";
import type { Level, Lines } from "../basic_types";
import { attempt, hued, Icon, IconButton, toast } from "../ui/bits";
import { Choices } from "../ui/choices";
import { Diffstat } from "../ui/diffstat";
import { LevelChip } from "../ui/advisory";
import { Who } from "../ui/proximity";
import { Explained, Term } from "../ui/term";
import { levelOf } from "./model";
import { channelName, readings, silentIn, VERDICTS, verdict } from "./words";

const ranges = (lines: Lines | undefined): string => (lines ?? []).map(([s, e]) => (s === e ? String(s) : `${s}–${e}`)).join(", ");

function EvidenceLine({ item }: { item: Evidence }) {
  return (
    <li>
      {item.text}
      {(item.path || item.symbol) && (
        <small>
          {item.path && <code>{item.path}{item.lines?.length ? `:${ranges(item.lines)}` : ""}</code>}
          {item.other_path && <> ↔ <code>{item.other_path}</code></>}
          {item.symbol && <> <code class="symbol">{item.symbol}</code></>}
        </small>
      )}
    </li>
  );
}

function Channel({ name, reading }: { name: string; reading: Partial<Reading> & { risk: number } }) {
  const weight = reading.weight ?? 1;
  const share = reading.risk * weight;
  return (
    <li class={`channel ${share > 0 ? "" : "channel-none"}`} data-testid={`channel-${name}`}>
      <div class="channel-head">
        <b>{channelName(name)}</b>
        <span class="channel-sum">{reading.weight === undefined ? reading.risk.toFixed(2) : <>{reading.risk.toFixed(2)} × {weight.toFixed(2)} = <b>{share.toFixed(2)}</b></>}</span>
      </div>
      <div class="channel-bar" role="meter" aria-label={`${channelName(name)}: weighted risk`} aria-valuemin={0} aria-valuemax={1} aria-valuenow={Number(share.toFixed(2))}>
        <i class="raw" style={{ width: `${reading.risk * 100}%` }} />
        <i style={{ width: `${share * 100}%` }} />
      </div>
      {reading.alone === false && share > 0 && <p class="muted small">This alone never raises a resolution advisory.</p>}
      {reading.evidence && reading.evidence.length > 0 && <ul class="evidence">{reading.evidence.slice(0, 12).map((item, i) => <EvidenceLine key={i} item={evidence(item)} />)}{reading.evidence.length > 12 && <li class="muted">and {reading.evidence.length - 12} more</li>}</ul>}
    </li>
  );
}

function Head({ children, level, onClose }: { children: ComponentChildren; level: Level; onClose?: () => void }) {
  return (
    <header class="evi-head">
      <LevelChip level={level} />
      <h2>{children}</h2>
      <IconButton icon="close" label="Close" keys="Esc" onClick={onClose ?? (() => (picked.value = null))} testid="air-unpick" />
    </header>
  );
}

function LinkEvidence({ link }: { link: Link }) {
  const standing = openAdvisories.value.filter((advisory) => advisory.agents.includes(link.a) && advisory.agents.includes(link.b));
  return (
    <section class="evi" data-testid="pick-link" aria-label={`Between ${link.a} and ${link.b}`}>
      <Head level={link.level}><Who name={link.a} /> ↔ <Who name={link.b} /></Head>
      <p class="evi-risk"><Term id="risk" /> <b>{link.risk.toFixed(2)}</b> <span class="muted">distance {link.distance.toFixed(2)}, traffic from {airspace.value?.thresholds.traffic}, resolution from {airspace.value?.thresholds.resolution}</span></p>
      <ul class="channels">{readings(link).map(([name, reading]) => <Channel key={name} name={name} reading={reading} />)}</ul>
      {standing.map((advisory) => <AdvisoryCard key={advisory.id} advisory={advisory} brief />)}
    </section>
  );
}

function AgentEvidence({ name }: { name: string }) {
  const state = airspace.value;
  const agent = state?.agents.find((a) => a.agentId === name);
  const links = (state?.links ?? []).filter((l) => l.a === name || l.b === name).sort((x, y) => y.risk - x.risk);
  const warnings = warningsOf(name);
  const tree = worktreeFor(name);
  return (
    <section class="evi" data-testid="pick-agent" aria-label={`Agent ${name}`}>
      <Head level={levelOf(name, links)}><Who name={name} /></Head>
      {!agent && <p class="muted">{name} has no changed files now.</p>}
      {agent && (
        <p class="evi-facts">
          {agent.kind === "person" ? "person" : "agent"}
          {agent.branch && <> on <code>{agent.branch}</code></>}
          {agent.startedAt && <>, since {moment(agent.startedAt, Date.now())}</>}
          {agent.committed ? `, ${agent.committed} ${agent.committed === 1 ? "file" : "files"} committed` : ", nothing committed"}
        </p>
      )}
      <div class="evi-act">
        {agents.value.some((a) => a.name === name) && <button type="button" class="button small" onClick={() => (agentPanel.value = name)}>Open {name}</button>}
        {tree && !tree.member && tree.files > 0 && <button type="button" class="button small" onClick={() => showWorktree(name)}>Show diff <Diffstat of={tree} /></button>}
      </div>
      {warnings.map((advisory) => <AdvisoryCard key={advisory.id} advisory={advisory} />)}
      <h3>Nearest</h3>
      {links.length ? (
        <ul class="evi-list">
          {links.slice(0, 12).map((l) => (
            <li key={linkKey(l.a, l.b)}>
              <button type="button" onClick={() => (picked.value = { link: linkKey(l.a, l.b) })}>
                <Who name={other(l, name)} /><span class="muted">{kindOf(l) === "clear" ? "" : KIND_WORDS[kindOf(l)]}</span><span class="num">{l.risk.toFixed(2)}</span>
              </button>
            </li>
          ))}
        </ul>
      ) : <p class="muted">Nobody is near {name}.</p>}
      {agent && (
        <>
          <h3>Working set, {agent.files.length} {agent.files.length === 1 ? "file" : "files"}</h3>
          <ul class="files">
            {[...agent.files].sort((x, y) => y.weight - x.weight).slice(0, 60).map((f) => (
              <li key={f.path} data-tip={`weight ${f.weight.toFixed(2)}${f.change ? `, ${f.change}` : ""}${f.new_path ? ` to ${f.new_path}` : ""}`}>
                <i class="weight" style={{ opacity: 0.25 + 0.75 * f.weight }} aria-hidden="true" />
                <code>{f.path}{f.lines.length ? <span class="muted">:{ranges(f.lines)}</span> : null}</code>
                <span class="offscreen">weight {f.weight.toFixed(2)}</span>
              </li>
            ))}
          </ul>
          {agent.files.length > 60 && <p class="muted">and {agent.files.length - 60} more</p>}
          {agent.intent.length > 0 && (
            <>
              <h3>Will change next</h3>
              <ul class="files">{agent.intent.map((path) => <li key={path}><code>{path}</code></li>)}</ul>
            </>
          )}
        </>
      )}
    </section>
  );
}

const STEERING: Readonly<Record<string, string>> = {
  waiting: "The steering agent has not left yet.",
  left: "The steering agent has nothing in these files any more.",
  stayed: "The steering agent has not left; a person was asked.",
};

function Outcome({ advisory }: { advisory: Advisory }) {
  if (isOpen(advisory)) {
    const deadline = instant(advisory.deadline_at);
    const silent = silentIn(advisory);
    if (deadline === null || !silent.length) return null;
    return <p class="waits">{deadline > now.value ? <>Waits {span(deadline - now.value)} more for {silent.join(" and ")}.</> : <>{silent.join(" and ")} did not answer in time.</>}</p>;
  }
  const told = verdict(advisory);
  return <p class={`outcome-line outcome-${told}`}>{VERDICTS[told].says}</p>;
}

function MarkButtons({ advisory }: { advisory: Advisory }) {
  const set = (mark: Advisory["mark"]): void => {
    const wanted = advisory.mark === mark ? null : mark;
    void attempt(
      api.markAdvisory(advisory.id, wanted).then((told) => {
        if (told.id === advisory.id) advisories.value = new Map(advisories.value).set(advisory.id, told);
      }),
    ).then((ok) => ok && toast(wanted ? `Marked ${wanted}.` : "Mark removed."));
  };
  return (
    <div class="marks" role="group" aria-label="Was this advisory worth it?">
      {(["useful", "noise"] as const).map((mark) => (
        <button key={mark} type="button" class="button small" aria-pressed={advisory.mark === mark} onClick={() => set(mark)} data-testid={`mark-${mark}`}>
          {advisory.mark === mark && <Icon name="check" size={13} />} {mark === "useful" ? "Useful" : "Noise"}
        </button>
      ))}
    </div>
  );
}

function Names({ verb, names }: { verb: string; names: readonly string[] }) {
  return names.length ? <span class="do"><b><Term id={verb.toLowerCase()}>{verb}</Term></b> {names.map((name, i) => <span key={name}>{i > 0 && ", "}<Who name={name} /></span>)}</span> : null;
}

/** One advisory, whole; `brief` = its evidence is listed beside it. */
export function AdvisoryCard({ advisory, brief = false }: { advisory: Advisory; brief?: boolean }) {
  const answers = Object.entries(advisory.answers ?? {});
  return (
    <article class={`advisory advisory-${isOpen(advisory) ? advisory.level : "closed"}`} data-testid="advisory-card" aria-label={`Advisory: ${advisory.agents.join(", ")}`}>
      <p class="advisory-why">{why(advisory)}</p>
      {advisory.reason && <p class="advisory-do"><span><Explained text={advisory.reason} /></span></p>}
      {!advisory.reason && <p class="advisory-do"><Names verb="HOLD" names={advisory.hold} /><Names verb="STEER" names={advisory.steer} />{!advisory.steer.length && <Names verb="TRANSMIT" names={advisory.transmit} />}</p>}
      {!brief && advisory.evidence.length > 1 && <ul class="evidence">{advisory.evidence.slice(1, 8).map((e, i) => <EvidenceLine key={i} item={evidence(e)} />)}</ul>}
      {answers.length > 0 && (
        <ul class="answers">
          {answers.map(([name, a]) => (
            <li key={name}>
              <Who name={name} /> {a.text || "answered"}
              {a.intent.length > 0 && <small>goes on with {a.intent.map((p, i) => <span key={p}>{i > 0 && ", "}<code>{p}</code></span>)}</small>}
            </li>
          ))}
        </ul>
      )}
      {Object.entries(advisory.not_asked ?? {}).map(([name, reason]) => <p key={name} class="small muted"><Who name={name} /> was not asked: {reason}</p>)}
      {advisory.steering && <p class="small">{STEERING[advisory.steering] ?? advisory.steering}</p>}
      {isOpen(advisory) && (advisory.set_back ?? []).map((back) => <p key={back.agent} class="small set-back" data-testid="set-back"><Who name={back.agent} /> {back.needless ? `${back.said}:` : <>does not merge into <code>{back.branch}</code> now:</>} conflicts in {back.paths.map((path, i) => <span key={path}>{i > 0 && ", "}<code>{path}</code></span>)}</p>)}
      {isOpen(advisory) && advisory.actions && <Choices of={advisory.actions} />}
      <Outcome advisory={advisory} />
      <footer>
        <span class="muted small">{ago(advisory.opened_at, now.value)}{advisory.closed_at ? `, over after ${span((instant(advisory.closed_at) ?? 0) - (instant(advisory.opened_at) ?? 0))}` : ""}</span>
        {advisory.message_id && <button type="button" class="link small" onClick={() => void showEntry(advisory.message_id!)}>in the room</button>}
        <MarkButtons advisory={advisory} />
      </footer>
    </article>
  );
}

function AdvisoryEvidence({ advisory }: { advisory: Advisory }) {
  const links = (airspace.value?.links ?? []).filter((l) => advisory.agents.includes(l.a) && advisory.agents.includes(l.b)).sort((x, y) => y.risk - x.risk);
  return (
    <section class="evi" data-testid="pick-advisory" aria-label="Advisory">
      <Head level={isOpen(advisory) ? advisory.level : "clear"}>{advisory.agents.map((name, i) => <span key={name} style={hued(name)}>{i > 0 && " ↔ "}<Who name={name} /></span>)}</Head>
      <AdvisoryCard advisory={advisory} brief={links.length > 0} />
      {links[0] && (
        <>
          <p class="evi-risk"><Term id="risk" /> <b>{links[0].risk.toFixed(2)}</b> <span class="muted">now{links.length > 1 ? `, between ${links[0].a} and ${links[0].b}` : ""}</span></p>
          <ul class="channels">{readings(links[0]).map(([name, reading]) => <Channel key={name} name={name} reading={reading} />)}</ul>
        </>
      )}
    </section>
  );
}

export function PickPanel() {
  const what = picked.value;
  if (!what) return null;
  if ("agent" in what) return <AgentEvidence name={what.agent} />;
  if ("link" in what) {
    const link = airspace.value?.links.find((l) => linkKey(l.a, l.b) === what.link);
    if (link) return <LinkEvidence link={link} />;
    return <section class="evi" data-testid="pick-link"><Head level="clear">{what.link}</Head><p class="muted">They are not near each other now.</p></section>;
  }
  const advisory = advisories.value.get(what.advisory);
  if (advisory) return <AdvisoryEvidence advisory={advisory} />;
  return <section class="evi" data-testid="pick-advisory"><Head level="clear">Advisory</Head><p class="muted">This advisory is older than what was loaded.</p></section>;
}

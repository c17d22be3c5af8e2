/** What an agent asks leave for: a card that stays until somebody answers, wherever that is, or its time is over. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { advisories, why } from "../state/airspace";
import { needs } from "../state/needs";
import { decide, known, permissions } from "../state/permissions";
import { now } from "../state/room";
import { showAirspace } from "../state/view";
import { instant, lasting } from "../text/format";
import type { Advisory } from "../airspace_types";
import type { PermissionRequest } from "../types";
import { Icon, toast } from "./bits";
import { LevelChip } from "./advisory";
import { Who } from "./proximity";
import "../style/asks.css";

/** Kinds of the Agent Client Protocol: allow_once, allow_always, reject_once, reject_always. */
const allows = (kind: string): boolean => kind.startsWith("allow");
const URGENT = 15_000;

function advisoryOf(request: PermissionRequest): Partial<Advisory> | null {
  const said = request.advisory;
  if (said === null || said === undefined) return null;
  const id = typeof said === "string" ? said : said.id;
  return (id && advisories.value.get(id)) || (typeof said === "object" ? said : { id: said });
}

function Reason({ advisory }: { advisory: Partial<Advisory> }) {
  const text = advisory.evidence ? why(advisory as Advisory) : (advisory.reason ?? advisory.text ?? "An advisory stands on this.");
  return (
    <p class="asks-why">
      {advisory.level && <LevelChip level={advisory.level} />} {text}
      {advisory.id && <> <button type="button" class="link" onClick={() => showAirspace({ advisory: advisory.id! })}>evidence</button></>}
    </p>
  );
}

/** Below what the room said of a request: that it waits no more, here or at another member of the fleet. */
export function RequestOver({ id }: { id: string }) {
  const open = permissions.value.some((one) => one.id === id) || needs.value.some((need) => need.id === `permission:${id}`);
  return known.value && !open ? <p class="muted small" data-testid="request-over">This request is over.</p> : null;
}

/** All of what would run. What is too long for the card is scrolled in it, and the card says so until its end is seen. */
function Command({ text }: { text: string }) {
  const box = useRef<HTMLPreElement>(null);
  const [more, setMore] = useState(false);
  const look = (): void => setMore(box.current!.scrollTop + box.current!.clientHeight < box.current!.scrollHeight - 2);
  useLayoutEffect(() => {
    const seen = new ResizeObserver(look);
    seen.observe(box.current!);
    return () => seen.disconnect();
  }, [text]);
  return (
    <div class="asks-command">
      <pre ref={box} tabIndex={0} aria-label="What would run" onScroll={look} onKeyDown={(event) => { if (event.key === "End") event.stopPropagation(); }} data-testid="asks-command">{text}</pre>
      {more && <p data-testid="asks-more">There is more of it below: scroll to its end.</p>}
    </div>
  );
}

/** Milliseconds for which a card takes no press where it has come: a hand may be about to press something else. */
const HOLD = 600;

/** `settled`: it waits for nothing any more, and only keeps its place. `place`: which one of a bar it is. */
export function PermissionCard({ request, named = true, settled = false, place }: { request: PermissionRequest; named?: boolean; settled?: boolean; place?: number }) {
  const [busy, setBusy] = useState(false);
  const [fresh, setFresh] = useState(place !== undefined);
  useLayoutEffect(() => {
    if (place === undefined) return;
    setFresh(true);
    const timer = setTimeout(() => setFresh(false), HOLD);
    return () => clearTimeout(timer);
  }, [place]);
  const deadline = instant(request.deadline_at);
  const left = deadline === null ? null : deadline - now.value;
  const asked = instant(request.asked_at);
  const advisory = advisoryOf(request);
  const answer = async (option: PermissionRequest["options"][number]): Promise<void> => {
    setBusy(true);
    const refused = await decide(request, option.id);
    setBusy(false);
    // The card may be gone by then.
    const what = request.command || request.title || request.tool;
    toast(`${request.agent}: ${refused || `${option.name} “${what.length > 160 ? `${what.slice(0, 159)}…` : what}”.`}`, { tone: refused ? "problem" : "note" });
  };
  return (
    <section class={`asks ${settled ? "asks-over" : ""}`} data-testid={settled ? "permission-settled" : "permission"} data-agent={request.agent} aria-label={`${request.agent} asks: ${request.title}`}>
      <div class="asks-what">
        <header>
          <Icon name="key" />
          <p>{named && <><Who name={request.agent} /> asks: </>}<b>{request.title || request.tool}</b></p>
          {settled ? <span class="muted">settled</span> : left !== null && <time class={left < URGENT ? "urgent" : ""} data-tip="Then it is denied">{lasting(left)}</time>}
        </header>
        {request.tool && request.tool !== request.title && <p class="muted small">{request.tool}</p>}
        {request.command && <Command text={request.command} />}
        {request.paths.length > 0 && (
          <ul class="asks-paths">
            {request.paths.slice(0, 6).map((path) => <li key={path}><code>{path}</code></li>)}
            {request.paths.length > 6 && <li class="muted">and {request.paths.length - 6} more</li>}
          </ul>
        )}
        {advisory && <Reason advisory={advisory} />}
      </div>
      {/* Where an advisory stands against it, no button is the obvious one. */}
      <div class="asks-act">
        {request.options.map((option) => (
          <button key={option.id} type="button" disabled={busy || settled || fresh} class={`button small ${option.kind === "allow_once" && !advisory ? "primary" : allows(option.kind) ? "" : "danger"}`} onClick={() => void answer(option)} data-testid={`option-${option.id}`}>
            {option.name}
          </button>
        ))}
      </div>
      {!settled && left !== null && asked !== null && deadline !== null && <i class="asks-left" style={{ transform: `scaleX(${Math.max(0, Math.min(1, left / (deadline - asked)))})` }} aria-hidden="true" />}
    </section>
  );
}

/** The advisories beside the picture: the open ones first, and how right they have been so far. */

import { advisoryList, isOpen, precision, why } from "../state/airspace";
import { now } from "../state/room";
import { picked } from "../state/view";
import { ago, instant, span } from "../text/format";
import { term } from "../text/terms";
import type { Advisory } from "../airspace_types";
import { LevelChip } from "../ui/advisory";
import { Who } from "../ui/proximity";
import { precisionKinds, silentIn, VERDICTS, verdict } from "./words";

/** Closed ones that are listed at first. */
const CLOSED = 30;

function Row({ advisory }: { advisory: Advisory }) {
  const open = isOpen(advisory);
  const chosen = picked.value !== null && "advisory" in picked.value && picked.value.advisory === advisory.id;
  const deadline = instant(advisory.deadline_at);
  const silent = open ? silentIn(advisory) : [];
  const { mark, name: words } = VERDICTS[verdict(advisory)];
  return (
    <li>
      <button type="button" class={`adv ${open ? "adv-open" : ""}`} aria-pressed={chosen} onClick={() => (picked.value = chosen ? null : { advisory: advisory.id })} data-testid="advisory" data-level={advisory.level} data-open={open}>
        <span class="adv-head">
          {open ? <LevelChip level={advisory.level} inside /> : <span class="adv-outcome" data-tip={words}><span aria-hidden="true">{mark}</span><span class="offscreen">{words}</span></span>}
          <span class="adv-who">{advisory.agents.map((name, i) => <span key={name}>{i > 0 && <span class="muted"> ↔ </span>}<Who name={name} /></span>)}</span>
          <time class="muted">{ago(advisory.opened_at, now.value)}</time>
        </span>
        <span class="adv-why">{why(advisory)}</span>
        {open && advisory.steer.length > 0 && <span class="adv-do"><span data-tip={term("hold").text}>hold</span> {advisory.hold.join(", ")} · <span data-tip={term("steer").text}>steer</span> <b>{advisory.steer.join(", ")}</b>{advisory.steering === "left" ? ", has left" : advisory.steering === "stayed" ? ", stayed" : ""}</span>}
        {open && silent.length > 0 && deadline !== null && <span class="adv-do">{deadline > now.value ? `${silent.join(", ")} to answer in ${span(deadline - now.value)}` : `no answer from ${silent.join(", ")}`}</span>}
        {advisory.mark && <span class="adv-do">marked {advisory.mark}</span>}
      </button>
    </li>
  );
}

const KINDS: Readonly<Record<string, string>> = {
  resolution: "How many resolution advisories were true: git could not merge the branches.",
  traffic: "How many of those that never were more than traffic were true.",
  "look-ahead": "How many foretold collisions came: drawn, or told at an edit, and never posted in the room.",
};

export function AdvisoryList() {
  const list = advisoryList.value;
  const open = list.filter(isOpen);
  const closed = list.filter((advisory) => !isOpen(advisory));
  const kinds = precisionKinds(precision.value);
  return (
    <section class="advs" aria-label="Advisories">
      <header><h2>Advisories</h2>{kinds.map(({ kind, line }) => <span key={kind} class="muted" data-testid={`precision-${kind}`} tabIndex={0} data-tip={KINDS[kind]}>{kind}: {line}</span>)}{!kinds.length && <span class="muted" data-testid="precision-none">no outcome known yet</span>}</header>
      {open.length > 0 && <ul data-testid="advisories-open">{open.map((advisory) => <Row key={advisory.id} advisory={advisory} />)}</ul>}
      {!open.length && <p class="muted advs-none">{list.length ? "No advisory is open." : "None yet. When two agents come near each other in the code, it is said here and in the room."}</p>}
      {closed.length > 0 && <><h3>Closed</h3><ul data-testid="advisories-closed">{closed.slice(0, CLOSED).map((advisory) => <Row key={advisory.id} advisory={advisory} />)}</ul>{closed.length > CLOSED && <p class="muted advs-none">and {closed.length - CLOSED} older</p>}</>}
    </section>
  );
}

/** Start: exchange the link's secret, look at the room, open the line. */

import "@fontsource-variable/ibm-plex-sans/wght.css";
import "@fontsource-variable/ibm-plex-sans/wght-italic.css";
import "./style/fonts.css";
import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/transcript.css";
import "./style/proximity.css";

import { signal } from "@preact/signals";
import { render } from "preact";
import { api, ApiError, besideLink, whenUnauthorised } from "./api";
import { keepAddress, quietly, takeAddress } from "./state/address";
import { connect, disconnect, seeCut } from "./state/live";
import { loadRoom } from "./state/room";
import "./state/unread";
import { follow, nothing } from "./state/view";
import { readRef } from "./text/reference";
import { pump } from "./state/outbox";
import { toast } from "./ui/bits";
import { Lazy } from "./ui/lazy";
import { Shell } from "./ui/shell";

type Stage = { is: "starting" } | { is: "sign_in"; problem: string } | { is: "open" } | { is: "unreachable" } | { is: "cut_off"; why: string; fix: string };

const cutOffPage = () => import("./ui/cut_off").then((all) => ({ default: all.CutOff }));
const signIn = () => import("./ui/signin").then((all) => ({ default: all.SignIn }));

const stage = signal<Stage>({ is: "starting" });

/** The secret of the link, taken out of the address bar at once. */
function takeLink(): string | null {
  const secret = /^#link=(.+)$/.exec(location.hash)?.[1] ?? null;
  if (secret) history.replaceState(null, "", location.pathname);
  return secret && decodeURIComponent(secret);
}

async function enter(): Promise<void> {
  try {
    await loadRoom();
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    if (problem.status === 401) {
      if (stage.value.is !== "sign_in") stage.value = { is: "sign_in", problem: "" };
      return;
    }
    seeCut(problem);
    // A slow answer says nothing of why: what was known stays.
    if (problem.code !== "slow" || stage.value.is !== "cut_off") stage.value = problem.cutOff ? { is: "cut_off", why: problem.message, fix: problem.fix } : { is: "unreachable" };
    setTimeout(() => void enter(), 2000);
    return;
  }
  stage.value = { is: "open" };
  connect();
  void pump();
  const going = goToHash();
  kept ??= (keepAddress(), true);
  await going;
}

/** The address is kept once, also when somebody signs in again. */
let kept: true | undefined;

/** A view (`#/locks`), or an entry, a card or a job: `#m12`, `#t3`, `#j4`. */
async function goToHash(): Promise<void> {
  if (takeAddress(location.hash) || !readRef(location.hash)) return;
  const there = await quietly(() => follow(location.hash.slice(1))).catch(() => false);
  if (!there) toast(nothing(location.hash), { tone: "problem" });
}

async function start(): Promise<void> {
  const link = takeLink();
  if (link !== null) {
    try {
      await api.signIn({ link });
    } catch (problem) {
      // Whoever is signed in already does not need the link.
      const words = problem instanceof ApiError ? besideLink(problem) : String(problem);
      const inside = await api.state().then(() => true, () => false);
      if (!inside) {
        stage.value = { is: "sign_in", problem: words };
        return;
      }
    }
  }
  await enter();
}

whenUnauthorised(() => {
  disconnect();
  if (stage.value.is === "open") stage.value = { is: "sign_in", problem: "Your session has ended." };
});

addEventListener("hashchange", () => {
  if (location.hash.startsWith("#link=")) void start();
  else if (stage.value.is === "open") void goToHash();
});

function App() {
  const now = stage.value;
  switch (now.is) {
    case "starting":
      return <main class="centered-page" aria-busy="true" />;
    case "unreachable":
      return (
        <main class="centered-page">
          <div class="centered-card" role="alert">
            <h1>The room is not running</h1>
            <p>The page cannot reach the daemon. In the folder that relay was installed from:</p>
            <p><code>bash scripts/start.sh</code></p>
            <p class="muted">Add <code>--config</code> and the path of the room's configuration, if it has one of its own. The page tries again every two seconds.</p>
          </div>
        </main>
      );
    case "cut_off":
      return <Lazy load={cutOffPage} given={{ why: now.why, fix: now.fix }} />;
    case "sign_in":
      return <Lazy key={now.problem} load={signIn} given={{ problem: now.problem, onSignedIn: () => void enter() }} />;
    case "open":
      return <Shell />;
  }
}

render(<App />, document.getElementById("app")!);
void start();

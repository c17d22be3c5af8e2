/** Signing in by link or token, and saying who you are. */

import { useState } from "preact/hooks";
import { ApiError, besideLink, linkCommand, linkPlaced } from "../api";
import { api } from "../api_views";
import { askName, nameProblem, personName, setName } from "../state/prefs";
import { composerCall } from "../state/view";
import { outbox, sendAgain } from "../state/outbox";
import { Icon, Layer, Words } from "./bits";
import { Copyable } from "./copyable";
import { Mark } from "./mark";
import "../style/signin.css";

export function SignIn({ problem, onSignedIn }: { problem: string; onSignedIn: () => void }) {
  const [key, setKey] = useState("");
  const [wrong, setWrong] = useState(problem);
  const [busy, setBusy] = useState(false);
  return (
    <main class="centered-page" data-testid="sign-in">
      <div class="centered-card">
        <Mark />
        <h1>Sign in to the room</h1>
        {wrong && <p class="problem" role="alert"><Words text={wrong} /></p>}
        <p>Run this in a terminal on the room's machine. It prints a link that signs you in. The link works once, within ten minutes.</p>
        <Copyable text={linkCommand.value} testid="link-command" />
        {!linkPlaced.value && <p class="muted" data-testid="link-where">Run it in the room's folder, or add <code>--config</code> and the path of the room's configuration. If the shell does not find <code>relay</code>, it is <code>.venv/bin/relay</code> in the folder that relay was installed from.</p>}
        <div class="or"><span>or</span></div>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            setBusy(true);
            api.signIn({ key: key.trim() }).then(onSignedIn, (error: ApiError) => {
              setBusy(false);
              setWrong(besideLink(error));
            });
          }}
        >
          <label for="token">Room token</label>
          <input id="token" type="password" value={key} onInput={(e) => setKey(e.currentTarget.value)} autocomplete="current-password" placeholder="the text of .relay/token" spellcheck={false} data-testid="token" />
          <button type="submit" class="button primary" disabled={!key.trim() || busy}>{busy ? "Signing in…" : "Sign in"}</button>
        </form>
      </div>
    </main>
  );
}

export async function signOut(): Promise<void> {
  await api.signOut().catch(() => undefined);
  location.reload();
}

export function NameDialog() {
  const [name, setLocal] = useState(personName.value);
  const first = personName.value === "";
  const problem = nameProblem.value;
  const waits = outbox.value.some((item) => item.state === "refused");
  const fine = /^[\p{L}\p{N}][\p{L}\p{N}_.-]{0,31}$/u.test(name.trim());
  return (
    <Layer label="Your name" class="name-dialog" onClose={first ? undefined : () => { askName.value = false; nameProblem.value = null; }} testid="name-dialog">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!fine) return;
          const refused = nameProblem.value !== null;
          setName(name.trim());
          if (refused) sendAgain();
          if (first) requestAnimationFrame(() => { composerCall.value += 1; }); // when the dialog has gone
        }}
      >
        <h2>{problem ? "That name is taken" : first ? "Who are you?" : "Your name"}</h2>
        <p>{problem ? `${problem} ${waits ? "Nothing is lost: your message waits for a name of your own." : "Take another one."}` : "The room shows it beside what you write. This browser remembers it."}</p>
        <input value={name} onInput={(e) => setLocal(e.currentTarget.value)} aria-label="Your name" placeholder="ann" maxLength={32} autocomplete="nickname" spellcheck={false} autofocus data-testid="name" />
        {name.trim() && !fine && <p class="problem">Letters, digits, and - _ . between them; no spaces.</p>}
        <div class="dialog-act">
          {!first && <button type="button" class="button" onClick={() => void signOut()}>Sign out</button>}
          <button type="submit" class="button primary" disabled={!fine}><Icon name="check" size={14} /> {first ? "Come in" : "Save"}</button>
        </div>
      </form>
    </Layer>
  );
}

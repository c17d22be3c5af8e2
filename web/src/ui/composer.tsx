/** Where people write. The draft outlives the page; completion is decided in text/completion.ts. */

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { typed } from "../state/folds";
import { Attach, filesOf, pastedFiles, useFiles, whole } from "../rooms/attach";
import { send } from "../state/outbox";
import { askName, memory, personName } from "../state/prefs";
import { agents, commands, goToEnd, loadCommands, readBoard, receiptsOf, tasks } from "../state/room";
import { line } from "../state/live";
import { clearMarker } from "../state/unread";
import { visitors } from "../state/visitors";
import { composerCall, phone, replyTo } from "../state/view";
import type { Choice, Completion } from "../text/completion";
import { plainLine } from "../text/markdown";
import type { Agent, Entry } from "../types";
import { hued, Icon, IconButton } from "./bits";
import { Lazy } from "./lazy";

function helpFor(agent: Agent): string {
  if (agent.away) return `away with ${agent.member}`;
  if (!agent.installed) return agent.broken ? "broken" : "not installed";
  if (agent.paused) return "paused";
  if (agent.breaker.state === "open") return "paused after failures";
  return agent.about || [agent.preset ?? agent.kind, agent.model].filter(Boolean).join(" · ");
}

const pictures = () => import("../rooms/pictures").then((all) => ({ default: all.Pictures }));
const addressed = () => import("../rooms/addressed").then((all) => ({ default: all.Addressed }));
/** What is offered while somebody types: it comes when somebody begins to. */
const offers = signal<typeof import("../text/completion") | null>(null);

/** Whom an answer to this entry is for, that mentions nobody: the room decides so too (docs/entries.md, "Threads"). */
function hears(entry: Entry): string {
  const asked = [entry.speaker, ...receiptsOf(entry.id).value.map((job) => job.agent)];
  const known = agents.value.map((agent) => agent.name).filter((name) => asked.includes(name));
  const names = known.includes(entry.speaker) ? [entry.speaker] : known;
  return names.length ? `${names.join(", ")} ${names.length === 1 ? "gets" : "get"} it` : "";
}

/** `thread`: the entry that what is written here answers, in a panel of its own. */
export function Composer({ thread }: { thread?: Entry }) {
  const draft = thread ? `draft.${thread.id}` : "draft";
  const list = thread ? "thread-completion" : "completion";
  const area = useRef<HTMLTextAreaElement>(null);
  const placed = useRef<number | null>(null);
  const [text, setText] = useState(memory.get(draft) ?? "");
  const [caret, setCaret] = useState(text.length);
  const [picked, setPicked] = useState(0);
  const [dismissed, setDismissed] = useState("");
  const [focused, setFocused] = useState(false);

  const words = {
    agents: [
      ...agents.value.map((a) => ({ name: a.name, help: helpFor(a) })),
      ...visitors.value.filter((one) => one.alive).map((one) => ({ name: one.name, help: "on its own: reads it when it next looks" })),
    ],
    commands: commands.value,
    tasks: tasks.value,
  };
  const offered: Completion | null = focused && dismissed !== text ? (offers.value?.complete(text, caret, words) ?? null) : null;
  const command = offers.value?.usage(text, commands.value) ?? null;
  const index = offered ? Math.min(picked, offered.choices.length - 1) : 0;

  useEffect(() => {
    if (!focused && !text) return;
    void loadCommands();
    // Cut off from the room one writes all the same.
    import("../text/completion").then((all) => (offers.value = all)).catch(() => undefined);
  }, [focused]);
  // Its numbers are offered.
  const moves = /^\/move\s/i.test(text);
  useEffect(() => { if (moves) readBoard().catch(() => undefined); }, [moves]);
  // Before the next paint: a page that is reloaded at once has it too.
  useLayoutEffect(() => memory.set(draft, text || null), [text]);
  useEffect(() => {
    if (composerCall.value && !thread) area.current?.focus();
  }, [composerCall.value]);

  useEffect(() => {
    if (thread) area.current?.focus();
  }, []);

  useLayoutEffect(() => {
    const element = area.current!;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, innerHeight * 0.4)}px`;
  }, [text]);

  // With the new text and not a frame later: what is typed or selected meanwhile keeps its place.
  useLayoutEffect(() => {
    if (placed.current === null) return;
    area.current?.focus();
    area.current?.setSelectionRange(placed.current, placed.current);
    placed.current = null;
  });

  const edit = (value: string, at: number): void => {
    placed.current = null;
    setText(value);
    setCaret(at);
    setPicked(0);
  };

  const take = (choice: Choice): void => {
    if (!offered) return;
    const value = text.slice(0, offered.from) + choice.insert + text.slice(offered.to);
    const at = offered.from + choice.insert.length;
    edit(value, at);
    placed.current = at;
  };

  const files = useFiles((names) => {
    const at = area.current?.selectionStart ?? text.length;
    setText((now) => {
      const before = now.slice(0, at);
      return `${before}${before && !/\s$/.test(before) ? " " : ""}${names} ${now.slice(at)}`;
    });
    area.current?.focus();
  });

  const submit = (): void => {
    const body = whole(text.trim());
    if (!body) return;
    if (!personName.value) {
      askName.value = true;
      return;
    }
    typed.add(body);
    edit("", 0);
    if (thread) return send(body, thread.id);
    send(body, replyTo.value?.id);
    replyTo.value = null;
    clearMarker();
    void goToEnd();
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    if (offered) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        const step = event.key === "ArrowDown" ? 1 : -1;
        setPicked((index + step + offered.choices.length) % offered.choices.length);
        return;
      }
      const choice = offered.choices[index]!;
      const typed = text.slice(offered.from, offered.to);
      const whole = choice.insert.trim() === typed;
      if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && !whole)) {
        event.preventDefault();
        take(choice);
        return;
      }
      if (event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        setDismissed(text);
        return;
      }
    }
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      submit();
    } else if (event.key === "Escape") {
      if (thread) return;
      if (replyTo.value) replyTo.value = null;
      // Its keys scroll it, and j, k and r are at hand there.
      else document.querySelector<HTMLElement>(".transcript")?.focus();
    }
  };

  const offline = line.value.state !== "live" && line.value.attempt > 0;
  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); submit(); }} onDragOver={(event) => { if (event.dataTransfer?.types.includes("Files")) event.preventDefault(); }} onDrop={(event) => { const dropped = filesOf(event.dataTransfer); if (dropped.length) event.preventDefault(); files.take(dropped); }} aria-label={thread ? "Answer in the thread" : "Write a message"}>
      {offered && (
        <ul class="completion" role="listbox" id={list} aria-label="Completions" data-testid="completion">
          {offered.choices.slice(0, 12).map((choice, i) => (
            <li
              key={choice.label}
              id={`${list}-${i}`}
              role="option"
              aria-selected={i === index}
              onMouseDown={(event) => { event.preventDefault(); take(choice); }}
              ref={(row) => { if (i === index) row?.scrollIntoView?.({ block: "nearest" }); }}
            >
              <b class={offered.kind} style={offered.kind === "mention" ? hued(choice.label.slice(1)) : undefined}>{choice.label}</b>
              <span>{choice.help}</span>
            </li>
          ))}
        </ul>
      )}
      {!offered && command && (
        <div class="usage" data-testid="usage"><code>{command.usage}</code><span>{command.help}</span></div>
      )}
      {!offered && text.includes("@") && <Lazy load={addressed} given={{ text }} over />}
      {!thread && replyTo.value && (
        <div class="replying" style={hued(replyTo.value.speaker)} data-testid="replying">
          <Icon name="reply" size={13} />
          <span>to <b>{replyTo.value.speaker}</b> {plainLine(replyTo.value.body, 90)}{!text.includes("@") && hears(replyTo.value) && ` · ${hears(replyTo.value)}`}</span>
          <IconButton icon="close" label="Do not reply" onClick={() => (replyTo.value = null)} />
        </div>
      )}
      {text.includes("relay-file:") && <Lazy load={pictures} given={{ text }} over />}
      <div class="composer-box">
        <textarea
          ref={area}
          rows={1}
          value={text}
          placeholder={offline ? "It is sent when the room is back" : thread ? `Answer in the thread${hears(thread) && `: ${hears(thread)}`}` : phone.value ? "Message the room" : "Message the room, @ for an agent, / for a command"}
          aria-label={thread ? "Answer" : "Message"}
          aria-autocomplete="list"
          aria-controls={offered ? list : undefined}
          aria-activedescendant={offered ? `${list}-${index}` : undefined}
          data-testid={thread ? "thread-composer" : "composer"}
          enterkeyhint="send"
          maxLength={1_000_000}
          onInput={(event) => edit(event.currentTarget.value, event.currentTarget.selectionStart)}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
          onKeyDown={onKeyDown}
          onPaste={(event) => { const pasted = pastedFiles(event.clipboardData); if (pasted.length) event.preventDefault(); files.take(pasted); }}
          onFocus={() => setFocused(true)}
          onBlur={() => setFocused(false)}
        />
        <Attach {...files} />
        <button type="submit" class="send" aria-label="Send" data-testid={thread ? "thread-send" : "send"} disabled={!text.trim()}>
          <Icon name="send" size={18} />
        </button>
      </div>
      {!thread && <div class="composer-hint">
        <button type="button" class="as" onClick={() => (askName.value = true)} data-tip="Change your name">
          as <b style={hued(personName.value)}>{personName.value || "…"}</b>
        </button>
        <span class="keys"><kbd>Enter</kbd> sends <kbd>Shift Enter</kbd> new line <kbd>?</kbd> keys</span>
      </div>}
    </form>
  );
}

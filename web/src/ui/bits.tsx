/** Small parts that every view uses: icons, names, meters, toasts, the one tooltip. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { ApiError } from "../api";
import { hued } from "../state/colours";
import { say } from "../state/said";

const PATHS = {
  room: "M4 5h12a1.5 1.5 0 0 1 1.5 1.5v6A1.5 1.5 0 0 1 16 14H9l-4 3v-3H4a1.5 1.5 0 0 1-1.5-1.5v-6A1.5 1.5 0 0 1 4 5Z",
  inbox: "M3.5 11.5 5.5 4.5h9l2 7v4h-13zM3.5 11.5h4l1 2h3l1-2h4",
  bell: "M10 3a4.2 4.2 0 0 1 4.2 4.2c0 4 1.8 5.3 1.8 5.3H4s1.8-1.3 1.8-5.3A4.2 4.2 0 0 1 10 3ZM8.3 15.5a1.8 1.8 0 0 0 3.4 0",
  board: "M3.5 4h3.6v12H3.5zM8.2 4h3.6v8H8.2zM12.9 4h3.6v10h-3.6z",
  agents: "M6 8a2.2 2.2 0 1 0 0-4.4A2.2 2.2 0 0 0 6 8Zm8 8.4a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4ZM6 8v3.2a3 3 0 0 0 3 3h2.8",
  queue: "M4 5.5h12M4 10h12M4 14.5h7",
  search: "M9 14a5 5 0 1 0 0-10 5 5 0 0 0 0 10Zm3.6-1.4L16.5 16.5",
  send: "M10 16V4.5M5 9.2l5-5 5 5",
  reply: "M8 5 3.5 9.5 8 14M3.8 9.5H12a4.5 4.5 0 0 1 4.5 4.5v1",
  link: "M8.5 11.5l3-3M9.5 6.5 11.2 4.8a2.8 2.8 0 0 1 4 4L13.5 10.5M10.5 13.5l-1.7 1.7a2.8 2.8 0 0 1-4-4L6.5 9.5",
  retry: "M15.5 10a5.5 5.5 0 1 1-1.7-4M15.8 3.2v3.2h-3.2",
  close: "M5 5l10 10M15 5 5 15",
  edit: "M4 16l.8-3.4 8.4-8.4a1.4 1.4 0 0 1 2 0l.6.6a1.4 1.4 0 0 1 0 2L7.4 15.2ZM11.6 5.8l2.6 2.6",
  pin: "M7.5 3.5h5M8.5 3.5v5l-2.5 3h8l-2.5-3v-5M10 11.5v5",
  thread: "M3.5 4h9v6.5h-5L4.5 13v-2.5h-1ZM15 7.5h1.5V14H15v2.5L12 14H8.5v-1",
  attach: "M14.5 9.5 9.3 14.7a2.9 2.9 0 0 1-4.1-4.1l6-6a2 2 0 0 1 2.8 2.8l-6 6a1 1 0 0 1-1.4-1.4l5.2-5.2",
  copy: "M7.5 7.5h8v8h-8zM12.5 7.5v-3h-8v8h3",
  check: "M4 10.5l4 4 8-9",
  down: "M10 4v11.5M5 11l5 5 5-5",
  theme_system: "M3.5 4.5h13v9h-13zM7.5 16.5h5M10 13.5v3",
  theme_light: "M10 13.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4ZM10 2.5v1.6M10 15.9v1.6M2.5 10h1.6M15.9 10h1.6M4.7 4.7l1.1 1.1M14.2 14.2l1.1 1.1M4.7 15.3l1.1-1.1M14.2 5.8l1.1-1.1",
  theme_dark: "M16 12.2A6.8 6.8 0 0 1 7.8 4a6.5 6.5 0 1 0 8.2 8.2Z",
  help: "M7.6 7.6A2.5 2.5 0 1 1 10.9 10c-.6.3-.9.7-.9 1.4v.4M10 14.6v.2",
  undo: "M7 5 3.5 8.5 7 12M3.8 8.5H12a4 4 0 0 1 0 8H8",
  plus: "M10 4.5v11M4.5 10h11",
  left: "M12 5l-5 5 5 5",
  right: "M8 5l5 5-5 5",
  pause: "M7 5v10M13 5v10",
  play: "M6.5 4.5v11l9-5.5z",
  stop: "M5.5 5.5h9v9h-9z",
  route: "M5 16a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM15 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM7 14h4a2.5 2.5 0 0 0 0-5H9a2.5 2.5 0 0 1 0-3.5h4",
  airspace: "M10 4v-1.5M10 17.5V16M4 10H2.5M17.5 10H16M10 16a6 6 0 1 0 0-12 6 6 0 0 0 0 12ZM7.6 11.4l4.6-2.6",
  branch: "M6 6.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM6 17.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM14 8.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM6 6.5v7M14 8.5c0 3-3 3.5-5.5 3.8C7 12.5 6 13 6 13.5",
  metrics: "M3 16.5h14M5 13.5v-3M8.5 13.5v-8M12 13.5v-5M15.5 13.5v-10",
  timeline: "M3 5.5h14M3 10h14M3 14.5h14M6 7a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM12.5 11.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3ZM8.5 16a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Z",
  key: "M7 12.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM10.4 9H17v2.5M14 9v2",
  lock: "M5.5 9h9v7h-9zM7.3 9V6.7a2.7 2.7 0 0 1 5.4 0V9M10 12v1.6",
  memory: "M6 3.5h8a1 1 0 0 1 1 1v12.2l-5-3.4-5 3.4V4.5a1 1 0 0 1 1-1ZM8 7h4M8 9.8h4",
  useful: "M6.5 16.5V9L9.8 3.5a1.6 1.6 0 0 1 1.7 1.9L11 8h4.3a1.4 1.4 0 0 1 1.4 1.7l-1.1 5.4a1.8 1.8 0 0 1-1.8 1.4ZM3.5 9v7.5",
  useless: "M6.5 3.5V11l3.3 5.5a1.6 1.6 0 0 0 1.7-1.9L11 12h4.3a1.4 1.4 0 0 0 1.4-1.7l-1.1-5.4a1.8 1.8 0 0 0-1.8-1.4ZM3.5 11V3.5",
  forget: "M4.5 6h11M8 6V4h4v2M6 6l.7 10h6.6L14 6M8.7 9v4.5M11.3 9v4.5",
  minus: "M4.5 10h11",
  more: "M4.5 10.7a.7.7 0 1 0 0-1.4.7.7 0 0 0 0 1.4ZM10 10.7a.7.7 0 1 0 0-1.4.7.7 0 0 0 0 1.4ZM15.5 10.7a.7.7 0 1 0 0-1.4.7.7 0 0 0 0 1.4Z",
  frame: "M3.5 7V3.5H7M13 3.5h3.5V7M16.5 13v3.5H13M7 16.5H3.5V13",
  merge: "M6 6.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM6 17.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM14.5 12.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM6 6.5v7M6 6.5c0 3 3 4 6.5 4",
  landing: "M10 3v9.5M5.5 8 10 12.5 14.5 8M3.5 16.5h13",
  approve: "M10 2.8 16 5v4.8c0 3.6-2.5 6.2-6 7.4-3.5-1.2-6-3.8-6-7.4V5ZM7.3 9.9l2 2 3.5-3.9",
  down_small: "M5 8l5 5 5-5",
  person: "M10 9.5a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6ZM4.5 16.3a5.5 5.5 0 0 1 11 0",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" width={size} height={size} aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round">
      <path d={PATHS[name]} />
    </svg>
  );
}

export { hued };

/** Two letters of an agent: of its last word where it has several, so that root-claude and root-codex differ. */
function letters(name: string): string {
  const words = name.split(/[-_.\s]+/).filter(Boolean);
  const last = words.at(-1) ?? name;
  return (words.length > 1 ? last : name).slice(0, 2).toUpperCase();
}

export function Avatar({ name, kind }: { name: string; kind: string }) {
  return (
    <span class={`avatar avatar-${kind}`} style={hued(name)} aria-hidden="true">
      {kind === "agent" ? letters(name) : name.slice(0, 1).toUpperCase()}
    </span>
  );
}

export function IconButton(props: { icon: IconName; label: string; onClick: (event: MouseEvent) => void; class?: string; pressed?: boolean; testid?: string; keys?: string; disabled?: boolean }) {
  return (
    <button
      type="button"
      class={`icon-button ${props.class ?? ""}`}
      aria-label={props.label}
      aria-pressed={props.pressed}
      disabled={props.disabled}
      data-tip={props.keys ? `${props.label}  ${props.keys}` : props.label}
      data-testid={props.testid}
      onClick={props.onClick}
    >
      <Icon name={props.icon} />
    </button>
  );
}

/** A sentence for people, with `code` in it as the room writes it. */
export function Words({ text }: { text: string }) {
  return <>{text.split(/(`[^`]+`)/).map((part, i) => (/^`.+`$/.test(part) ? <code key={i}>{part.slice(1, -1)}</code> : part))}</>;
}

export interface Toast {
  id: number;
  text: string;
  tone: "note" | "problem";
  action?: { label: string; run: () => void };
}

export const toasts = signal<Toast[]>([]);
let nextToast = 1;

/** Gives what ends it before its time. */
export function toast(text: string, options: Partial<Pick<Toast, "tone" | "action">> & { long?: boolean } = {}): () => void {
  const item: Toast = { id: nextToast++, text, tone: options.tone ?? "note", action: options.action };
  // The newest alone stays long: many of them would take the view's room.
  for (const old of toasts.value) setTimeout(() => dismiss(old.id), 5000);
  toasts.value = [...toasts.value.slice(-2), item];
  say(text);
  const end = (): void => dismiss(item.id);
  setTimeout(end, options.long ? 30_000 : item.tone === "problem" ? 9000 : 5000);
  return end;
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((t) => t.id !== id);
}

/** Something went well: a refusal from before may not be true any more. */
export function wentWell(): void {
  if (toasts.value.some((t) => t.tone === "problem")) toasts.value = toasts.value.filter((t) => t.tone !== "problem");
}

/** Runs a request; what goes wrong is told with what to do. True when it went well. */
export async function attempt(work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    wentWell();
    return true;
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    toast([problem.message, problem.fix].filter(Boolean).join(" "), { tone: "problem" });
    return false;
  }
}

/** Does it and says what the room says of it. */
export async function tell(work: Promise<{ reason?: string }>): Promise<void> {
  let said = "";
  if (await attempt(work.then((done) => (said = done.reason ?? "")))) toast(said.replace(/`/g, "") || "Done.");
}

/** The layers that are open, the topmost last. */
const layers = signal<readonly object[]>([]);

/** Answers of buttons. They have a place of their own below the view, or in the layer that lies over it, and cover nothing;
 *  `said` reads them out. */
export function Toasts({ layer }: { layer?: object }) {
  return layers.value.at(-1) !== layer ? null : (
    <div class="toasts" role="region" aria-label="Answers">
      {toasts.value.map((t) => (
        <div key={t.id} class={`toast toast-${t.tone}`} data-testid="toast">
          <span><Words text={t.text} /></span>
          {t.action && (
            <button type="button" class="link" onClick={() => { dismiss(t.id); t.action!.run(); }}>
              {t.action.label}
            </button>
          )}
          <button type="button" class="toast-close" aria-label="Dismiss" onClick={() => dismiss(t.id)}>
            <Icon name="close" size={14} />
          </button>
        </div>
      ))}
    </div>
  );
}

/** One tooltip for the page: whatever has `data-tip` shows it on hover and on keyboard focus, a `.term` also on a tap. */
export function Tooltip() {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let shown: Element | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const hide = (): void => {
      clearTimeout(timer);
      shown = null;
      box.current?.classList.remove("on");
    };
    const show = (target: Element): void => {
      const tip = box.current;
      const text = target.getAttribute("data-tip");
      if (!tip || !text || !target.isConnected) return;
      shown = target;
      tip.textContent = text;
      tip.classList.add("on");
      const at = target.getBoundingClientRect();
      const size = tip.getBoundingClientRect();
      const above = at.top - size.height - 8;
      // Above the buttons of a card stands what they are about.
      const below = at.bottom + 8;
      tip.style.top = `${above > 4 && !(target.closest(".need-acts") && below + size.height < innerHeight) ? above : below}px`;
      tip.style.left = `${Math.max(6, Math.min(innerWidth - size.width - 6, at.left + at.width / 2 - size.width / 2))}px`;
    };
    // Where the pointer is: what only slides under it while it rests was not asked about.
    let place = "";
    const moved = (event: Event): boolean => {
      const before = place;
      if (event instanceof MouseEvent) place = `${event.clientX} ${event.clientY}`;
      return event.type === "focusin" || place !== before;
    };
    const over = (event: Event): void => {
      const target = (event.target as Element | null)?.closest?.("[data-tip]") ?? null;
      const asked = moved(event);
      if (target === shown) return;
      hide();
      if (!target || !asked) return;
      const byKeyboard = event.type === "focusin";
      if (byKeyboard && !target.matches(":focus-visible")) return;
      timer = setTimeout(() => show(target), byKeyboard ? 0 : 260);
    };
    // A finger has no hover: a word that is explained is tapped.
    const tap = (event: Event): void => {
      const target = (event.target as Element | null)?.closest?.(".term[data-tip]");
      if (!target) return;
      hide();
      show(target);
    };
    document.addEventListener("click", tap);
    document.addEventListener("mousemove", moved, { capture: true, passive: true });
    const events = ["mouseover", "focusin"] as const;
    const away = ["mouseleave", "scroll", "mousedown", "keydown", "focusout"] as const;
    for (const name of events) document.addEventListener(name, over, true);
    for (const name of away) document.addEventListener(name, name === "mouseleave" ? () => {} : hide, true);
    return () => {
      document.removeEventListener("click", tap);
      document.removeEventListener("mousemove", moved, true);
      for (const name of events) document.removeEventListener(name, over, true);
    };
  }, []);
  return <div class="tooltip" ref={box} role="tooltip" />;
}

/** A modal layer: Escape and a click beside it close it; the focus goes in and comes back. */
export function Layer(props: { label: string; class?: string; onClose?: () => void; children: ComponentChildren; testid?: string; scrolls?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const me = useRef({}).current;
  // With the layout: after the paint, a key pressed in between would miss the dialog.
  useLayoutEffect(() => {
    const element = dialog.current!;
    element.showModal();
    layers.value = [...layers.value, me];
    return () => {
      layers.value = layers.value.filter((one) => one !== me);
      element.close();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={`layer ${props.class ?? ""}`}
      aria-label={props.label}
      data-testid={props.testid}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose?.();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) props.onClose?.();
      }}
    >
      {/* What is only read is scrolled by keys too. */}
      <div class="layer-body" tabIndex={props.scrolls ? 0 : undefined}>{props.children}</div>
      <Toasts layer={me} />
    </dialog>
  );
}

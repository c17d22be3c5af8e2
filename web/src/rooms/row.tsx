/** What a row of the transcript has of its own author's doing: the text as it is now, and the buttons. */

import type { ComponentChildren } from "preact";
import { api } from "../api";
import { receiptsOf } from "../state/room";
import { Icon, IconButton, tell } from "../ui/bits";
import { Lazy } from "../ui/lazy";
import type { Entry } from "../types";
import { deleting, editing, isCommand, isOwn } from "./changes";
import { codeOpen } from "./code";
import { pinnedIds, pins } from "./pins";
import { rootOf, threadOpen } from "./threads";
import "../style/rooms.css";

const editBox = () => import("./own").then((all) => ({ default: all.EditBox }));
const deleteBox = () => import("./own").then((all) => ({ default: all.DeleteBox }));
const pinBar = () => import("./pin_bar").then((all) => ({ default: all.PinBar }));
const threadPanel = () => import("./thread_panel").then((all) => ({ default: all.ThreadPanel }));
const codePanel = () => import("./code_panel").then((all) => ({ default: all.CodePanel }));
const editedMark = () => import("./own").then((all) => ({ default: all.Edited }));

/** The text of an entry (`children`), or what stands in its place. */
export function EntryText({ entry, children }: { entry: Entry; children: ComponentChildren }) {
  if (entry.meta.deleted) return <p class="gone" data-testid="deleted">{entry.speaker} deleted this message.</p>;
  if (editing.value === entry.id) return <Lazy load={editBox} given={{ entry }} over />;
  return (
    <>
      {children}
      {entry.meta.edited && <Lazy load={editedMark} given={{ entry }} over />}
      {deleting.value === entry.id && <Lazy load={deleteBox} given={{ entry }} over />}
    </>
  );
}

/** Below an entry that others answered: how many did, as a way to the thread. */
export function Replies({ entry }: { entry: Entry }) {
  const jobs = receiptsOf(entry.id).value;
  const n = entry.replies ?? 0;
  // The one answer that each receipt shows is no conversation yet.
  if (entry.thread || !n || (n < 2 && jobs.some((job) => job.state === "done"))) return null;
  return (
    <button type="button" class="replies" aria-expanded={threadOpen.value === entry.id} onClick={() => (threadOpen.value = entry.id)} data-testid="replies">
      <Icon name="thread" size={13} /> {n} {n === 1 ? "reply" : "replies"}
    </button>
  );
}

/** What is open beside the transcript: a thread, and over it the code that a message speaks of. */
export function Beside() {
  return (
    <>
      {threadOpen.value && <Lazy load={threadPanel} over />}
      {codeOpen.value && <Lazy load={codePanel} over />}
    </>
  );
}

export function EntryActions({ entry }: { entry: Entry }) {
  if (entry.meta.deleted) return null;
  const pinned = pinnedIds.value.has(entry.id);
  return (
    <>
      <IconButton icon="thread" label="Answer beside" onClick={() => (threadOpen.value = rootOf(entry))} testid="answer-beside" />
      <IconButton icon="pin" label={pinned ? "Take it down" : "Pin"} pressed={pinned} onClick={() => void tell(api.pin(entry.id, !pinned))} testid="pin-it" />
      {isOwn(entry) && !isCommand(entry) && <IconButton icon="edit" label="Edit" onClick={() => (editing.value = entry.id)} testid="edit" />}
      {isOwn(entry) && <IconButton icon="forget" label="Delete" onClick={() => (deleting.value = entry.id)} testid="delete" />}
    </>
  );
}

/** On top of the transcript. */
export function Pins() {
  return pins.value.length > 0 ? <Lazy load={pinBar} over /> : null;
}

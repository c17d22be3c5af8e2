/** What a row of the transcript has of its own author's doing: the text as it is now, and the buttons. */

import type { ComponentChildren } from "preact";
import { api } from "../api";
import { IconButton, tell } from "../ui/bits";
import { Lazy } from "../ui/lazy";
import type { Entry } from "../types";
import { deleting, editing, isCommand, isOwn } from "./changes";
import { pinnedIds, pins } from "./pins";
import "../style/rooms.css";

const editBox = () => import("./own").then((all) => ({ default: all.EditBox }));
const deleteBox = () => import("./own").then((all) => ({ default: all.DeleteBox }));
const pinBar = () => import("./pin_bar").then((all) => ({ default: all.PinBar }));
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

export function EntryActions({ entry }: { entry: Entry }) {
  if (entry.meta.deleted) return null;
  const pinned = pinnedIds.value.has(entry.id);
  return (
    <>
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

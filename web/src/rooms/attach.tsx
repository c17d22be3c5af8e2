/** The composer's button for files, and what is pasted or dropped into it. */

import { useRef, useState } from "preact/hooks";
import { memory } from "../state/prefs";
import { IconButton, toast } from "../ui/bits";

/** The files of a drop. */
export const filesOf = (data: DataTransfer | null): File[] => [...(data?.files ?? [])];

/** The files of a paste. Office programs copy text with a picture of it: then the text is what is meant, and there are
 * none. Of files that were copied in a folder the text is their names. */
export function pastedFiles(data: DataTransfer | null): File[] {
  const files = filesOf(data);
  const lines = (data?.getData("text/plain") ?? "").split("\n").map((line) => line.trim()).filter(Boolean);
  return lines.every((line) => files.some((file) => line === file.name || line.endsWith(`/${file.name}`))) ? files : [];
}

/** The ids of files that were sent from here, the newest last. */
export const ids = (): string[] => memory.get("files")?.split(" ") ?? [];

/** The text as the room takes it. */
export const whole = (text: string): string =>
  text.replace(/relay-file:([0-9a-f]{8})(?=\))/g, (said, first: string) => {
    const id = ids().find((one) => one.startsWith(first));
    return id ? `relay-file:${id}` : said;
  });

/** `insert` puts the files' names into the text. */
export function useFiles(insert: (text: string) => void): { busy: boolean; take: (files: readonly File[]) => void } {
  const [busy, setBusy] = useState(false);
  const take = (files: readonly File[]): void => {
    if (!files.length) return;
    setBusy(true);
    void import("./upload")
      .then(({ upload }) => upload(files))
      .then((text) => { if (text) insert(text); })
      .catch(() => toast("The file was not sent: the connection may be down. Try again.", { tone: "problem" }))
      .finally(() => setBusy(false));
  };
  return { busy, take };
}

export function Attach({ busy, take }: { busy: boolean; take: (files: readonly File[]) => void }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <input ref={field} type="file" multiple hidden aria-hidden="true" tabIndex={-1} data-testid="file-field" onChange={(event) => { take([...(event.currentTarget.files ?? [])]); event.currentTarget.value = ""; }} />
      <IconButton icon="attach" class="attach" label={busy ? "Sending the file…" : "Send a file (or paste or drop it)"} disabled={busy} onClick={() => field.current?.click()} testid="attach" />
    </>
  );
}

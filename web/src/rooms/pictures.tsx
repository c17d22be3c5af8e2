/** The pictures of a text that is written. Comes as a file of its own. */

import { whole } from "./attach";

/** The pictures that a text names, small. */
export function Pictures({ text }: { text: string }) {
  const all = [...whole(text).matchAll(/!\[([^\]]*)\]\(relay-file:([0-9a-f]{64}\.\w+)\)/g)];
  return all.length ? <p class="composer-note" data-testid="composer-pictures">{all.map(([, name, id], at) => <img key={at} src={`/api/files/${id}`} alt={name} height={40} data-tip={name} />)}</p> : null;
}

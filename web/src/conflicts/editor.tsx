/** A text field in the colours of its language: the field lies over its own coloured text, and both break lines alike. */

import { useLayoutEffect, useRef } from "preact/hooks";
import type { Ref } from "preact";

export function CodeField(props: { value: string; language: string; label: string; onChange: (text: string) => void; onSend: () => void; field: Ref<HTMLTextAreaElement>; disabled: boolean }) {
  const code = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    // A last line end makes a line of its own in a field, and none in a text.
    code.current!.textContent = `${props.value}\n`;
    if (props.language && props.value.length < 60_000)
      void import("../text/highlight").then(({ colour }) => code.current && colour(code.current, props.language));
  }, [props.value, props.language]);
  return (
    <div class="code-field">
      <pre aria-hidden="true"><code ref={code} /></pre>
      <textarea
        ref={props.field}
        value={props.value}
        aria-label={props.label}
        spellcheck={false}
        autocapitalize="off"
        disabled={props.disabled}
        onInput={(event) => props.onChange(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            props.onSend();
          } else if (event.key === "Escape") event.currentTarget.blur();
        }}
        data-testid="conflict-text"
      />
    </div>
  );
}

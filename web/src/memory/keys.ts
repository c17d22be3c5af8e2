/** The keys of the memory view. */

/** From the search, an arrow down goes to the first row of this selector. */
export const toFirst = (rows: string) => (event: KeyboardEvent): void => {
  const row = event.key === "ArrowDown" ? document.querySelector<HTMLElement>(rows) : null;
  if (!row) return;
  event.preventDefault();
  row.focus();
};

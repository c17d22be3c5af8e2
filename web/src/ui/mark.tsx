/** relay's sign: the wire between two agents. */

export function Mark() {
  return (
    <svg class="brand" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
      <rect width="32" height="32" rx="8" class="brand-ground" />
      <path d="M7 21h6a5 5 0 0 0 5-5 5 5 0 0 1 5-5h2" class="brand-wire" />
      <circle cx="7.5" cy="21" r="3" class="brand-from" />
      <circle cx="24.5" cy="11" r="3" class="brand-to" />
    </svg>
  );
}

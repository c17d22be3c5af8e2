/** "3 files +120 −14" */

interface Stat {
  files: number;
  insertions: number;
  deletions: number;
}

export function Diffstat({ of, files = false }: { of: Stat; files?: boolean }) {
  return (
    <span class="diffstat" aria-label={`${of.files} files, ${of.insertions} lines added, ${of.deletions} removed`}>
      {files && <>{of.files} {of.files === 1 ? "file" : "files"} </>}
      <span class="plus">+{of.insertions}</span> <span class="minus">−{of.deletions}</span>
    </span>
  );
}

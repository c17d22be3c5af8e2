/** "3 files +120 −14" */

import { counted } from "../text/format";

interface Stat {
  files: number;
  insertions: number;
  deletions: number;
}

export function Diffstat({ of, files = false }: { of: Stat; files?: boolean }) {
  return (
    <span class="diffstat" aria-label={`${counted(of.files, "file")}, ${counted(of.insertions, "line")} added, ${of.deletions} removed`}>
      {files && <>{counted(of.files, "file")} </>}
      <span class="plus">+{of.insertions}</span> <span class="minus">−{of.deletions}</span>
    </span>
  );
}

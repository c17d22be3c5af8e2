"""What the utilities of a shell write, by their words (manuals of POSIX and GNU, and of BSD where it differs)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace

from relay.code.shell.calls import Call, Found, Target, Word, named

#: Files of a copied folder that are named, at most.
MOST_FOUND = 2_000


def all_of(valued: str = "", *, below: bool = False) -> Callable[[Call], Found]:
    """Each operand is written."""
    return lambda call: named(call, call.split(valued)[1], below=below)


def sed(call: Call) -> Found:
    in_place = any(
        word and (word.startswith("--in-place") or re.match(r"-[nErszu]*i", word)) for word in call.words
    )
    options, operands = call.split("-e -f -l --expression --file --line-length")
    scripts = [options.get("-e"), options.get("--expression")]
    if not in_place:
        text = next((script for script in scripts if script), operands[0] if operands else None)
        files = re.findall(r"(?:^|[;}\s/\dgpI])w\s+(\S+)\s*$", text or "", re.MULTILINE)
        return named(call, [name for name in files if not name.startswith("/dev/")])
    if "" in operands[:1]:  # BSD: `-i ''`
        operands = operands[1:]
    if not any(flag in options for flag in ("-e", "-f", "--expression", "--file")):
        operands = operands[1:]
    return named(call, _backed_up(operands, r"-[nErsz]*i(?P<end>.+)|--in-place=(?P<long>.+)", call))


def _backed_up(files: list[Word], pattern: str, call: Call) -> list[Word]:
    """The files, and the copies that are kept of them under a name with a suffix."""
    for word in call.words:
        match = re.fullmatch(pattern, word or "")
        if match is not None and match[match.lastgroup or 0] not in (None, ""):
            return [*files, *(path and path + match[match.lastgroup or 0] for path in files)]
    return files


def perl(call: Call) -> Found:
    flags = [
        word
        for word in call.words
        if word and re.match(r"-[a-zA-Z0-9]*i", word) and word[:2] not in ("-M", "-I")
    ]
    if not flags:
        return [], ""
    _, operands = call.split("-e -E -M -I -F -l")
    return named(call, _backed_up(operands, r"-[pnl0-9]*i(?P<end>\.\w+)", call))


def awk(call: Call) -> Found:
    options, operands = call.split("-F -v -f -i -e")
    if options.get("-i") == "inplace":
        return named(call, operands if "-f" in options else operands[1:])
    program = (operands or [None])[0]
    into = re.findall(r">>?\s*\"([^\"]+)\"", program or "")
    return named(call, into)


def copied(call: Call) -> Found:
    """cp, mv, install, ln, rsync: what lies at the end of the way, and for mv what it takes away."""
    options, operands = call.split(
        "-t -S -m -o -g -e --target-directory --suffix --mode --exclude --include --rsh"
    )
    if (call.name == "install" and "-d" in options) or (call.name == "rsync" and call.has("-n", "--dry-run")):
        return [], ""
    into = options.get("-t") or options.get("--target-directory")
    sources = operands if into else operands[:-1]
    to = into or (operands[-1] if operands else None)
    if to is None or (call.name == "rsync" and ":" in to):
        return [], "" if to else f"`{call.name}` to a place that its words do not name"
    if not sources and call.name == "ln" and operands:
        sources, to, into = operands, ".", "."
    folder = (
        bool(into) or to.endswith("/") or len(sources) > 1 or os.path.isdir(os.path.join(call.cwd or "/", to))
    )
    # What is there stays where nothing is to be written over, and rsync leaves what is the same.
    sure = call.name != "rsync" and not call.has(
        "-n", "-u", "-i", "--no-clobber", "--update", "--interactive", "--dry-run"
    )
    tree = call.name in ("mv", "rsync") or call.has("-r", "-R", "-a", "--recursive", "--archive")
    targets, unknown = [], None in sources
    for source in sources:
        if source is None:
            continue
        contents = call.name == "rsync" and source.endswith("/")
        inside = os.path.join(to, os.path.basename(source.rstrip("/"))) if folder and not contents else to
        lies = os.path.join(call.cwd or "/", source)
        if tree and os.path.isdir(lies) and not os.path.islink(lies):
            targets += [replace(each, sure=each.sure and sure) for each in _each(lies, inside)]
        else:
            targets.append(Target(inside, sure=sure))
        if call.name == "mv":
            targets.append(Target(source, below=True, sure=sure))
    return targets, f"`{call.name}` of files that its words do not name" if unknown else ""


def _each(folder: str, to: str) -> list[Target]:
    """What a copied folder writes: its own files, not the others where it goes."""
    targets: list[Target] = []
    for place, _, files in os.walk(folder):
        inside = os.path.relpath(place, folder)
        targets += [Target(os.path.normpath(os.path.join(to, inside, name))) for name in files]
        if len(targets) > MOST_FOUND:
            return [Target(to, below=True, sure=False)]
    return targets


def dd(call: Call) -> Found:
    return named(call, [word[3:] for word in call.words if word and word.startswith("of=")])


def rm(call: Call) -> Found:
    if call.name != "rm" or call.has("-r", "-R", "--recursive"):
        return named(call, call.split()[1], below=True)
    targets, unknown = named(call, call.split()[1])
    folder = [os.path.isdir(os.path.join(call.cwd or "/", each.path)) for each in targets]
    return [each for each, kept in zip(targets, folder, strict=True) if not kept], unknown


def chmod(call: Call) -> Found:
    """Of a folder, what has another mode."""
    all_below = call.has("-R", "--recursive")
    return named(call, call.split("--reference")[1][1:], below=all_below, sure=not all_below)


def touch(call: Call) -> Found:
    """It makes what is not there; what is there keeps its text."""
    _, operands = call.split("-d -t -r --date --reference")
    targets, unknown = named(call, operands)
    there = [os.path.exists(os.path.join(call.cwd or "/", each.path)) for each in targets]
    return [replace(each, sure=not known) for each, known in zip(targets, there, strict=True)], unknown


def sd(call: Call) -> Found:
    return named(call, call.split("-n -f")[1][2:])


def unzip(call: Call) -> Found:
    if call.has("-l", "-p", "-t"):
        return [], ""
    return [Target(call.split("-d -x")[0].get("-d") or ".", below=True, sure=False)], ""


def tar(call: Call) -> Found:
    first = (call.words or ("",))[0] or ""
    extracts = call.has("-x", "--extract", "--get") or (not first.startswith("-") and "x" in first)
    options, operands = call.split("-f -C --file --directory")
    folder = options.get("-C") or options.get("--directory") or "."
    if extracts:
        return [Target(folder, below=True, sure=False)], ""
    creates = call.has("-c", "--create") or (not first.startswith("-") and "c" in first)
    bundled = first.lstrip("-").endswith("f")
    to = (
        options.get("-f")
        or options.get("--file")
        or (operands[0 if first.startswith("-") else 1] if bundled and len(operands) > 1 else None)
    )
    return named(call, [to]) if creates and to else ([], "")


def out_of(*flags: str, valued: str = "") -> Callable[[Call], Found]:
    """It writes the value of one of these options."""

    def look(call: Call) -> Found:
        options, _ = call.split(f"{valued} {' '.join(flags)}")
        return named(call, [options[flag] for flag in flags if options.get(flag) not in (None, "", "-")])

    return look


def curl(call: Call) -> Found:
    options, operands = call.split("-o --output -H -d -X -u -A -e --header --data --request --output-dir")
    folder = options.get("--output-dir") or ""
    to = [options[flag] for flag in ("-o", "--output") if options.get(flag)]
    if call.has("-O", "--remote-name"):
        to += [os.path.basename(url.split("?")[0]) for url in operands if url]
    return named(call, [os.path.join(folder, path) for path in to if path and path != "-"])


def wget(call: Call) -> Found:
    options, operands = call.split("-O -P --output-document --directory-prefix")
    to = options.get("-O") or options.get("--output-document")
    if to:
        return named(call, [] if to == "-" else [to])
    folder = options.get("-P") or options.get("--directory-prefix") or ""
    return named(call, [os.path.join(folder, os.path.basename(url.split("?")[0])) for url in operands if url])


def editor(call: Call) -> Found:
    """Editors that are given their commands: the file they open, where they may write."""
    _, operands = call.split("-p" if call.name == "ed" else "-c -s -S -u --cmd")
    return named(call, [word for word in operands if word and not word.startswith("+")], sure=False)


def split_up(call: Call) -> Found:
    """How many parts there will be, nobody knows before; their folder is named by their prefix."""
    return [], "`split`, which writes as many parts as there are"


def sort(call: Call) -> Found:
    return out_of("-o", "--output", valued="-k -t -S -T")(call)


def gzip(call: Call) -> Found:
    if call.has("-c", "--stdout", "-l", "-t"):
        return [], ""
    targets = []
    for word in call.split("-S")[1]:
        if word:
            other = re.sub(r"\.(gz|bz2|xz|zst)$", "", word)
            end = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst"}.get(call.name, "")
            kept = [] if call.has("-k", "--keep") else [Target(word)]
            targets += [*kept, Target(other if other != word else word + end)]
    return targets, ""


def yq(call: Call) -> Found:
    if not call.has("-i", "--inplace", "--in-place"):
        return [], ""
    _, operands = call.split("--arg --argjson")
    return named(call, operands[1:])


def chosen(flags: str, skip: int = 0, valued: str = "") -> Callable[[Call], Found]:
    """With one of these options it writes its operands but for the first `skip`."""
    wanted = tuple(flags.split())

    def look(call: Call) -> Found:
        return named(call, call.split(valued)[1][skip:]) if call.has(*wanted) else ([], "")

    return look


UTILITIES: dict[str, Callable[[Call], Found]] = {
    "sed": sed, "gsed": sed, "awk": awk, "gawk": awk,
    "tee": all_of(), "sponge": all_of(), "touch": touch,
    "truncate": all_of("-s -r --size --reference"), "script": all_of("-c"),
    "cp": copied, "mv": copied, "install": copied, "ln": copied, "rsync": copied, "gcp": copied, "gmv": copied,
    "rm": rm, "unlink": rm, "shred": rm, "trash": rm, "chmod": chmod, "dd": dd, "tar": tar, "bsdtar": tar,
    "unzip": unzip, "curl": curl, "wget": wget, "sort": sort, "split": split_up,
    "ed": editor, "ex": editor, "vi": editor, "vim": editor, "nvim": editor, "emacs": editor, "nano": editor,
    "gzip": gzip, "gunzip": gzip, "bzip2": gzip, "bunzip2": gzip, "xz": gzip, "unxz": gzip,
    "yq": yq, "sd": sd, "dos2unix": all_of("-n"), "unix2dos": all_of("-n"),
    "xmlstarlet": chosen("-L --inplace", 1, "-u -v -d -x -i -t -n -s"),
}  # fmt: skip

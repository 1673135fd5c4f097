#!/usr/bin/env python3
"""Documents, comments and messages have no phrase that a reader has to read twice.

Code, quoted messages in documents, and what `mxo museum` prints are left out.
Usage: words_test.py SOURCE_ROOT.  Prints each place; exits 1 if there is one.
"""
import re
import sys
from pathlib import Path

WORDS = r"anew|whoever|nobody|owed|owes|told|also not|turn about|(of )?one's own|none of its"
ANYWHERE = re.compile(rf"\b({WORDS})\b", re.I)
IN_DOCUMENTS = re.compile(rf"\b({WORDS}|(is|are) those of|(is|are) none of|as (it|they) came|what came|"
                          r"is not here|come by|of the caller's|to be had)\b", re.I)
QUOTED = re.compile(r"^```.*?^```|`[^`\n]*`|\"[^\"\n]*\"", re.S | re.M)
GENERATED = {"docs/museum.md"}  # what mxo prints
FOLDERS = ["formats", "ops", "emu", "golden", "tools", "bench", "python/mxoracle", "python/src", "examples"]
ELSEWHERE = ("golden/explain/",)  # whose sentences have tests of their own
COMMENT = {".py": re.compile(r'#[^\n]*|""".*?"""|"[^"\n]*"', re.S)}
COMMENT |= dict.fromkeys([".h", ".cc", ".cu", ".cuh"], re.compile(r'//[^\n]*|"[^"\n]*"'))


def keep(text: str, spans) -> str:
    """Only `spans` of `text`, each at its place."""
    blank = list(re.sub(r"[^\n]", " ", text))
    for begin, end in spans:
        blank[begin:end] = text[begin:end]
    return "".join(blank)


def places(root: Path):
    for page in [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("bench/*.md")]:
        blank = QUOTED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), page.read_text())
        yield page, blank, IN_DOCUMENTS
    for source in (p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in COMMENT):
        text = source.read_text()
        yield source, keep(text, [m.span() for m in COMMENT[source.suffix].finditer(text)]), ANYWHERE


def main(root: Path) -> int:
    found, seen = [], 0
    for path, text, phrases in places(root):
        name = path.relative_to(root).as_posix()
        if name in GENERATED or name.startswith(ELSEWHERE):
            continue
        seen += 1
        found += [f"{name}:{text.count(chr(10), 0, match.start()) + 1}: '{match[0]}'"
                  for match in phrases.finditer(text)]
    assert seen > 700, f"only {seen} files found"
    print("\n".join(found) or f"{seen} files have none")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

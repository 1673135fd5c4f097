#!/usr/bin/env python3
"""Documents have no phrase that a reader has to read twice, outside of code and quoted messages.

Usage: words_test.py SOURCE_ROOT.  Prints each place; exits 1 if there is one.
"""
import re
import sys
from pathlib import Path

PHRASES = re.compile(r"\b(anew|whoever|nobody|owed|told so|is told by|(is|are) those of|(is|are) none of|also not)\b", re.I)
QUOTED = re.compile(r"^```.*?^```|`[^`\n]*`|\"[^\"\n]*\"", re.S | re.M)
GENERATED = {"docs/museum.md"}  # what mxo prints


def main(root: Path) -> int:
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("bench/*.md")]
    assert len(pages) > 25, f"only {len(pages)} pages found"
    found = []
    for page in sorted(pages):
        name = page.relative_to(root).as_posix()
        if name in GENERATED:
            continue
        blank = QUOTED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), page.read_text())
        found += [f"{name}:{n}: '{match[0]}'" for n, line in enumerate(blank.splitlines(), 1)
                  for match in PHRASES.finditer(line)]
    print("\n".join(found) or f"{len(pages)} pages have none")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

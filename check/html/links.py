#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""links.py SITE: every link of every page leads to a file, and to a place in it, that is there; nothing is fetched from
elsewhere; no two things of a page have one name; and from the first page every page can be reached."""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


class Page(HTMLParser):
    """The names and links of one page."""

    def __init__(self, path):
        super().__init__()
        self.names, self.twice, self.links, self.parts = set(), set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key == "id":
                (self.twice if value in self.names else self.names).add(value)
            elif key == "href" and tag == "a":
                self.links.append(value)
            elif key in ("href", "src"):
                self.parts.append(value)


def main():
    """How many mistakes there are; each is told of."""
    root = Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in sorted(root.rglob("*.html"))}
    bad, reached, begin = [], set(), root / "index.html"

    for path, page in pages.items():
        name = path.relative_to(root)
        bad += [f"{name}: two things are called #{twice}" for twice in sorted(page.twice)]
        bad += [f"{name}: {part} is not of the site" for part in page.parts if "//" in part]
        for link in page.links + [part for part in page.parts if "//" not in part and not part.startswith("data:")]:
            if link.startswith(("http:", "https:", "mailto:")):
                continue
            file, _, anchor = link.partition("#")
            target = (path.parent / unquote(file)).resolve() if file else path
            if not target.is_file():
                bad.append(f"{name}: {link} leads nowhere")
            elif anchor and target in pages and unquote(anchor) not in pages[target].names:
                bad.append(f"{name}: {link}: there is no such place")

    waiting = [begin]
    while waiting:
        path = waiting.pop()
        if path in reached or path not in pages:
            continue
        reached.add(path)
        waiting += [(path.parent / unquote(link.partition("#")[0])).resolve() for link in pages[path].links if "//" not in link]
    bad += [f"{path.relative_to(root)}: no link leads there" for path in pages if path not in reached]

    print("\n".join(bad), file=sys.stderr)
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links, {len(bad)} mistakes")
    return 1 if bad or len(pages) < 50 else 0


sys.exit(main())

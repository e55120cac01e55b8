#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""make_site.py SOURCE TARGET VERSION: one site of the manual, the guide and all other pages, which needs no server and no network.

Markdown becomes HTML by python3-markdown, the manual by mandoc; both go into the one template below. What a page links to
in the tree comes along: pages as pages, samples with their text, pictures as they are."""
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from html import escape, unescape
from pathlib import Path

import markdown

# What is in the menu; whatever else is linked to is made, too.
MENU = [
    ("Guide", ["doc/guide/README.md", "doc/guide/first-server.md", "doc/guide/from-sockets.md", "doc/guide/your-loop.md",
               "doc/guide/backpressure.md", "doc/guide/files.md", "doc/guide/one-sided.md", "doc/guide/time-outs.md",
               "doc/guide/threads.md", "doc/guide/many-connections.md", "doc/guide/slow.md", "doc/guide/hardware.md",
               "doc/guide/cpp.md", "doc/guide/python.md"]),
    ("Reference", ["manual", "errors", "doc/overview.md", "doc/devices.md", "doc/performance.md"]),
    ("Tested", ["check/README.md", "check/conformance/TESTS.md", "doc/faults.md", "doc/scale.md", "doc/soak.md"]),
    ("Programs", ["doc/tools.md", "doc/any-program.md", "samples"]),
    ("Inside", ["doc/building.md", "doc/reading-the-code.md", "doc/from-verbs-to-exs.md", "doc/libev.md",
                "CONTRIBUTING.md", "SECURITY.md", "CHANGES.md"]),
]

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - EXS</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{root}style.css">
<script src="{root}search.js" data-root="{root}" defer></script>
</head>
<body>
<header>
<a class="home" href="{root}index.html">EXS <small>{version}</small></a>
<form role="search"><input id="search" type="search" placeholder="Search" aria-label="Search" autocomplete="off"></form>
<ol id="found" hidden></ol>
</header>
<div class="page">
<details class="menu"><summary>Contents</summary><nav>{menu}</nav></details>
<main>
{body}
</main>
</div>
</body>
</html>
"""


def anchor(text):
    """What a heading is called in a link; check/tree/pages has the same rule."""
    return re.sub(r"[^a-z0-9 _-]", "", text.lower()).replace(" ", "-")


def plain(html):
    """Its text."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html))).strip()


class Site:
    """Pages, by the path in the tree that they are made of, or by a name of their own."""

    def __init__(self, source, target, version):
        self.source, self.target, self.version = Path(source), Path(target), version
        self.bodies = {}  # path: (title, body)
        self.wanted = [path for _, paths in MENU for path in paths if path.endswith(".md")] + ["README.md"]
        self.files = set()  # to be copied
        self.index = []
        self.manual = {}  # "exs_send.3": "exs_send.3", and of another name of a page its text's

    @staticmethod
    def where(path):
        """The address of what is made of a path."""
        if path == "README.md":
            return "index.html"
        if path.endswith("README.md"):
            return path[: -len("README.md")] + "index.html"
        if path.endswith(".md"):
            return path[:-3] + ".html"
        return path if path.endswith((".svg", ".json")) else path + ".html"

    def href(self, page, link):
        """A link in the tree, from a page of the tree, as one of the site."""
        if re.match(r"[a-z]+:|#", link):
            return link
        path, hash_, rest = link.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if path.startswith("man/"):
            path = "manual/" + path[4:]
        elif path.endswith(".md"):
            self.wanted.append(path)
        elif path.endswith((".svg", ".json")):
            self.files.add(path)
        elif (self.source / path).is_dir():
            path = "samples"
        elif path not in self.bodies:
            self.text_page(path)
        here = posixpath.dirname(self.where(page)) or "."
        return posixpath.relpath(self.where(path), here) + hash_ + rest

    # ---- Pages ----------------------------------------------------------------------------------------------------

    def markdown_page(self, path):
        """A page of Markdown."""
        text = (self.source / path).read_text(encoding="utf-8")
        maker = markdown.Markdown(extensions=["tables", "fenced_code", "toc", "sane_lists"],
                                  extension_configs={"toc": {"slugify": lambda value, _: anchor(value)}})
        body = maker.convert(text)
        body = re.sub(r'(href|src)="([^"]+)"', lambda m: f'{m[1]}="{self.href(path, unescape(m[2]))}"', body)
        # A picture leads to itself, as large as the window: on a phone its words are small.
        body = re.sub(r'<p>(<img [^>]*src="([^"]+)"[^>]*>)</p>', r'<p><a href="\2">\1</a></p>', body)
        body = re.sub(r"<code>(samples/[a-z_-]+\.(?:c|cc|py))</code>", lambda m: self.sample_link(path, m), body)
        title = plain(re.search(r"<h1.*?>(.*?)</h1>", body)[1])
        self.bodies[path] = (title, body)

    def sample_link(self, page, match):
        """A sample that a page names is a link to its text."""
        return f'<a href="{self.href(page, posixpath.relpath(match[1], posixpath.dirname(page) or "."))}">{match[0]}</a>'

    def text_page(self, path):
        """A file of the tree, as it is."""
        text = (self.source / path).read_text(encoding="utf-8")
        self.bodies[path] = (path, f"<h1>{escape(path)}</h1>\n<pre><code class='text'>{escape(text)}</code></pre>")

    def samples_page(self):
        """All samples, each with what its comment says it is."""
        rows = []
        for file in sorted([*self.source.glob("samples/*.c"), *self.source.glob("samples/*.cc"),
                            *self.source.glob("samples/*.py")]):
            path = file.relative_to(self.source).as_posix()
            comment = re.search(r'(?:SPDX.*?\*/\s*/\*|""")\s*(.*?)(?:\n\s*\*?\s*\n|Build: |\*/|""")', file.read_text("utf-8"), re.S)
            what = re.sub(r"\s*\n ?\*? ?", " ", comment[1])
            rows.append(f'<dt><a href="{self.href("samples", path)}">{file.name}</a></dt><dd>{escape(what)}</dd>')
        body = f"<h1>Samples</h1>\n<p>Programs to copy. Each opens with the line that builds it.</p>\n<dl>{''.join(rows)}</dl>"
        self.bodies["samples"] = ("Samples", body)

    # ---- The manual -----------------------------------------------------------------------------------------------

    def read_manual(self):
        """Which pages there are, and of which another name is."""
        for file in sorted((self.source / "man").glob("*.[1-9]")):
            other = re.search(r"^\.so man./(\S+)", file.read_text("utf-8"), re.M)
            self.manual[file.name] = other[1] if other else file.name

    def manual_page(self, name):
        """One page, by mandoc. Links to what is not ours are text."""
        made = subprocess.run(["mandoc", "-Thtml", "-Ofragment,man=%N.%S.html", self.source / "man" / name], check=True,
                              capture_output=True, encoding="utf-8").stdout

        def link(match):
            target = self.manual.get(match[1])
            return f'<a class="Xr" href="{target}.html">' if target else '<a class="Xr">'

        made = re.sub(r'<a class="Xr" href="([^"]+)\.html">', link, made)
        made = re.sub(r"<table class=\"(head|foot)\">.*?</table>", "", made, flags=re.S)
        made = re.sub(r"<(/?)h2", r"<\1h3", made)
        made = re.sub(r"<(/?)h1", r"<\1h2", made)
        made = made.replace("<table", '<div class="wide"><table').replace("</table>", "</table></div>")
        call, section = name.rsplit(".", 1)
        self.bodies["manual/" + name] = (f"{call}({section})", f"<h1>{call}({section})</h1>\n{made}")

    def manual_index(self):
        """All pages, by section."""
        sections = {"7": "Begin here", "3": "Calls", "1": "Programs"}
        body = ["<h1>Manual</h1>"]
        for section, title in sections.items():
            body.append(f"<h2>{title}</h2><dl>")
            for name, text in self.manual.items():
                if name.endswith("." + section) and name == text:
                    html = self.bodies["manual/" + name][1]
                    names = [n.split(".")[0] for n, other in self.manual.items() if other == name and n != name]
                    more = "".join(f", {n}" for n in names)
                    what = plain(re.search(r'<span class="Nd">(.*?)</span>', html, re.S)[1])
                    body.append(f'<dt><a href="manual/{name}.html">{name[:-2]}</a>{more}</dt><dd>{escape(what)}</dd>')
            body.append("</dl>")
        self.bodies["manual"] = ("Manual", "\n".join(body))

    def errors_page(self):
        """Every errno, with every call that gives it, and when."""
        found = {}
        for name, text in self.manual.items():
            if name != text:
                continue
            html = self.bodies["manual/" + name][1]
            part = re.search(r'id="ERRORS".*?(?=<section|\Z)', html, re.S)
            for code, why in re.findall(r'<dt[^>]*>\[.*?<code class="Er"[^>]*>(E\w+)</code>.*?</dt>\s*<dd>(.*?)</dd>',
                                        part[0] if part else "", re.S):
                why = re.sub(r'href="(?!#)', 'href="manual/', re.sub(r' id="[^"]*"', "", why)).replace(
                    'href="#', f'href="manual/{name}.html#')
                found.setdefault(code, []).append(f'<dt><a href="manual/{name}.html#ERRORS">{name[:-2]}</a></dt><dd>{why}</dd>')
        body = ["<h1>Errors</h1>", "<p>Every error that a page of the manual names, with the calls that give it. With "
                "<code>EXS_DEBUG=1</code> the library says on standard error which argument is wrong, or what is missing.</p>",
                "<p>" + " ".join(f'<a href="#{code}">{code}</a>' for code in sorted(found)) + "</p>"]
        for code in sorted(found):
            body.append(f'<h2 id="{code}">{code}</h2><p>{escape(os.strerror(getattr(__import__("errno"), code)))}.</p>'
                        f"<dl>{''.join(found[code])}</dl>")
        self.bodies["errors"] = ("Errors", "\n".join(body))

    # ---- Writing --------------------------------------------------------------------------------------------------

    def menu(self, page):
        """The menu as that page has it."""
        parts = []
        for title, paths in MENU:
            parts.append(f"<h2>{title}</h2><ul>")
            for path in paths:
                mark = ' aria-current="page"' if path == page else ""
                href = posixpath.relpath(self.where(path), posixpath.dirname(self.where(page)) or ".")
                parts.append(f'<li><a href="{href}"{mark}>{escape(self.bodies[path][0])}</a></li>')
            parts.append("</ul>")
        return "".join(parts)

    def write(self, page):
        """One page into its file, and into what is searched."""
        title, body = self.bodies[page]
        where = self.where(page)
        root = posixpath.relpath(".", posixpath.dirname(where) or ".") + "/"
        body = re.sub(r"(?<!<div class=\"wide\">)<table>(.*?)</table>", r'<div class="wide"><table>\1</table></div>', body, flags=re.S)
        file = self.target / where
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(TEMPLATE.format(title=escape(title), root="" if root == "./" else root, version=self.version,
                                        menu=self.menu(page), body=body), encoding="utf-8")
        words = title + " " + " ".join(name[:-2] for name, text in self.manual.items() if "manual/" + text == page)
        heads = " ".join(plain(h) for h in re.findall(r"<h[23].*?>(.*?)</h[23]>", body, re.S))
        self.index.append({"u": where, "t": title, "n": words, "h": heads, "x": plain(body)})

    def make(self):
        """All of it."""
        self.read_manual()
        for name, text in self.manual.items():
            if name == text:
                self.manual_page(name)
        self.manual_index()
        self.errors_page()
        self.samples_page()
        while self.wanted:
            path = self.wanted.pop()
            if path not in self.bodies:
                self.markdown_page(path)
        shutil.rmtree(self.target, ignore_errors=True)
        for page in sorted(self.bodies):
            self.write(page)
        for path in sorted(self.files):
            (self.target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.source / path, self.target / path)
        for name in ("style.css", "search.js"):
            shutil.copyfile(self.source / "doc/html" / name, self.target / name)
        (self.target / "search-index.js").write_text("searchIndex(" + json.dumps(self.index) + ");\n", encoding="utf-8")
        print(f"{self.target}/index.html: {len(self.bodies)} pages")


Site(*sys.argv[1:4]).make()

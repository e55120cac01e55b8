#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""browser.py CHROMIUM SITE PICTURES: every page of the site in a real browser, as wide as a phone's and as wide as a desk's:
no error in its console, nothing that could not be fetched, nothing wider than the window; the search finds; and pictures of
some pages, for whoever looks."""
import base64
import itertools
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WIDTHS = {"phone": (390, 844), "desk": (1280, 900)}
PICTURES = ("index.html", "doc/guide/index.html", "doc/guide/first-server.html", "doc/performance.html", "manual.html",
            "manual/exs_send.3.html", "errors.html", "check/conformance/TESTS.html", "samples/threads.c.html")
SEARCHES = {"EXS_MULTISHOT": "exs_accept", "backpressure": "Backpressure", "exs_blocking_send": "exs_send",
            "memlock rxe": "Real hardware"}
PATIENCE_S = 60


class Browser:
    """A headless chromium, spoken to over two pipes in JSON with a zero behind each message."""

    def __init__(self, program, profile):
        self.ours_in, theirs_out = os.pipe()
        theirs_in, self.ours_out = os.pipe()

        def pipes():  # descriptors 3 and 4 are what chromium takes
            reading, writing = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        # pylint: disable=subprocess-popen-preexec-fn # there is one thread
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.numbers, self.rest, self.events, self.session = itertools.count(1), b"", [], None

    def message(self):
        """The next one."""
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self.rest:
            if not select.select([self.ours_in], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser says nothing")
            piece = os.read(self.ours_in, 1 << 20)
            if not piece:
                raise EOFError("the browser has ended")
            self.rest += piece
        first, self.rest = self.rest.split(b"\0", 1)
        return json.loads(first)

    def call(self, method, **params):
        """What it answers; events that come before are kept."""
        number = next(self.numbers)
        ask = {"id": number, "method": method, "params": params}
        if self.session:
            ask["sessionId"] = self.session
        os.write(self.ours_out, json.dumps(ask).encode() + b"\0")
        while True:
            said = self.message()
            if said.get("id") == number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']}")
                return said["result"]
            self.events.append(said)

    def until(self, method):
        """Wait for an event."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.message())

    def value(self, expression):
        """What JavaScript makes of it, awaited."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def open(self):
        """One window."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def complaints(self):
        """Of the page that is open, since it was opened."""
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                yield params["exceptionDetails"]["text"] + " " + str(params["exceptionDetails"].get("url"))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                yield params["entry"]["text"] + " " + str(params["entry"].get("url"))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                yield "console: " + json.dumps(params["args"])
            elif method == "Network.loadingFailed":
                yield "not fetched: " + params["errorText"]

    def go(self, address):
        """Open a page."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.until("Page.loadEventFired")
        self.value("document.fonts.ready.then(() => true)")


def look(browser, site, pictures):
    """Every page at every width: what is wrong."""
    for name, (width, height) in WIDTHS.items():
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                     mobile=name == "phone")
        for page in sorted(site.rglob("*.html")):
            where = page.relative_to(site).as_posix()
            browser.go(page.as_uri())
            for complaint in browser.complaints():
                yield f"{where}, {name}: {complaint}"
            wide = browser.value("document.documentElement.scrollWidth")
            if wide > width:
                yield f"{where}, {name}: {wide} wide, and the window {width}"
            if browser.value("[...document.images].some((image) => image.naturalWidth === 0)"):
                yield f"{where}, {name}: a picture does not show"
            if where in PICTURES:
                shot = browser.call("Page.captureScreenshot", format="png")["data"]
                (pictures / f"{where.replace('/', '_')}.{name}.png").write_bytes(base64.b64decode(shot))


def search(browser, site):
    """As somebody types: the page is among the first three, and Enter goes to the first."""
    for words, wanted in SEARCHES.items():
        browser.go((site / "doc/guide/index.html").as_uri())
        found = browser.value("""new Promise((done) => {
            const input = document.getElementById("search"), list = document.getElementById("found");
            new MutationObserver(() => { if (list.children.length) done([...list.querySelectorAll("a")].map((a) => a.textContent)) })
                .observe(list, { childList: true });
            input.focus();
            input.value = %s;
            input.dispatchEvent(new Event("input"));
        })""" % json.dumps(words))
        if not any(wanted in title for title in found[:3]):
            yield f"search for {words}: {found[:5]}, not {wanted}"
            continue
        browser.events.clear()
        browser.value('document.getElementById("search").form.requestSubmit()')
        browser.until("Page.loadEventFired")
        title = browser.value("document.title")
        if not title.startswith(found[0]):
            yield f"search for {words}: Enter went to {title}"


def main():
    """How many mistakes there are; each is told of."""
    program, site, pictures = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3])
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            browser.open()
            bad = [*look(browser, site, pictures), *search(browser, site)]
            browser.session = None
            browser.call("Browser.close")
        finally:
            try:
                browser.process.wait(20)
            except subprocess.TimeoutExpired:
                browser.process.kill()
                browser.process.wait()
    bad += [f"{page} is not in the site: correct PICTURES in {sys.argv[0]}" for page in PICTURES if not (site / page).exists()]
    print("\n".join(bad), file=sys.stderr)
    print(f"{len(list(site.rglob('*.html')))} pages, {len(WIDTHS)} widths, {len(bad)} mistakes; pictures are in {pictures}")
    return 1 if bad else 0


sys.exit(main())

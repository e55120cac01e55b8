// SPDX-License-Identifier: BSD-2-Clause
// The search: all words have to be on a page; those in its name and its headings count most. The index is fetched at
// the first search, as a script, because a page that was opened from a file may fetch nothing else.
"use strict";
(() => {
    const root = document.currentScript.dataset.root;
    const input = document.getElementById("search"), list = document.getElementById("found");
    let index = null;

    // Where there is room the menu is open.
    const wide = window.matchMedia("(min-width: 62rem)"), menu = document.querySelector(".menu");
    const fit = () => { menu.open = wide.matches; };
    wide.addEventListener("change", fit);
    fit();

    window.searchIndex = (pages) => {
        index = pages.map((page) => ({ ...page, low: [page.n, page.h, page.x].map((text) => text.toLowerCase()) }));
        show();
    };

    function load() {
        if (index !== null || document.getElementById("search-index"))
            return;
        const script = document.createElement("script");
        script.id = "search-index";
        script.src = root + "search-index.js";
        document.head.append(script);
    }

    function score(page, words) {
        let all = /^(manual|doc\/guide)\//.test(page.u) ? 4 : 0;
        for (const word of words) {
            const [name, heads, text] = page.low;
            if (!text.includes(word) && !name.includes(word))
                return 0;
            all += name.split(/[\s(]/).includes(word) ? 100 : name.includes(word) ? 30 : heads.includes(word) ? 10 : 1;
        }
        return all;
    }

    function around(page, word) {
        const at = Math.max(0, page.low[2].indexOf(word) - 50);
        return (at > 0 ? "... " : "") + page.x.slice(at, at + 140) + " ...";
    }

    function show() {
        const words = input.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
        const found = words.length === 0 || index === null ? [] :
            index.map((page) => [score(page, words), page]).filter(([points]) => points > 0)
                .sort((a, b) => b[0] - a[0]).slice(0, 12);
        list.replaceChildren(...found.map(([, page]) => {
            const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("small");
            link.href = root + page.u;
            link.textContent = page.t;
            text.textContent = around(page, words[0]);
            item.append(link, text);
            return item;
        }));
        if (words.length > 0 && index !== null && found.length === 0)
            list.append(Object.assign(document.createElement("li"), { textContent: "Nothing found." }));
        list.hidden = words.length === 0;
    }

    input.addEventListener("focus", load);
    input.addEventListener("input", () => { load(); show(); });
    input.form.addEventListener("submit", (event) => {
        event.preventDefault();
        list.querySelector("a")?.click();
    });
    document.addEventListener("keydown", (event) => {
        if (event.key === "Escape")
            list.hidden = true;
        else if (event.key === "/" && document.activeElement !== input) {
            event.preventDefault();
            input.focus();
        }
    });
})();

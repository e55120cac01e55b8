#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What check/coverage/measure has counted: a line for each file, the total, and what no test reaches, by its reason.

usage: tell.py COUNTS.json TREE LEAST UNNAMED REASONS UNREACHED

COUNTS is gcovr's. Exit status 1 where less than LEAST percent of the branches are reached, where more than UNNAMED others
are in no function that REASONS names, or where that names what is not there. UNREACHED is written: every place, and why.
"""
import collections
import json
import os
import re
import sys

SHOWN = 100  # places without a reason


def read_reasons(path):
    """The reasons in their order: name, what it says, patterns of lines, and {file: functions}."""
    reasons = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if not words or line.startswith("#"):
                continue
            if not line[0].isspace():
                name, says = line.split(":", 1)
                reasons.append((name, says.strip(), [], {}))
            elif words[0] == "/":
                reasons[-1][2].append(re.compile(line.strip()[1:].strip()))
            else:
                reasons[-1][3].setdefault(words[0], set()).update(words[1:])
    return reasons


def function_of(functions, line):
    """The one that begins last before it: gcc may put a name before its first line, not behind."""
    name = "?"
    for first, each in functions:
        if first <= line:
            name = each
    return name


def reason_of(reasons, file, function, text):
    for name, _, patterns, places in reasons:
        if any(pattern.search(text) for pattern in patterns) or function in places.get(file, ()):
            return name
    return None


def percent(reached, of):
    return f"{100 * reached / of:6.1f} %" if of else f"{'':6}  "


def row(name, lines, branches):
    print(f"{name:40} {lines[1]:6} {percent(*lines)} {branches[1]:7} {percent(*branches)}")


def main():
    counts, tree, least, unnamed_most, reasons_path, unreached_path = sys.argv[1:]
    reasons = read_reasons(reasons_path)
    with open(counts, encoding="utf-8") as text:
        files = sorted(json.load(text)["files"], key=lambda each: each["file"])
    total_lines, total_branches, bad = [0, 0], [0, 0], False
    by_reason, unnamed, known = collections.Counter(), [], {}

    print(f"\n{'file':40} {'lines':>6} {'reached':>8} {'branches':>7} {'reached':>8}")
    with open(unreached_path, "w", encoding="utf-8") as unreached:
        for each in files:
            file, lines, branches = each["file"], [0, 0], [0, 0]
            with open(os.path.join(tree, file), encoding="utf-8") as text:
                source = text.read().split("\n")
            functions = sorted((one["lineno"], one["name"]) for one in each["functions"])
            known[file] = {name for _, name in functions}
            for line in each["lines"]:
                if line["gcovr/noncode"]:
                    continue
                missed = sum(not branch["count"] for branch in line["branches"])
                lines[1] += 1
                lines[0] += line["count"] > 0
                branches[1] += len(line["branches"])
                branches[0] += len(line["branches"]) - missed
                if not missed and line["count"]:
                    continue
                number = line["line_number"]
                function, text = function_of(functions, number), source[number - 1].strip()
                why = reason_of(reasons, file, function, text)
                by_reason[why] += missed
                place = f"{file}:{number}: {function}: {text}"
                if why is None and missed:
                    unnamed.append((place, missed))
                what = f"{missed} of {len(line['branches'])} branches" if line["count"] else "never"
                print(f"{why or '-'}: {what}: {place}", file=unreached)
            row(file, lines, branches)
            for at, much in enumerate(lines):
                total_lines[at] += much
                total_branches[at] += branches[at]
    row("all", total_lines, total_branches)

    print(f"\nnot reached, of {total_branches[1]} branches")
    for name, says, _, places in reasons:
        print(f"{by_reason[name]:6}  {name}: {says}")
        for file, functions in places.items():
            for function in sorted(functions - known.get(file, set())):
                print(f"{reasons_path}: there is no {function} in {file}", file=sys.stderr)
                bad = True
    print(f"{by_reason[None]:6}  without a reason; all places: {unreached_path}")
    for place, missed in unnamed[:SHOWN]:
        print(f"        {missed} at {place}")
    if by_reason[None] > int(unnamed_most):
        print(f"more than {unnamed_most} branches are not reached and have no reason: test them, or name it in {reasons_path}",
              file=sys.stderr)
        bad = True
    if 100 * total_branches[0] < int(least) * total_branches[1]:
        print(f"less than {least} % of the branches are reached", file=sys.stderr)
        bad = True
    sys.exit(bad)


main()

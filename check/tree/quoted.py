# SPDX-License-Identifier: BSD-2-Clause
"""Each text that the scripts of check/guest, check/network and check/soak expect a program of this tree to print is in a
source of the tree, so that a message that was reworded fails here and not only in a guest.

A text is a pattern of `await` or `finish` (check/guest/talks), of a grep or sed that reads what a program has printed, or of
wait_for_text(). Its words must be, in order and without a gap, those of one string of a C file, where a conversion such as
%s stands for up to two of them. Two thirds of the words must be in the string itself, and the others in any string.
Variables, numbers, errno's names and devices' names match everything. What third-party programs print is not
looked for.

quoted.py --list prints every text with the string that was found.
"""
import errno
import glob
import os
import re
import sys

SCRIPTS = ["check/guest/*", "check/network/*", "check/soak/run"]
SOURCES = ["include", "core", "soft", "loop", "tools", "samples", "check"]
VARIABLE = "\0"
GAP = "\1"
NAMES = set(errno.errorcode.values()) | {"rdma", "soft"}
os.chdir(os.environ.get("EXS_SRCDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


# ---- Shell: commands and their words ----------------------------------------------------------------------------

SHELL = re.compile(
    r"(?P<comment>(?:(?<=\s)|^)#[^\n]*)|(?P<single>'[^']*')|(?P<double>\"(?:\\.|\$\((?:[^()]|\([^()]*\))*\)|[^\"\\])*\")|"
    r"(?P<variable>\$\{[^}]*\}|\$[A-Za-z_]\w*|\$[0-9@*#?!$-])|(?P<escaped>\\.)|(?P<space>[ \t]+|\\\n)|"
    r"(?P<end>[;&\n]+|\|+|[(){}](?=\s|$)|\$?\()|"
    r"(?P<other>.)", re.S)


def expand_double(text):
    """Without the quotes; what the shell inserts becomes VARIABLE."""
    return re.sub(r"\\([$\"\\`])|\$\{[^}]*\}|\$\([^)]*\)+|\$[A-Za-z_]\w*|\$[0-9@*#?!]",
                  lambda match: match.group(1) or VARIABLE, text[1:-1])


def read_commands(text):
    """Yields (line, separator before it, words as written, words as the command gets them)."""
    raw, cooked, separator, line, begun, inside = [], [], "\n", 1, 1, False
    for match in SHELL.finditer(text):
        kind, part = match.lastgroup, match.group()
        if kind == "end":
            if raw:
                yield begun, separator, raw, cooked
            raw, cooked, separator, inside = [], [], part.strip(" \t"), False
        elif kind in ("space", "comment"):
            inside = False
        else:
            value = {"single": lambda: part[1:-1], "double": lambda: expand_double(part), "variable": lambda: VARIABLE,
                     "escaped": lambda: part[1:]}.get(kind, lambda: part)()
            if not inside:
                begun = begun if raw else line
                raw.append("")
                cooked.append("")
            inside = True
            raw[-1] += part
            cooked[-1] += value
        line += part.count("\n")
    if raw:
        yield begun, separator, raw, cooked


KEYWORDS = {"if", "then", "else", "elif", "while", "until", "do", "!", "{", "(", "exec"}


def is_output(raw):
    return any(re.search(r"\$said\b|\$\{said|\$log\b|\.log\b", word) for word in raw)


def grep_pattern(words):
    """The pattern of grep's or sed's words, and whether it is an extended one."""
    extended = any(re.match(r"-[a-zA-Z]*[Er]", word) for word in words)
    rest = [word for word in words[1:] if not word.startswith("-")]
    if any(word == "-m" for word in words) and rest:
        rest.pop(0)
    if not rest:
        return None
    if words[0] == "sed":
        match = re.match(r"s/((?:\\.|[^/\\])*)/", rest[0])
        return match and (match.group(1), extended)
    return rest[0], extended


def script_patterns(path):
    """Yields (line, pattern, whether it is an extended one)."""
    foreign = {}
    output = False
    for line, separator, raw, words in read_commands(read(path)):
        while words and (words[0] in KEYWORDS or re.match(r"[a-z_]\w*=", words[0])):
            raw, words = raw[1:], words[1:]
        if not words:
            continue
        call = re.sub("_lasting$", "", words[0])
        if call == "begin" and len(words) > 2:
            foreign[words[1]] = re.fullmatch(r"[a-z][\w-]*", words[2]) and words[2] not in ("env", "bash")
        elif call in ("await", "finish") and len(words) > 2 and not foreign.get(words[1]):
            for pattern in words[2:]:
                yield line, pattern, True
        elif call in ("grep", "sed"):
            output = is_output(raw[2:]) or (separator == "|" and output)
            found = output and grep_pattern(words)
            if found:
                yield (line, *found)


def python_patterns(path):
    for number, line in enumerate(read(path).splitlines(), 1):
        for text in re.findall(r"wait_for_text\([^,]*, \"([^\"]*)\"", line):
            yield number, re.escape(text), True


# ---- Patterns: the texts that one matches ------------------------------------------------------------------------

def expand_pattern(pattern, extended):
    """The texts of a regular expression whose alternatives are in parentheses, with VARIABLE for a class and GAP for .*"""
    texts, open_groups, at = [""], [], 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        added = char
        if char == "\\" and at < len(pattern):
            added = pattern[at]
            at += 1
        elif char == "[":
            end = pattern.index("]", at + 1 if pattern[at] != "^" else at + 2)
            at, added = end + 1, VARIABLE
        elif char == ".":
            added = VARIABLE
        elif char in "^$":
            continue
        elif extended and char == "(":
            open_groups.append((texts, []))
            texts = [""]
            continue
        elif extended and char == "|":
            open_groups[-1][1].extend(texts)
            texts = [""]
            continue
        elif extended and char == ")" and open_groups:
            before, others = open_groups.pop()
            texts = [first + second for first in before for second in others + texts]
            continue
        if at < len(pattern) and (pattern[at] == "*" or (extended and pattern[at] in "+?")):
            at += 1
            added = GAP if char == "." else VARIABLE
        texts = [text + added for text in texts]
    return texts


def expand(pattern, extended):
    """As expand_pattern(), of a pattern whose alternatives may also be outside of parentheses."""
    if not extended:
        return expand_pattern(pattern, False)
    depth, parts = 0, [""]
    for token in re.findall(r"\\.|\[\^?\]?[^]]*\]|.", pattern, re.S):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if token == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return [text for part in parts for text in expand_pattern(part, True)]


# ---- Words of both -----------------------------------------------------------------------------------------------

TOKEN = re.compile(r"%[-+ #0]*[0-9.*]*(?:hh|h|ll|l|z|j|t)?[a-zA-Z]|\0|\d[\w.:]*|[A-Za-z_][\w'-]*|\S")


def is_plain(token):
    """A word that is the programmer's: no variable, number, errno, event or device."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z_'-]+", token) and token not in NAMES and not token.startswith("RDMA_CM_EVENT_")


def tokens_of(text):
    return TOKEN.findall(text)


def pattern_tokens(text):
    """Without what is no word at both ends. A variable that is a part of a word makes a variable of the word, and an address
    with its port is one."""
    text = re.sub(r"[\w']*\0[\w']*", VARIABLE, text)
    tokens = tokens_of(re.sub(r"(?:\0|\d)[\0\w.:]* port (?:\0|\d+)", VARIABLE, text))
    while tokens and not is_plain(tokens[0]):
        tokens.pop(0)
    while tokens and not is_plain(tokens[-1]):
        tokens.pop()
    return tokens


C_TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|'(?:\\.|[^'\\])'|\"((?:\\.|[^\"\\])*)\"|\bPRI[a-zA-Z0-9]+\b|[^\s]", re.S)


def source_strings():
    """Each string of the C files, adjacent ones joined. A test's own strings are expectations, too."""
    for directory in SOURCES:
        for path in sorted(glob.glob(directory + "/**/*.[ch]", recursive=True)):
            text = read(path) if not re.search("/test_[^/]*$", path) else ""
            string = None
            for match in C_TOKEN.finditer(text):
                part = match.group()
                if part.startswith(("/*", "//")):
                    continue
                if match.group(1) is not None:
                    string = (string or "") + re.sub(r"\\n|\\t", " ", match.group(1)).replace('\\"', '"')
                elif part.startswith("PRI") and string is not None:
                    string += "u"
                elif string is not None:
                    yield string
                    string = None
            if string is not None:
                yield string


def align(wanted, had, at, found, spoken):
    """How many of the wanted words are in `had` itself, from at on; -1 if they are not there."""
    if not wanted:
        return found
    if at == len(had):
        return -1
    first, token = wanted[0], had[at]
    best = -1
    if first == token:
        best = align(wanted[1:], had, at + 1, found + bool(is_plain(first)), spoken)
    if token.startswith("%") and len(token) > 1:
        words = 0
        for count in range(0, min(len(wanted), 4) + 1):
            if count and is_plain(wanted[count - 1]):
                words += 1
                if words > 2 or wanted[count - 1] not in spoken:
                    break
            best = max(best, align(wanted[count:], had, at + 1, found, spoken))
    elif not is_plain(first) and (first == VARIABLE or first[0].isdigit()):
        best = max(best, align(wanted[1:], had, at + 1, found, spoken))
    return best


def find_whole(tokens, strings, spoken):
    """The string that has these words, or None."""
    plain = [token for token in tokens if is_plain(token)]
    least = (2 * len(plain) + 1) // 3
    for string, had in strings:
        if sum(token in had for token in plain) < least:
            continue
        if len(plain) == 1 or any(align(tokens, had, at, 0, spoken) >= least for at in range(len(had))):
            return string
    return None


def find(tokens, strings, spoken):
    """As find_whole(), or else two strings, of which the second follows a colon."""
    whole = find_whole(tokens, strings, spoken)
    for at, token in enumerate(tokens):
        if whole is None and token == ":":
            parts = [find_whole(part, strings, spoken) for part in (tokens[:at], tokens[at + 1:])]
            whole = " ... ".join(parts) if None not in parts else None
    return whole


def main():
    strings = [(string, tokens_of(string)) for string in source_strings()]
    spoken = {token for _, had in strings for token in had}
    bad = checked = 0
    for path in sorted(path for pattern in SCRIPTS for path in glob.glob(pattern)):
        text = read(path) if os.path.isfile(path) and not re.search(r"\.(c|h|am|md)$", path) else ""
        is_python = path.endswith(".py") or text.startswith("#!/usr/bin/env python3")
        for line, pattern, extended in (python_patterns if is_python else script_patterns)(path) if text else ():
            for part in (part for text in expand(pattern, extended) for part in text.split(GAP)):
                tokens = pattern_tokens(part)
                if not tokens:
                    continue
                checked += 1
                string = find(tokens, strings, spoken)
                if "--list" in sys.argv:
                    print(f"{path}:{line}: {' '.join(tokens)!r}: {string!r}")
                if string is None:
                    shown = part.replace(VARIABLE, "...")
                    print(f"{path}:{line}: no program of the tree prints \"{shown}\": write what the source says now",
                          file=sys.stderr)
                    bad += 1
    if checked < 50:
        print(f"only {checked} texts are found in {', '.join(SCRIPTS)}", file=sys.stderr)
        bad += 1
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())

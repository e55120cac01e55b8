# SPDX-License-Identifier: BSD-2-Clause
"""The mutants of a C file: one small change each, inside of functions. The file is read as text that clang-format has
laid out: a binary operator has a space on both sides, and a function's body ends with a brace at the start of a line."""
import re

# What is changed wherever it stands. ' & ' and ' - ' are binary operators, since unary ones have no space behind them.
OPERATORS = {
    " == ": [" != "], " != ": [" == "], " < ": [" <= "], " <= ": [" < "], " > ": [" >= "], " >= ": [" > "],
    " && ": [" || "], " || ": [" && "], " + ": [" - "], " - ": [" + "], " * ": [" / "], " / ": [" * "], " % ": [" / "],
    " & ": [" | "], " | ": [" & "], " << ": [" >> "], " >> ": [" << "], " |= ": [" &= "], " &= ": [" |= "],
    " += ": [" -= "], " -= ": [" += "], "true": ["false"], "false": ["true"],
}
ERRNOS = {"EINVAL": "EPERM", "EAGAIN": "EPERM"}
OPERATOR = re.compile("|".join(re.escape(each) if each[0] == " " else rf"\b{each}\b" for each in
                               sorted(OPERATORS, key=len, reverse=True)))
CONSTANT = re.compile(r"(?<![\w.{])(?<![!=]= )(?:(?:0|[1-9]\d{0,8})(?![\w.])|E[A-Z]{3,}\b)")
ALWAYS = ["0 && ", "1 || "]  # before a condition in parentheses
CONDITION = re.compile(r"\b(?:if|while) \(")
ORDER = re.compile(r"memory_order_(?:seq_cst|acq_rel|acquire|release)")
STATEMENT = re.compile(r"(?<=[;{})])\s+(?=(?:\(void\))?[*+-]*\(?[a-z_][\w.\[\]>-]*(?: [-+*/%&|^]?=|<<=|>>=|\()|[a-z_][\w.\[\]>-]*(?:\+\+|--);)")
NO_STATEMENT = re.compile(r"(?:if|while|for|switch|return|sizeof|do|else|goto|case|static_assert)\b")
# What a statement does that no test looks at: it tells the user's log or a debugger.
UNSEEN = re.compile(r"^\s*(?:\(void\)\w+;|(?:xs_log|log_\w+|xs_trace_\w+|xs_explain|\w*_explain\w*|report_\w+|UNPOISON|POISON)\()")
FUNCTION = re.compile(r"^(?=[a-z_])[^;{}]*?\b(?!__attribute__)(\w+)\((?:[^;{}()]|\([^;{}()]*\))*\)\n\{\n(.*?)^\}", re.M | re.S)


def blanked(text):
    """The text with spaces in place of comments, strings, characters and preprocessor lines, so that offsets remain."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^#(?:\\\n|[^\n])*'
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found.group()), text, flags=re.M | re.S)


def closing(text, opening):
    """The offset of the parenthesis that closes the one at an offset."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def statement_end(text, start):
    """The offset behind the semicolon that ends the statement, or None where a brace comes first."""
    found = re.compile(r"[;{}]").search(text, start)
    return found.end() if found and found.group() == ";" else None


def changes(text, start, end, orders):
    """(start, end, replacement) of each change in a function's body, whose text is blanked."""
    skipped = []
    for found in STATEMENT.finditer(text, start, end):
        begin, last = found.end(), statement_end(text, found.end())
        if last is None or NO_STATEMENT.match(text, begin):
            continue
        if UNSEEN.match(text[begin:last]):
            skipped.append((begin, last))
        else:
            yield begin, last, ";"
    for found in CONDITION.finditer(text, start, end):
        opening = found.end() - 1
        close = closing(text, opening)
        for each in ALWAYS[:2 if found.group() == "if (" else 1]:
            yield opening + 1, close, each
        # A plain comparison that is never or always true is changed enough.
        if re.search(r" [!=]= ", text[opening:close]) and not re.search(r"&&|\|\|", text[opening:close]):
            skipped.append((opening, close))
    for pattern, others in ((OPERATOR, lambda word: OPERATORS[word]), (CONSTANT, other_constants),
                            (ORDER, lambda word: ["memory_order_relaxed"] if orders else [])):
        for found in pattern.finditer(text, start, end):
            if any(begin <= found.start() < last for begin, last in skipped):
                continue
            for other in others(found.group()):
                yield found.start(), found.end(), other


def other_constants(word):
    if word[0] == "E":
        return [ERRNOS.get(word, "EINVAL")]
    return [str(int(word) + 1)]


def mutants(path, text, orders):
    """(name, text) of each mutant of a file; the name has the file, the function and what became of the code."""
    blank = blanked(text)
    for function in FUNCTION.finditer(blank):
        for start, end, other in sorted(changes(blank, function.start(2), function.end(2), orders)):
            if other in ALWAYS:
                other += f"({text[start:end]})"
            first = text.rfind("\n", 0, start) + 1
            last = text.find("\n", end)
            old = " ".join(text[first:last].split())
            new = " ".join((text[first:start] + other + text[end:last]).split())
            yield f"{path} {function.group(1)}: {old} ==> {new}", text[:start] + other + text[end:]

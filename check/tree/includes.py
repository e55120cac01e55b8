# SPDX-License-Identifier: BSD-2-Clause
"""Each source file of the library, the tools and the samples uses each header that it includes: it has an identifier that the
header declares itself. A header that offers another to its users says so in a comment on the line, /* export */; what is
included because a system's header needs it says /* for HEADER */. Without arguments all files are read, else those that are
named."""
import functools
import glob
import os
import re
import subprocess
import sys

os.chdir(os.environ.get("EXS_SRCDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]([^\n]*)', re.M)
WORD = re.compile(r"[A-Za-z_]\w*")
KEYWORDS = set("""auto break case char const continue default define defined do double elif else endif enum error extern float for goto if
    ifdef ifndef include inline int long once pragma register restrict return short signed sizeof static struct switch typedef undef
    union unsigned void volatile while _Atomic _Alignas _Bool _Noreturn _Static_assert _Thread_local""".split())
COMPILER = os.environ.get("CC", "cc").split()
flags = subprocess.run(["pkg-config", "--cflags", "libibverbs", "glib-2.0", "libevent", "libuv", "liburing"], check=False,
                       capture_output=True, text=True).stdout.split()


@functools.lru_cache(None)
def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@functools.lru_cache(None)
def code(path):
    """Without comments, strings and the lines that include."""
    text = re.sub(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", " ", INCLUDE.sub("", read(path)), flags=re.S)
    return text.replace("\\\n", " ")


@functools.lru_cache(None)
def words(path):
    return set(WORD.findall(code(path))) - KEYWORDS


def outside_braces(text):
    """A header's declarations without the bodies of functions and the parameters, whose names declare nothing."""
    out, depth, body = [], 0, []
    previous = ""
    for token in re.findall(r"[(){}]|[^(){}]+", text):
        if token == "{":
            body.append(previous == ")" or (bool(body) and body[-1]))
        if not (body and body[-1]) and (depth == 0 or token in "()"):
            out.append(token)
        if token == "}" and body:
            body.pop()
        depth += (token == "(") - (token == ")")
        previous = token.strip() or previous
    return "".join(out)


@functools.lru_cache(None)
def declared(path):
    """What a header of the tree declares itself."""
    text = code(path)
    names = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.M))
    text = outside_braces(re.sub(r"^[ \t]*#.*", "", text, flags=re.M))
    names |= set(re.findall(r"\b(\w+)\s*(?=[({\[;,=:}])", text)) # functions, tags, members, constants, variables
    names |= set(re.findall(r"\(\s*\*\s*(\w+)\s*\)", code(path))) # pointers to functions
    names -= set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*;", text)) # declared, not defined
    for kind, name, rest in INCLUDE.findall(read(path)):
        other = find_header(path, name) if "/* export" in rest else None
        names |= declared(other) if other else set()
    return names - KEYWORDS


@functools.lru_cache(None)
def preprocess(text):
    """The identifiers that these lines declare or define, without the values of macros; None: a header is not installed."""
    result = subprocess.run([*COMPILER, "-std=c11", "-D_GNU_SOURCE", *flags, "-E", "-dD", "-P", "-x", "c", "-"], check=False,
                            input=text + "\n", capture_output=True, text=True)
    text = re.sub(r"^#define (\w+(?:\([^)]*\))?).*", r"\1", result.stdout, flags=re.M)
    return None if result.returncode != 0 else set(WORD.findall(text)) - KEYWORDS


# Most other headers declare these, too; a file that needs no more of a header includes one of these.
COMMON_HEADERS = ("stddef.h", "stdint.h", "stdbool.h")
COMMON_TYPES = set("ssize_t off_t pid_t mode_t uid_t gid_t".split())


@functools.lru_cache(None)
def of_system(header):
    """What a header of a library declares, by itself or through others; None: it is not installed."""
    names = preprocess(f"#include <{header}>")
    if names is None or header == "sys/types.h":
        return names
    if header in COMMON_HEADERS:
        return names - preprocess("#include <features.h>")
    return names - preprocess("\n".join(f"#include <{name}>" for name in COMMON_HEADERS)) - COMMON_TYPES


def find_header(path, name):
    """The header of the tree that is included; None: it is a library's."""
    for candidate in (os.path.join(os.path.dirname(path), name), name, os.path.join("include", name)):
        if os.path.exists(candidate):
            return os.path.normpath(candidate)
    return None


def check(path):
    bad = 0
    for match in INCLUDE.finditer(read(path)):
        kind, name, rest = match.groups()
        own = find_header(path, name)
        names = declared(own) if own else of_system(name) if kind == "<" else None
        if names is None or re.search(r"/\* (export|for) ?", rest) or words(path) & names:
            continue
        line = read(path).count("\n", 0, match.start()) + 1
        print(f"{path}:{line}: {kind}{name}{'>' if kind == '<' else kind} is included and not used: remove the line", file=sys.stderr)
        bad = 1
    return bad


files = sys.argv[1:] or sorted(path for folder in ("include", "core", "soft", "loop", "tools", "samples")
                               for path in glob.glob(f"{folder}/**/*.[ch]", recursive=True))
sys.exit(1 if sum(check(path) for path in files) else 0)

# SPDX-License-Identifier: BSD-2-Clause
"""The workflows in .github/workflows/ are sound: they parse, and each job installs, builds and then calls one target of make,
which exists and is documented. check/README.md and doc/building.md name every target of make that tests, compares or
fuzzes. .ci/run calls each target of ci.yml too, or make check. The hooks of .pre-commit-config.yaml parse."""
import glob
import os
import re
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("python3-yaml not found: install it", file=sys.stderr)
    sys.exit(77)

REQUIRED = {"gcc", "clang", "sanitizers", "threads", "distcheck", "documents", "packages", "guest"}
# What a developer of a test calls, not its user: the README of its directory has it.
INNER = {"harnesses", "torture-parts", "clean-html", "fuzz-corpus"}
source = os.environ.get("EXS_SRCDIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
os.chdir(source)
bad = []


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def parse(path):
    try:
        return yaml.safe_load(read(path))
    except (OSError, yaml.YAMLError) as error:
        bad.append(f"{path}: {error}")
        return None


fragments = [path for path in glob.glob("**/*.am", recursive=True) if not re.match("build|.*-build", path)]
phony = {name for path in fragments for line in re.findall(r"^\.PHONY:(.*)", read(path), re.M) for name in line.split()}
made_by_automake = {"check", "distcheck", "dist", "html"}
pages = read("check/README.md") + read("doc/building.md")
for target in sorted(phony - INNER):
    if not re.search(rf"`make {re.escape(target)}\b(?!-)", pages):
        bad.append(f"neither check/README.md nor doc/building.md says what `make {target}` is for")


def check_target(where, command, documented=True):
    words = re.fullmatch(r"make -C build ((?:check|[a-z-]+)(?: [A-Z_]+=\S+)*)", command)
    target = words[1].split()[0] if words else None
    if not words:
        bad.append(f"{where}: its last step is '{command}', not make -C build TARGET")
    elif target not in phony | made_by_automake:
        bad.append(f"{where}: there is no target {target}")
    elif documented and not re.search(rf"`make {re.escape(target)}\b(?!-)", pages):
        bad.append(f"{where}: {target} is not documented in check/README.md or doc/building.md")
    return target


def check_workflow(path):
    workflow = parse(path) or {}
    targets = set()
    for name, job in (workflow.get("jobs") or {}).items():
        where = f"{path}: {name}"
        if not isinstance(job.get("timeout-minutes"), int):
            bad.append(f"{where}: timeout-minutes is missing")
        commands = [step["run"] for step in job.get("steps", []) if "run" in step]
        if not commands or any(re.search(r"\bmake\b", command) for command in commands[:-1]):
            bad.append(f"{where}: its last step, and only that, must call make")
            continue
        if "matrix.target" in commands[-1]:
            for target in job["strategy"]["matrix"]["target"]:
                targets.add(check_target(where, re.sub(r"\$\{\{ *matrix\.target *\}\}", target, commands[-1])))
        else:
            targets.add(check_target(where, commands[-1]))
    return set(workflow.get("jobs") or {}), targets


jobs, targets = check_workflow(".github/workflows/ci.yml")
if REQUIRED - jobs:
    bad.append(f".github/workflows/ci.yml has no job {', '.join(sorted(REQUIRED - jobs))}")
check_workflow(".github/workflows/nightly.yml")
# Of the documents .ci/run has the tests in make check, and the site alone.
for target in sorted(targets - {"check", "check-documents", None}):
    if not re.search(rf'\b{re.escape(target)}(?![\w-])', read(".ci/run")):
        bad.append(f".ci/run does not call {target}, as .github/workflows/ci.yml does")

hooks = parse(".pre-commit-config.yaml") or {}
entries = {hook["entry"].split()[0] for repo in hooks.get("repos", []) for hook in repo["hooks"] if repo["repo"] == "local"}
if entries != {"clang-format", "shellcheck"}:
    bad.append(f".pre-commit-config.yaml has hooks for {sorted(entries)}, not for clang-format and shellcheck")

for line in bad:
    print(line, file=sys.stderr)
sys.exit(1 if bad else 0)

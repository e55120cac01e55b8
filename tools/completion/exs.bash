# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# Completion of EXS's programs in bash: options are those that the program itself names by --help,
# so that none is ever missing here; the rest are files, or for exs-soft-run programs and what is theirs.
_exs() {
    local current=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]}
    COMPREPLY=()
    if [ "${program##*/}" = exs-soft-run ] && [[ $current != -* || $COMP_CWORD -gt 1 ]]; then
        if [ "$COMP_CWORD" -eq 1 ]; then
            mapfile -t COMPREPLY < <(compgen -c -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
    elif [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "--help --version
            $("$program" --help 2>/dev/null | grep -oE '(^|[ ,[|])--?[A-Za-z][A-Za-z-]*' | tr -d ' ,[|' | sort -u)" -- "$current" | sort -u)
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}
complete -o filenames -F _exs exs-serve exs-put exs-get exs-info exs-soft-run exstest

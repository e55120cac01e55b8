# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# Completion of EXS's programs in bash: options are those that the program itself names by --help,
# so that none is ever missing here; the rest are files, of the server for exs-get, or for exs-soft-run programs and what is theirs.
# What an exs-serve has, at the address and the port of the command line: the names in the folder that the word begins with.
_exs_remote() {
    local program=$1 current=$2 i word folder='' size name
    local -a server=(-t 2)
    for ((i = 1; i < ${#COMP_WORDS[@]} - 1; i++)); do
        word=${COMP_WORDS[i]}
        [[ $word = -a || $word = --address || $word = -p || $word = --port ]] && server+=("$word" "${COMP_WORDS[i + 1]}")
    done
    [[ $current != */* ]] || folder=${current%/*}
    while read -r size name; do
        [[ $size = - || $size =~ ^[0-9]+$ ]] || continue
        name=${folder:+$folder/}$name
        [[ $name != "$current"* ]] || COMPREPLY+=("$name")
    done < <(timeout 3 "$program" -q "${server[@]}" -l "$folder/" 2>/dev/null)
}

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
    elif [ "${program##*/}" = exs-get ] && [[ ${COMP_WORDS[COMP_CWORD - 1]} != -[adopst] ]]; then
        _exs_remote "$program" "$current"
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}
complete -o filenames -F _exs exs-serve exs-put exs-get exs-info exs-soft-run exstest

# SPDX-License-Identifier: BSD-2-Clause
# Completion of EXS's programs in fish: options with what they are, as the program itself says by --help, so that none is
# ever missing here; the rest are files, or for exs-soft-run a program and what is that one's.
function __exs_options
    set -l program (commandline -opc)[1]
    printf '%s\t%s\n' --help 'what there is' --version 'which release this is'
    # "  -a, --address ADDR   the server's name or number"
    $program --help 2>/dev/null | string replace -rf '^ +(?:-[A-Za-z], +)?(--[a-z][a-z-]*)(?: \S+)?  +(.*)$' '$1\t$2' |
        string match -rv '^--(help|version)\t'
    $program --help 2>/dev/null | string replace -rf '^ +(-[A-Za-z]), +--[a-z][a-z-]*(?: \S+)?  +(.*)$' '$1\t$2'
end
for program in exs-serve exs-put exs-get exs-info exstest
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -a '(__exs_options)'
end
complete -c exs-soft-run -n 'test (count (commandline -opc)) -eq 1' -n 'string match -q -- "-*" (commandline -ct)' -a '(__exs_options)'
complete -c exs-soft-run -xa '(__fish_complete_subcommand)'

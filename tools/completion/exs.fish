# SPDX-License-Identifier: BSD-2-Clause
# Completion of EXS's programs in fish: options with what they are, as the program itself says by --help, so that none is
# ever missing here; the rest are files, of the server for exs-get, or for exs-soft-run a program and what is that one's.
function __exs_options
    set -l program (commandline -opc)[1]
    printf '%s\t%s\n' --help 'what there is' --version 'which release this is'
    # "  -a, --address ADDR   the server's name or number"
    $program --help 2>/dev/null | string replace -rf '^ +(?:-[A-Za-z], +)?(--[a-z][a-z-]*)(?: \S+)?  +(.*)$' '$1\t$2' |
        string match -rv '^--(help|version)\t'
    $program --help 2>/dev/null | string replace -rf '^ +(-[A-Za-z]), +--[a-z][a-z-]*(?: \S+)?  +(.*)$' '$1\t$2'
end
# The names of a server's folder, at the address and the port of the command line; the folder is that of the current word.
function __exs_remote
    set -l words (commandline -opc)
    set -l folder (string match -rg '^(.*)/' -- (commandline -ct))
    set -l server -t 2
    for i in (seq 2 (math (count $words) - 1))
        contains -- $words[$i] -a --address -p --port; and set -a server $words[$i] $words[(math $i + 1)]
    end
    # A line is a size, or - for a folder, and a name.
    timeout 3 $words[1] -q $server -l "$folder/" 2>/dev/null | string replace -rf '^ *(?:-|[0-9]+) (.*)$' '$1' |
        while read -l name
            test -z "$folder"; and echo $name; or echo $folder/$name
        end
end
# Whether the word is a name on the server, and not an option or the word of one.
function __exs_is_remote
    string match -q -- "-*" (commandline -ct); and return 1
    not contains -- (commandline -opc)[-1] -a --address -d --directory -o --output -p --port -s --file-size -t --timeout
end
complete -c exs-get -n __exs_is_remote -f -a '(__exs_remote)'
for program in exs-serve exs-put exs-get exs-info exstest
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -a '(__exs_options)'
end
complete -c exs-soft-run -n 'test (count (commandline -opc)) -eq 1' -n 'string match -q -- "-*" (commandline -ct)' -a '(__exs_options)'
complete -c exs-soft-run -xa '(__fish_complete_subcommand)'

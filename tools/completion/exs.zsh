#compdef exs-serve exs-put exs-get exs-info exs-soft-run exstest
# SPDX-License-Identifier: BSD-2-Clause
# Completion of EXS's programs in zsh: options with what they are, as the program itself says by --help, so that none is
# ever missing here; the rest are files, of the server for exs-get, or for exs-soft-run a program and what is that one's.
# The names of a server's folder, at the address and the port of the command line; the folder is that of the current word.
_exs_remote() {
    local folder='' size name i
    local -a server=(-t 2) names
    for ((i = 2; i < $#words; i++)); do
        [[ $words[i] != (-a|--address|-p|--port) ]] || server+=($words[i] $words[i+1])
    done
    [[ $PREFIX != */* ]] || folder=${PREFIX%/*}
    timeout 3 $words[1] -q $server -l "$folder/" 2>/dev/null | while read -r size name; do
        [[ $size != (-|<->) ]] || names+=(${folder:+$folder/}$name)
    done
    compadd -S '' -- ${(M)names:#*/}
    compadd -- ${names:#*/}
}
local -a specs
local line
for line in ${(f)"$($words[1] --help 2>/dev/null)"}; do
    # "  -a, --address ADDR   the server's name or number"
    [[ $line =~ '^ +((-[A-Za-z]), +)?(--[a-z][a-z-]*)( ([^ ]+))?  +(.*)$' ]] || continue
    local short=$match[2] long=$match[3] word=$match[5] text=${match[6]//[\[\]:]/ }
    [[ -z $word ]] || word=":$word:_files"
    [[ -z $short ]] || specs+=("${short}[$text]$word")
    specs+=("${long}[$text]$word")
done
(( ${specs[(I)--help*]} )) || specs+=('--help[what there is]')
(( ${specs[(I)--version*]} )) || specs+=('--version[which release this is]')
if [[ ${words[1]:t} == exs-soft-run ]]; then
    _arguments "$specs[@]" '(-)1:program: _command_names -e' '*::arguments: _normal'
elif [[ ${words[1]:t} == exs-get ]]; then
    _arguments -s "$specs[@]" '*:name:_exs_remote'
else
    _arguments -s "$specs[@]" '*:file:_files'
fi

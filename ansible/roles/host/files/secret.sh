# secret.sh FILE: a password in FILE, from standard input or, if that is empty, random; never a second one.
# Letters and digits only: it has to pass through shells, URLs and option files unquoted.
set -eu
umask 077
wanted=$(cat)
case $wanted in *[!A-Za-z0-9]*) exit 4 ;; esac
if [ -s "$1" ]; then
    if [ -n "$wanted" ] && [ "$(cat "$1")" != "$wanted" ]; then
        exit 3
    fi
    echo unchanged
    exit 0
fi
draft=$(mktemp "$1.XXXXXX")
trap 'rm -f "$draft"' EXIT
if [ -n "$wanted" ]; then
    printf '%s\n' "$wanted" > "$draft"
else
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n' > "$draft"
    echo >> "$draft"
fi
mv "$draft" "$1"
trap - EXIT
echo changed

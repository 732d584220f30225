# secret.sh FILE: a password in FILE, from BENCHLAB_DB_PASSWORD or else random; never a second one.
# Letters and digits only: it has to pass through shells, URLs and option files unquoted.
set -eu
umask 077
if [ -s "$1" ]; then
    if [ -n "$BENCHLAB_DB_PASSWORD" ] && [ "$(cat "$1")" != "$BENCHLAB_DB_PASSWORD" ]; then
        exit 3
    fi
    echo unchanged
    exit 0
fi
draft=$(mktemp "$1.XXXXXX")
trap 'rm -f "$draft"' EXIT
if [ -n "$BENCHLAB_DB_PASSWORD" ]; then
    printf '%s\n' "$BENCHLAB_DB_PASSWORD" > "$draft"
else
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n' > "$draft"
    echo >> "$draft"
fi
mv "$draft" "$1"
trap - EXIT
echo changed

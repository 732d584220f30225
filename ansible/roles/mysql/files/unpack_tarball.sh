# unpack_tarball.sh TARBALL DIR: the vendor's generic tarball, whole or not at all; DIR/run-mysqld runs
# the server. The tarball is deleted afterwards: it has some hundred megabytes.
set -eu
umask 022 # the engine's user must reach it
draft=$2.partial
rm -rf "$draft"
mkdir -p "$draft"
trap 'rm -rf "$draft"' EXIT
tar -xf "$1" -C "$draft" --strip-components=1 --no-same-owner
[ -x "$draft/bin/mysqld" ] || { echo "$1 holds no bin/mysqld" >&2; exit 1; }
"$draft/bin/mysqld" --no-defaults --version > /dev/null # or the loader says which library it lacks
cat > "$draft/run-mysqld" << EOF
#!/bin/sh
exec "$2/bin/mysqld" "\$@" --basedir="$2" --secure-file-priv=NULL
EOF
chmod 0755 "$draft" "$draft/run-mysqld"
rm -rf "$2"
mv "$draft" "$2"
trap - EXIT
rm -f "$1"

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
# Ubuntu 24.04 and Debian 13 have this library under another name
renamed=$(ldconfig -p | sed -n 's/.*libaio\.so\.1t64 .*=> //p' | head -n 1)
mkdir "$draft/renamed"
[ -z "$renamed" ] || ln -s "$renamed" "$draft/renamed/libaio.so.1"
# or the loader says which library it lacks
LD_LIBRARY_PATH="$draft/renamed" "$draft/bin/mysqld" --no-defaults --version > /dev/null
cat > "$draft/run-mysqld" << EOF
#!/bin/sh
export LD_LIBRARY_PATH="$2/renamed"
exec "$2/bin/mysqld" "\$@" --basedir="$2" --secure-file-priv=NULL
EOF
chmod 0755 "$draft" "$draft/run-mysqld"
rm -rf "$2"
mv "$draft" "$2"
trap - EXIT
rm -f "$1"

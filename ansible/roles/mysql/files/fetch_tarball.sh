# fetch_tarball.sh DIR TARBALL SHA256: the vendor's generic tarball (a URL, or a file of this host), unpacked whole or
# not at all; DIR/run-mysqld runs the server. Read after fetching.sh.
begin "$1"
tarball "$2" "$3"
tar -xf "$archive" -C "$draft" --strip-components=1 --no-same-owner
rm -f "$draft/archive" # some hundred megabytes
[ -x "$draft/bin/mysqld" ] || { echo "$2 holds no bin/mysqld" >&2; exit 1; }
# Ubuntu 24.04 and Debian 13 have this library under another name
renamed=$(ldconfig -p | sed -n 's/.*libaio\.so\.1t64 .*=> //p' | head -n 1)
mkdir "$draft/renamed"
[ -z "$renamed" ] || ln -s "$renamed" "$draft/renamed/libaio.so.1"
# or the loader says which library it lacks
LD_LIBRARY_PATH="$draft/renamed" "$draft/bin/mysqld" --no-defaults --version > /dev/null
cat > "$draft/run-mysqld" << EOF
#!/bin/sh
export LD_LIBRARY_PATH="$dir/renamed"
exec "$dir/bin/mysqld" "\$@" --basedir="$dir" --secure-file-priv=NULL
EOF
chmod 0755 "$draft/run-mysqld"
finish

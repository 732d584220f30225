# fetch_tarball.sh DIR TARBALL SHA256: the vendor's generic tarball (a URL, or a file of this host), unpacked whole or
# not at all; DIR/run-mysqld runs the server.
set -eu
umask 022 # the engine's user must reach it
dir=$1 tarball=$2 sha256=$3
draft=$dir.partial
rm -rf "$draft"
mkdir -p "$draft"
trap 'rm -rf "$draft"' EXIT
case $tarball in
    /*) ;;
    *)
        # a transfer that stands for a minute has failed; redirects lead to https only
        curl --fail --silent --show-error --location --proto-redir =https --connect-timeout 30 \
            --speed-limit 1024 --speed-time 60 --output "$draft/all" "$tarball"
        tarball=$draft/all
        ;;
esac
if ! echo "$sha256  $tarball" | sha256sum --check --status; then
    echo "$2 has another checksum than SHA-256 $sha256" >&2
    exit 1
fi
tar -xf "$tarball" -C "$draft" --strip-components=1 --no-same-owner
rm -f "$draft/all" # some hundred megabytes
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
chmod 0755 "$draft" "$draft/run-mysqld"
rm -rf "$dir"
mv "$draft" "$dir"
trap - EXIT

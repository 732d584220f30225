# unpack.sh TARBALL DIR: the three servers out of TiUP's offline tarball, which holds one tarball for
# each component; whole or not at all. The tarball is deleted afterwards: it has some gigabytes.
set -eu
draft=$2.partial
rm -rf "$draft"
mkdir -p "$draft/components"
trap 'rm -rf "$draft"' EXIT
tar -xzf "$1" -C "$draft/components" --strip-components=1 --no-same-owner --wildcards \
    '*/pd-v*.tar.gz' '*/tikv-v*.tar.gz' '*/tidb-v*.tar.gz'
for component in "$draft"/components/*.tar.gz; do
    tar -xzf "$component" -C "$draft/components" --no-same-owner
done
for server in pd-server tikv-server tidb-server; do
    found=$(find "$draft/components" -type f -name "$server" | head -n 1)
    if [ -z "$found" ]; then
        echo "$1 holds no $server" >&2
        exit 1
    fi
    mv "$found" "$draft/$server"
done
rm -rf "$draft/components"
chmod 0755 "$draft" "$draft"/*
rm -rf "$2"
mv "$draft" "$2"
trap - EXIT
rm -f "$1"

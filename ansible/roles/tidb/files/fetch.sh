# fetch.sh DIR TARBALL SHA256: the three servers out of TiUP's offline tarball (a URL, or a file of this host), which
# holds one tarball for each component; whole or not at all. An empty SHA256 is not checked. Read after fetching.sh.
begin "$1"
tarball "$2" "$3"
mkdir "$draft/components"
if ! tar -xzf "$archive" -C "$draft/components" --strip-components=1 --no-same-owner --wildcards \
    '*/pd-v*.tar.gz' '*/tikv-v*.tar.gz' '*/tidb-v*.tar.gz'; then
    echo "$2 is no tarball that holds one for each of PD, TiKV and TiDB" >&2
    exit 1
fi
for component in "$draft"/components/*.tar.gz; do
    tar -xzf "$component" -C "$draft/components" --no-same-owner
done
for server in pd-server tikv-server tidb-server; do
    found=$(find "$draft/components" -type f -name "$server" | head -n 1)
    if [ -z "$found" ]; then
        echo "$2 holds no $server" >&2
        exit 1
    fi
    mv "$found" "$draft/$server"
done
rm -rf "$draft/archive" "$draft/components"
chmod 0755 "$draft"/*
finish

# fetch.sh DIR TARBALL SHA256: the three servers out of TiUP's offline tarball (a URL, or a file of this
# host), which holds one tarball for each component; whole or not at all. An empty SHA256 is not checked.
set -eu
umask 022 # the engine's user must reach it
dir=$1 tarball=$2 sha256=$3
draft=$dir.partial
rm -rf "$draft"
mkdir -p "$draft/components"
trap 'rm -rf "$draft"' EXIT
case $tarball in
    /*) ;;
    *)
        # a transfer that stands for a minute has failed; redirects lead to https only
        curl --fail --silent --show-error --location --proto-redir =https --connect-timeout 30 \
            --speed-limit 1024 --speed-time 60 --output "$draft/components/all" "$tarball"
        tarball=$draft/components/all
        ;;
esac
if [ -n "$sha256" ] && ! echo "$sha256  $tarball" | sha256sum --check --status; then
    echo "$2 has another checksum than SHA-256 $sha256" >&2
    exit 1
fi
if ! tar -xzf "$tarball" -C "$draft/components" --strip-components=1 --no-same-owner --wildcards \
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
rm -rf "$draft/components"
chmod 0755 "$draft" "$draft"/*
rm -rf "$dir"
mv "$draft" "$dir"
trap - EXIT

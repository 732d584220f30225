# fetching.sh: what the scripts that fetch a server have in common. Each of them is read after it.
set -eu
umask 022 # the engine's user must reach it

# begin DIR: make the empty folder $draft. It becomes DIR by `finish`; a script that fails leaves nothing.
begin() {
    dir=$1 draft=$1.partial
    rm -rf "$draft"
    mkdir -p "$draft"
    trap 'rm -rf "$draft"' EXIT
}

finish() {
    chmod 0755 "$draft"
    rm -rf "$dir"
    mv "$draft" "$dir"
    trap - EXIT
}

# tarball TARBALL SHA256: set $archive to the file, of this host or fetched into $draft from a URL. An empty SHA256 is
# not checked.
tarball() {
    case $1 in
        /*) archive=$1 ;;
        *)
            archive=$draft/archive
            # a transfer that stands for a minute has failed; redirects lead to https only
            curl --fail --silent --show-error --location --proto-redir =https --connect-timeout 30 \
                --speed-limit 1024 --speed-time 60 --output "$archive" "$1"
            ;;
    esac
    if [ -n "$2" ] && ! echo "$2  $archive" | sha256sum --check --status; then
        echo "$1 has another checksum than SHA-256 $2" >&2
        exit 1
    fi
}

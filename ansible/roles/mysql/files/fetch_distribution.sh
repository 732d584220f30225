# fetch_distribution.sh DIR SUITE PACKAGE: MySQL's server with all libraries that it needs, out of
# another suite of this host's distribution, whole or not at all; DIR/run-mysqld runs it.
#
# The packages are unpacked, not installed: the host's libraries do not change, and no service is set up. Read after
# fetching.sh.
begin "$1"
suite=$2 package=$3
# the distribution's own mirror, since other sources of packages may come before it; without, debootstrap's
mirror=$(
    . /etc/os-release
    case $ID in ubuntu) origin=Ubuntu ;; *) origin=Debian ;; esac
    apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Origin: $origin" "Codename: $VERSION_CODENAME" |
        grep '^http' | head -n 1
)
debootstrap --variant=minbase --download-only --include="$package" "$suite" "$draft/fetched" ${mirror:+"$mirror"} >&2
for file in "$draft"/fetched/var/cache/apt/archives/lib*.deb \
    "$draft"/fetched/var/cache/apt/archives/zlib1g_*.deb \
    "$draft"/fetched/var/cache/apt/archives/mysql-*.deb; do
    dpkg-deb --extract "$file" "$draft"
done
rm -rf "$draft/fetched"
set -- "$draft"/usr/lib/*/ld-linux-*
[ -x "$1" ] && [ -x "$draft/usr/sbin/mysqld" ] || { echo "$package of $suite is no server with its libraries" >&2; exit 1; }
cat > "$draft/run-mysqld" << EOF
#!/bin/sh
# the loader of the suite that the server is built for
here=$dir
exec "\$(echo "\$here"/usr/lib/*/ld-linux-*)" --library-path "\$(echo "\$here"/usr/lib/*-linux-gnu)" \\
    "\$here/usr/sbin/mysqld" "\$@" --basedir="\$here/usr" --lc-messages-dir="\$here/usr/share/mysql" \\
    --plugin-dir="\$here/usr/lib/mysql/plugin" --character-sets-dir="\$here/usr/share/mysql/charsets" \\
    --secure-file-priv=NULL
EOF
chmod 0755 "$draft/run-mysqld"
finish

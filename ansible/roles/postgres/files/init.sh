# init.sh ENGINE USER BIN_DIR DATA_DIR DATABASE [INITDB_OPTION...]: a new cluster at DATA_DIR, whole
# or not at all, with an empty database.
set -eu
engine=$1 user=$2 bin=$3 data=$4 database=$5
shift 5
draft=$data.partial
password=$(mktemp /run/benchlab/$engine.XXXXXX)
trap 'rm -f "$password"' EXIT
cat "/etc/benchlab/secrets/$engine" > "$password"
chown "$user" "$password"
rm -rf "$draft"
install -d -o "$user" -g "$user" -m 0700 "$draft"
cd /
as_user() {
    # without the caller's environment: PG* variables would change what is made
    setpriv --reuid "$user" --regid "$user" --clear-groups env -i PATH=/usr/bin:/bin "$@"
}
as_user "$bin/initdb" -D "$draft" -U benchlab --auth=scram-sha-256 --pwfile="$password" \
    --encoding=UTF8 --locale=C.UTF-8 --no-sync "$@" > /dev/null
echo "CREATE DATABASE \"$database\"" |
    as_user "$bin/postgres" --single -D "$draft" postgres > /dev/null
rm -rf "$data"
mv "$draft" "$data"

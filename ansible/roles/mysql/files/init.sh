# init.sh ENGINE USER SERVER_DIR DATA_DIR DATABASE: a new data directory at DATA_DIR, whole or not at
# all, with a password and an empty database.
set -eu
engine=$1 user=$2 server=$3 data=$4 database=$5
draft=$data.partial
sql=$(mktemp "/run/benchlab/$engine.XXXXXX")
trap 'rm -f "$sql"' EXIT
password=$(cat "/etc/benchlab/secrets/$engine")
# a statement a line
cat > "$sql" << EOF
ALTER USER 'root'@'localhost' IDENTIFIED BY '$password';
CREATE USER 'root'@'%' IDENTIFIED BY '$password';
GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;
CREATE DATABASE \`$database\`;
SHUTDOWN;
EOF
chown "$user" "$sql"
rm -rf "$draft"
install -d -o "$user" -g "$user" -m 0700 "$draft"
cd /
as_user() {
    setpriv --reuid "$user" --regid "$user" --clear-groups env -i PATH=/usr/bin:/bin "$@"
}
# accounts cannot be made while it initialises, so a start without a network makes them and ends
for step in --initialize-insecure "--init-file=$sql"; do
    as_user "$server/run-mysqld" --no-defaults --datadir="$draft" --mysqlx=off --skip-networking \
        --socket="$draft/server.sock" --log-error-verbosity=1 "$step"
done
# for temporary files
install -d -o "$user" -g "$user" -m 0700 "$draft/tmp"
rm -rf "$data"
mv "$draft" "$data"

# init.sh ENGINE USER DATA_DIR DATABASE: a new data directory at DATA_DIR, whole or not at all, with a
# password and an empty database.
set -eu
engine=$1 user=$2 data=$3 database=$4
draft=$data.partial
sql=$(mktemp /run/benchlab/$engine.XXXXXX)
trap 'rm -f "$sql"' EXIT
password=$(cat "/etc/benchlab/secrets/$engine")
# a statement a line; users of other names have no password
cat > "$sql" << EOF
FLUSH PRIVILEGES;
DELETE FROM mysql.global_priv WHERE User NOT IN ('root', 'mariadb.sys') OR Host NOT IN ('localhost');
FLUSH PRIVILEGES;
ALTER USER 'root'@'localhost' IDENTIFIED BY '$password';
CREATE USER 'root'@'%' IDENTIFIED BY '$password';
GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;
CREATE DATABASE \`$database\`;
EOF
chown "$user" "$sql"
rm -rf "$draft"
install -d -o "$user" -g "$user" -m 0700 "$draft"
cd /
setpriv --reuid "$user" --regid "$user" --clear-groups env -i PATH=/usr/bin:/bin:/usr/sbin \
    mariadb-install-db --no-defaults --datadir="$draft" --skip-test-db --skip-name-resolve \
    --auth-root-authentication-method=normal --extra-file="$sql" > /dev/null
# for temporary files
install -d -o "$user" -g "$user" -m 0700 "$draft/tmp"
rm -rf "$data"
mv "$draft" "$data"

# base_backup.sh USER PG_BASEBACKUP DATA_DIR HOST PORT SLOT: a standby's data directory, whole or not at all, copied from
# a running primary that keeps the log for it in a slot. Standard input brings the primary's password.
set -eu
user=$1 program=$2 data=$3 host=$4 port=$5 slot=$6
draft=$data.partial
rm -rf "$draft"
install -d -o "$user" -g "$user" -m 0700 "$draft"
cd /
umask 077
trap 'rm -f "$draft.pgpass"' EXIT
echo "*:*:*:*:$(cat)" > "$draft.pgpass"
chown "$user:$user" "$draft.pgpass"
setpriv --reuid "$user" --regid "$user" --clear-groups env -i PATH=/usr/bin:/bin PGPASSFILE="$draft.pgpass" \
    "$program" --pgdata "$draft" --host "$host" --port "$port" --username benchlab --no-password \
    --wal-method stream --checkpoint fast --create-slot --slot "$slot" --no-sync
mv "$draft.pgpass" "$draft/pgpass"
: > "$draft/standby.signal"
chown "$user:$user" "$draft/standby.signal"
rm -rf "$data"
mv "$draft" "$data"

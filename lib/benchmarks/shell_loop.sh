#!/usr/bin/env bash
# The measurement that benchlab automates, as one would type it: the same copy of the dataset, the same
# cold starts and read-in, the same warm-up and load inside the same limits, and nothing kept but what
# sysbench prints.
#
# shell_loop.sh SNAPSHOT TABLES ROWS WARMUP_S MEASURE_S THREADS... : prints the seconds that the loop took.
# Run as root while the envelope is up.
set -euo pipefail

snapshot=/var/lib/benchlab/snapshots/postgres/$1 tables=$2 rows=$3 warmup_s=$4 measure_s=$5
shift 5

data=/var/lib/benchlab/disk/postgres
settings=/etc/benchlab/engines/postgres
programs=(/usr/lib/postgresql/*/bin)
bin=${programs[-1]}
PGPASSWORD=$(cat /etc/benchlab/secrets/postgres)
export PGPASSWORD PGHOST=127.0.0.1 PGPORT=55432 PGUSER=benchlab PGDATABASE=sbtest
agent=(/usr/bin/python3 -I /usr/local/lib/benchlab/benchlab_agent)

stop() {
    local pid
    pid=$(head -n 1 "$data/postmaster.pid" 2>/dev/null) || return 0
    kill -INT "$pid" 2>/dev/null || return 0  # a crash leaves the file
    while [ -e "/proc/$pid" ]; do sleep 0.05; done
}

start() {
    "${agent[@]}" client -- setpriv --reuid benchlab-postgres --regid benchlab-postgres --clear-groups \
        "$bin/postgres" -D "$data" -c config_file=$settings/default.conf -c hba_file=$settings/pg_hba.conf \
        -c ident_file=$settings/pg_ident.conf >/dev/null 2>&1 &
    until pg_isready -q; do sleep 0.05; done
}

load() {
    "${agent[@]}" client -- sysbench oltp_write_only --db-driver=pgsql --pgsql-host=$PGHOST \
        --pgsql-port=$PGPORT --pgsql-user=$PGUSER --pgsql-password="$PGPASSWORD" --pgsql-db=$PGDATABASE \
        --tables="$tables" --table-size="$rows" --rand-type=uniform --db-ps-mode=disable --percentile=99 \
        --report-interval=1 --histogram=on --threads="$1" --time="$2" --events=0 run >/dev/null
}

begin=$(date +%s.%N)
stop
"${agent[@]}" envelope limit off >/dev/null
rm -rf "$data"
cp --archive "$snapshot" "$data"
sync --file-system "$data"
for threads in "$@"; do
    stop
    sync
    echo 3 >/proc/sys/vm/drop_caches
    start
    psql -qXAt -c "SELECT sum(pg_prewarm(oid, 'read')) FROM pg_class
        WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace" >/dev/null
    "${agent[@]}" envelope limit on >/dev/null
    load "$threads" "$warmup_s"
    load "$threads" "$measure_s"
    "${agent[@]}" envelope limit off >/dev/null
done
echo "$(date +%s.%N) $begin" | awk '{ printf "%.3f\n", $1 - $2 }'
stop

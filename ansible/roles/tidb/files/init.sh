# init.sh CLIENT OPTION_FILE HOST PORT DATABASE: an empty database, and a password for the administrator of
# a new cluster, who has none.
set -eu
"$1" --defaults-file="$2" --host="$3" --port="$4" << EOF
CREATE DATABASE IF NOT EXISTS \`$5\`;
ALTER USER root IDENTIFIED BY '$(cat /etc/benchlab/secrets/tidb)';
EOF

# init.sh CLIENT OPTION_FILE PORT DATABASE: an empty database, and a password for the administrator of
# a new cluster, who has none.
set -eu
"$1" --defaults-file="$2" --host=127.0.0.1 --port="$3" << EOF
CREATE DATABASE IF NOT EXISTS \`$4\`;
ALTER USER root IDENTIFIED BY '$(cat /etc/benchlab/secrets/tidb)';
EOF

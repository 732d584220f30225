# login.sh ENGINE: /etc/benchlab/engines/ENGINE/client.cnf, the administrator's login for clients of
# MySQL's protocol, from the engine's password; readable for the engine's user.
set -eu
umask 077
file=/etc/benchlab/engines/$1/client.cnf
draft=$(mktemp "$file.XXXXXX")
trap 'rm -f "$draft"' EXIT
printf '[client]\nuser=root\npassword=%s\nprotocol=tcp\nloose-skip-ssl\n' \
    "$(cat "/etc/benchlab/secrets/$1")" > "$draft"
if cmp -s "$draft" "$file"; then
    echo unchanged
    exit 0
fi
chown "root:benchlab-$1" "$draft"
chmod 0640 "$draft"
mv "$draft" "$file"
trap - EXIT
echo changed

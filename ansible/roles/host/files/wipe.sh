# wipe.sh HOME ENGINES: the data in HOME are gone, also behind a link, which stays for the next run.
# A disk that somebody mounted there stays too, without the data of the engines, whose files ENGINES has.
set -eu
home=$1 engines=$2
if [ ! -d "$home" ]; then
    exit 0
fi
for file in "$engines"/*.json; do
    data=$(sed -n 's/^ *"data_dir": "\(.*\)",\{0,1\}$/\1/p' "$file" 2>/dev/null) || continue
    if [ -n "$data" ]; then
        rm -rf --one-file-system "$data" "$(dirname "$data")/.$(basename "$data")".*
    fi
done
find "$home/" -xdev -mindepth 1 ! -type d -delete
find "$home/" -xdev -depth -mindepth 1 -type d ! -exec mountpoint -q {} \; \
    -exec rmdir --ignore-fail-on-non-empty {} +
if [ ! -L "$home" ] && ! mountpoint -q "$home"; then
    rmdir --ignore-fail-on-non-empty "$home"
fi

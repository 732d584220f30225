# Points the link at the environment, and the environment's .pth file at the library, and deletes all older ones. Prints
# "changed" if one of them changed.
# Arguments: link, environment, library.
set -eu
link=$1 environment=$2 library=$3
way=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/benchlab.pth
if [ "$(readlink "$link" || true)" = "$environment" ] && [ "$(cat "$way" 2>/dev/null)" = "$library" ]; then exit 0; fi
echo "$library" >"$way"
ln -sfn "$environment" "$link"
for old in "$link"-*; do [ "$old" = "$environment" ] || [ "$old" = "$library" ] || rm -rf "$old"; done
echo changed

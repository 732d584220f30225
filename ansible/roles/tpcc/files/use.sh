# Lets the link to the environment, and the environment's way to the library, be these; prints "changed" if they were not.
# Arguments: link, environment, library.
set -eu
link=$1 environment=$2 library=$3
way=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/benchlab.pth
if [ "$(readlink "$link" || true)" = "$environment" ] && [ "$(cat "$way" 2>/dev/null)" = "$library" ]; then exit 0; fi
echo "$library" >"$way"
ln -sfn "$environment" "$link"
echo changed

# Makes an environment of Python with exactly the packages of two lists, in a folder that is there only as a whole.
# Arguments: folder, list of the installer, list of the packages.
set -eu
home=$1 installer=$2 packages=$3
rm -rf "$home"
python3 -m venv "$home"
"$home/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes -r "$installer"
"$home/bin/uv" pip install --quiet --no-cache --python "$home/bin/python" --require-hashes -r "$packages"
touch "$home/.complete"

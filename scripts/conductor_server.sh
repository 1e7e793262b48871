#!/bin/sh
# Conductor's server for the tests and `make demo ENGINE=conductor`: one jar of 440 MB from Maven
# Central, into Maven's own folder. The jar contains parts under another licence: it is never shipped.
set -eu
version=$(sed -n 's/^SERVER_VERSION = "\(.*\)"$/\1/p' "$(dirname "$0")/../src/outrider/cli/demo_conductor.py")
jar="${MAVEN_REPOSITORY:-$HOME/.m2/repository}/org/conductoross/conductor-server/$version/conductor-server-$version-boot.jar"
[ ! -f "$jar" ] || exit 0
if ! command -v mvn >/dev/null; then
  echo "NOT FETCHED: Conductor's server (no Maven here); ALL TESTS ON CONDUCTOR WILL BE SKIPPED" >&2
  exit 0
fi
echo "fetching Conductor's server $version from Maven Central: 440 MB, once" >&2
mvn -q -B dependency:get -Dtransitive=false \
  "-Dartifact=org.conductoross:conductor-server:$version:jar:boot" >/dev/null 2>&1 ||
  echo "NOT FETCHED: Conductor's server $version (Maven Central does not answer, or does not have it); ALL TESTS ON CONDUCTOR WILL BE SKIPPED" >&2

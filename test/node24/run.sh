#!/usr/bin/env bash
# The repository on Node 24, without touching its node_modules: tests from the sources, then one question to the build.
# SQLite is compiled for one Node version, so a copy gets its own; the headers come with the Node package itself.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
version=24.22.3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# npm tells its scripts where it is installed by variables that would win over the ones below.
unset npm_config_prefix npm_config_local_prefix

step() { printf '== %s (%s s)\n' "$1" "$SECONDS"; }

step "Node $version"
package=$(node -p '`node-${process.platform}-${process.arch}`')
npm install --silent --no-save --no-fund --no-audit --prefix "$work/node" "$package@$version"
node24="$work/node/node_modules/$package"
export PATH="$node24/bin:$PATH"
[ "$(node --version)" = "v$version" ] || { echo "node is $(node --version), not v$version" >&2; exit 1; }

step 'a copy with its own SQLite'
mkdir "$work/app"
cd "$work/app"
tar -C "$root" --exclude=./node_modules --exclude=./.git --exclude=./dist --exclude=./.orchestra --exclude=./bench/node_modules -cf - . | tar -xf -
# Hard links where they are possible: nothing but SQLite is written to, and that is copied.
mkdir node_modules
cp -al "$root/node_modules/." node_modules/ 2>/dev/null || cp -a "$root/node_modules/." node_modules/
rm -rf node_modules/better-sqlite3 node_modules/.vite node_modules/.vitest
cp -a "$root/node_modules/better-sqlite3" node_modules/
npm_config_nodedir="$node24" npm_config_build_from_source=true npm rebuild --silent better-sqlite3
node -e 'new (require("better-sqlite3"))(":memory:").close(); console.log("SQLite works on Node", process.version)'

step 'the build answers'
npm run --silent build
node --import tsx test/node24/ask-the-build.ts

step 'unit tests, without the attacks on the sandbox: those test the system, not Node'
find test -name '*.test.ts' -not -path 'test/model/*' -not -path 'test/tools/sandbox/*' -print0 |
  xargs -0 node node_modules/vitest/vitest.mjs run --project unit
step 'done'

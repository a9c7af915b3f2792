#!/usr/bin/env bash
# Asks a server what its own description of the API allows and forbids, many times over, and fails
# when any answer has a status of 500 or more. Nothing is filtered.
#
#   scripts/fuzz_api.sh [EXAMPLES_PER_OPERATION [REPRISE_BINARY]]
#
# Schemathesis comes from PyPI into build/fuzz-api, which is kept for the next time.
set -euo pipefail
cd "$(dirname "$0")/.."

examples="${1:-1000}"
binary="${2:-build/release/bin/reprise}"
folder=build/fuzz-api
mkdir -p "$folder"
if [[ ! -x "$folder/venv/bin/schemathesis" ]]; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --quiet "schemathesis>=4,<5" openapi-spec-validator
fi

# Many of the fuzzed requests are good ones: short answers keep them cheap, the queue takes them all.
"$binary" serve models/reprise-tiny --served-model-name tiny --port 0 --max-model-len 128 \
  2>"$folder/server.log" >/dev/null &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT
for _ in $(seq 600); do
  url="$(sed -n 's/^INFO .*server on \(http.*\)$/\1/p' "$folder/server.log")"
  [[ -n "$url" ]] && grep -q 'startup complete' "$folder/server.log" && break
  kill -0 "$server" || { cat "$folder/server.log" >&2; exit 1; }
  sleep 0.1
done

python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' \
  "$url/openapi.json" >"$folder/openapi.json"
"$folder/venv/bin/openapi-spec-validator" "$folder/openapi.json"
status=0
(cd "$folder" && venv/bin/schemathesis run "$url/openapi.json" --checks not_a_server_error \
  --phases examples,coverage,fuzzing --max-examples "$examples" --mode all --workers 1 \
  --continue-on-failure --generation-database none --report ndjson --report-dir . \
  --no-color) || status=$?
kill -0 "$server" || { echo "The server has ended:"; cat "$folder/server.log"; exit 1; }
exit "$status"

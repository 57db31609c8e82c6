#!/usr/bin/env bash
# curl: HTTP/1.1, h2c by prior knowledge and by upgrade, and a push query that the client leaves.
set -euo pipefail
url=$1
pull='{"ksql":"SELECT K FROM TL WHERE K='"'k1'"';"}'
for version in --http1.1 --http2 --http2-prior-knowledge; do
  answer=$(curl -sS --max-time 10 "$version" -w ' %{http_version}' "$url/query" -d "$pull")
  [[ $answer == *'["k1"]'* ]] || { echo "$version: $answer"; exit 1; }
  [[ $version == --http1.1 || $answer == *' 2' ]] || { echo "$version was not upgraded: $answer"; exit 1; }
  [[ $(curl -sS --max-time 10 "$version" "$url/info") == *KsqlServerInfo* ]]
done
push='{"sql":"SELECT K FROM S EMIT CHANGES;","properties":{}}'
[[ $(curl -sS -N --max-time 20 "$url/query-stream" -d "$push" 2>/dev/null | head -n 3 | tail -n 1) == *k* ]]
code=$(curl -s -o /dev/null -w '%{http_code}' --max-time 10 "$url/query" -d '{"ksql":"SELECT nonsense;"}')
[ "$code" = 400 ]

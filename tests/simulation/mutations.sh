#!/usr/bin/env bash
# A test of the simulation's checker: drops one rule after the other from the code, and expects the simulation to notice.
#
#   tests/simulation/mutations.sh [NAME]      each mutation in a copy of the tree, below target/mutations; about a minute each
#
# Settings: SIM_READS, reads for each (100000, more where what a rule forbids is rare). Ends with the line `mutations: N caught of M`.
set -euo pipefail
cd "$(dirname "$0")/../.."
copy=$PWD/target/mutations
mkdir -p "$copy"
caught=0 all=0

# mutate NAME FILE OLD NEW [READS]: OLD is what stands there, which must be found
mutate() {
  local name=$1 file=$2 reads=${5:-100000}
  [ "${only:-$name}" = "$name" ] || return 0
  all=$((all + 1))
  git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy" --preserve=timestamps
  OLD=$3 NEW=$4 python3 - "$copy/$file" <<'P'
import os, sys
path, old, new = sys.argv[1], os.environ["OLD"], os.environ["NEW"]
text = open(path).read()
if text.count(old) != 1:
    sys.exit(f"{path}: {old!r} stands there {text.count(old)} times; mend this script")
open(path, "w").write(text.replace(old, new))
P
  local log=$copy/$name.log
  if (cd "$copy" && CARGO_TARGET_DIR=$copy/target SIM_READS=${SIM_READS:-$reads} \
      cargo test --quiet --test integration -- --exact simulation::simulation --nocapture) > "$log" 2>&1; then
    echo "NOT caught  $name"
  elif grep -q '^simulation: ' "$log"; then
    caught=$((caught + 1)); echo "caught      $name: $(grep '^simulation: ' "$log")"
  else
    echo "does not build  $name, see $log"
  fi
}
only=${1:-}

mutate offset-bound src/route/plan/mod.rs \
  'Some(lag) if lag > bound => return' 'Some(lag) if lag > bound + 30 => return'
mutate offset-of-own-end src/view/slot.rs \
  'slot.end = slot.end.max(Some(position.end));' 'slot.end = slot.end.or(Some(position.end));'
mutate time-bound-by-newest-sample src/view/history.rs \
  'samples.iter().filter(|sample| sample.end <= position.current)' 'samples.iter().filter(|_| position.current >= 0)'
mutate cache-counts-as-logged src/proxy/session.rs \
  'Kind::Cached if self.lived_until(logged, view) => After' 'Kind::Cached if logged > self.at.to => After'
mutate a-pause-loses-no-task src/view/evidence.rs \
  '            host.interrupt();' '' 1000000
mutate same-process-same-store src/route/plan/mod.rs \
  'host == replica.host && replica.same_since.is_none_or(|since| since <= read)' 'host == replica.host' 1000000
mutate first-report-after-a-pause src/view/slot.rs \
  '&& (settled || role != Some(Role::Active))' '' 400000
mutate zombies-are-believed src/view/slot.rs \
  '&& !self.is_zombie(&host.name, role, &agreement, query_id, place),' ','
mutate written-is-logged-at-once src/proxy/session.rs \
  'Kind::Written => After { until: self.processed(table, view), same: None },' 'Kind::Written => After { until: Some(self.at.to), same: None },'
mutate epochs-are-forgotten src/proxy/session.rs \
  'if epoch.is_some_and(|epoch| read.at.to < epoch) {' 'if epoch.is_some_and(|_| false) {'
mutate absence-from-whoever-is-asked src/route/plan/mod.rs \
  '!view.lag_reporting || (sound && replica.awake && young(replica)) || inherited || blind()' 'true'
echo "mutations: $caught caught of $all"
[ "$caught" = "$all" ]

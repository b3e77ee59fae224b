#!/usr/bin/env bash
# The checks of internal/lint.sh, and all tests, with the race detector but where it says
# otherwise. Arguments go to go test.
set -euo pipefail
cd "$(dirname "$0")/.."
. internal/modules.sh

# Programs of the system that tests need: file systems to cut the power of, a tracer to make
# system calls fail, Java for DynamoDB Local, setlock to compare with, shells that read
# completions, the program that checks a unit of systemd, the servers MariaDB, Redis and etcd, the
# browser Chromium, and pip for the generator of the site.
declare -A package=(
  [strace]=strace [mkfs.ext4]=e2fsprogs [mkfs.xfs]=xfsprogs [losetup]=mount
  [java]=default-jre-headless [npm]=npm [node]=nodejs [setlock]=daemontools [zsh]=zsh [fish]=fish
  [systemd-analyze]=systemd [etcd]=etcd-server [etcdctl]=etcd-client [mariadbd]=mariadb-server
  [redis-server]=redis-server [redis-cli]=redis-tools [chromium]=chromium
)
missing=()
# PostgreSQL's own programs lie where no PATH finds them.
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && ! command -v initdb >/dev/null; then
  missing+=(postgresql)
fi
python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
for program in "${!package[@]}"; do
  command -v "$program" >/dev/null || missing+=("${package[$program]}")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "== installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
  else
    echo "missing: ${missing[*]}: tests that need them will say so" >&2
  fi
fi

work=$(mktemp -d)
declare -A running # groups of processes
end() {
  local group
  for group in "${!running[@]}"; do kill -- "-$group" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM
# beside FILE COMMAND...: runs a command beside what follows. It gets the processor time that the
# others leave, its output goes to a file, and it has a group of processes that the trap ends.
# Its number is $!, for await.
beside() {
  local output=$1
  shift
  set -m
  (
    renice -n 19 -p "$BASHPID" >/dev/null
    "$@"
  ) >"$output" 2>&1 &
  set +m
  running[$!]=beside
}
await() {
  local status=0
  wait "$1" || status=$?
  unset "running[$1]"
  return "$status"
}

# MinIO and versitygw take minutes to build, and the tests without a server mostly wait.
beside "$work/servers" go run ./proof/integration/cmd/servers -prepare
servers=$!

bash internal/lint.sh

# By default each process with the race detector sleeps for a second before it ends. The
# tests start hundreds of processes.
export GORACE="${GORACE:-atexit_sleep_ms=0}"

# The race detector slows these down six times and more: campaigns and statistics in
# virtual time, endless answers, models and readers of text with one goroutine. They run
# without it. Other tests run the same code with it.
unraced='TestMutants|TestPollSchedule|TestGreedyHolders|TestDamagedAnswers|TestEndlessListings|TestEndlessVersions'
unraced+='|TestLogOrders|TestLogRandomOrders|TestBrokenAssumption|TestBacklog|TestManyVersions|TestOrderedEarlyShownLate|TestNoSettleDelay'
unraced+='|TestCompressed|FuzzS3Answers|FuzzDamagedWrites|TestFullRecordBlocksNoLock|TestDataAtTheLimit'
unraced+='|TestSecretsInURLs|TestSecretsInObjectURLs|TestReferences'
unraced+='|TestHandOverRequests|TestAskersLoseNoSession|TestManyWaitersLoseNoLease|TestQueueOfShortWaits'
unraced+='|TestSimulationNotices|TestShortWaitsReturnToAQueueThatWasSlow'
unraced+='|TestOneSlowKeyAmongMany|TestWaitersShareReadsOfASession|TestAcceptedOptionsLoseNothing|TestSteadyLatency|TestFrozenStoreCostsFewGoroutines|TestBatchPollTakeover'
unraced+='|TestNoLeaseIsLost|TestWithoutBackOff'
unraced+='|TestBatchPollRequests|TestBatchPollHandOver|TestBatchPollOddListings|TestAllBeforeAWaiterLeave'
unraced+='|TestSQLiteLargeRow|TestPolicies|TestStatusUsage|TestGoWords|TestNamesWhatIsInIt|TestSweepRate|TestSweepMemory|TestBatchPollThatIsWrong|TestRequestsOfWa(iters|tchers)'
models=(./proof/lockmodel ./proof/sessionmodel ./proof/rostermodel ./proof/logmodel ./proof/versionmodel)
# These do less with the race detector than without it.
again='TestSimulation|TestSimulationOfCrowds|TestOneFaultInEachOrderOfCalls|TestTicketAlteredAtRandom'
# The packages that take longest come first, so that the others run beside them.
mapfile -t raced < <(go list ./cmd/internal/command ./lease ./store/filestore ./compat/s3verstore "${released[@]}" ./examples/... ./proof/integration/hostile)
mapfile -t rest < <(grep -rlE --include='*_test.go' "^func ($unraced)\(" . | xargs -n 1 dirname | grep -v '^./proof/.*model$' | sort -u)

without_race() {
  go test -vet=off -timeout 25m "$@" "${models[@]}"
  go test -vet=off -p 4 -parallel 4 -timeout 25m -run "^($unraced|$again)\$" "$@" "${rest[@]}"
}

# What runs without the race detector computes, in virtual time. It gets the processor time that
# the others leave. Its output comes when all have ended.
beside "$work/without-race" without_race "$@"
without_race=$!

# Many packages wait rather than compute, so that more of them run than there are cores.
# internal/lint.sh has vetted them.
echo "== go test"
go test -race -vet=off -p 4 -parallel 4 -timeout 25m -skip "^($unraced)\$" "$@" "${raced[@]}"

# The suites have run with the race detector on stores in the process. Here the servers
# need the processors. A long campaign has the time for both.
race=()
if [ -n "${HOLDFAST_TORTURE:-}" ]; then race=(-race); fi
# Where a server cannot be had, the tests that need it say so.
await "$servers" || cat "$work/servers"
# Under a load of other tests, servers answer too late: nothing runs beside these tests, and the
# stores with packages of their own come afterwards.
failed=0
await "$without_race" || failed=1
echo "== go test without the race detector"
cat "$work/without-race"
mapfile -t integration < <(go list ./proof/integration/... | grep -vE '/(hostile|azure|dashboard|etcd|gcs|leaselocks|nats|redis)$')
echo "== go test against real servers"
go test "${race[@]}" -vet=off -timeout 25m "$@" -skip TestVersioned "${integration[@]}" || failed=1
echo "== go test of stores with packages of their own"
go test "${race[@]}" -vet=off -p 2 -timeout 25m "$@" ./proof/integration/{azure,dashboard,etcd,gcs,leaselocks,nats,redis} || failed=1

# The tests of buckets with versions mostly wait, for writes to settle, and take a write
# that lasts two seconds for one of unknown outcome, which fails them. So they do not run beside those
# against the other servers.
echo "== go test of buckets with versions"
go test "${race[@]}" -vet=off -timeout 25m -parallel 96 "$@" -run TestVersioned ./proof/integration || failed=1
exit "$failed"

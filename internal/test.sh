#!/usr/bin/env bash
# The checks of internal/lint.sh, and all tests, with the race detector but where it says
# otherwise. Arguments go to go test.
set -euo pipefail
cd "$(dirname "$0")/.."
. internal/modules.sh

# Compilers, staticcheck, models and programs that only start collect garbage less often: this saves a tenth to a
# quarter of their processor time.
export GOGC="${GOGC:-400}"
# Go compiles the packages of a clone again in each new folder, unless what it compiles says nothing of the folder.
# Without cgo, as in a release, and without debugging information, compilers need a fifth less processor time, and
# programs start faster. The race detector needs cgo.
GOFLAGS="$(go env GOFLAGS) -trimpath -gcflags=all=-dwarf=false"
export GOFLAGS CGO_ENABLED=0
race=(env CGO_ENABLED=1 go test -race)
# On a machine of CI, each test runs, even if it passed before.
if [ -n "${CI:-}" ]; then set -- -count=1 "$@"; fi
# DynamoDB Local lives too short for the second compiler of Java: without it, the server needs half of the time.
export JAVA_TOOL_OPTIONS="${JAVA_TOOL_OPTIONS:--XX:TieredStopAtLevel=1}"

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
# beside FILE COMMAND...: runs a command beside what follows. Its output goes to a file, and it has a
# group of processes that the trap ends. Its number is $!, for await. idly FILE COMMAND... does the
# same, and the command gets the processor time that the others leave.
beside() {
  local output=$1
  shift
  set -m
  ("$@") >"$output" 2>&1 &
  set +m
  running[$!]=beside
}
idly() { beside "$1" nice_command "${@:2}"; }
nice_command() {
  renice -n 19 -p "$BASHPID" >/dev/null
  "$@"
}
await() {
  local status=0
  wait "$1" || status=$?
  unset "running[$1]"
  return "$status"
}

# Several go commands at once would each compile the same packages. So one command compiles them first, while the
# programs below are installed. With a full cache, this takes seconds.
echo "== compiling"
beside "$work/vet" go vet "${packages[@]}"
vet=$!

# Programs of the system that tests need: file systems to cut the power of, a tracer to make
# system calls fail, Java for DynamoDB Local, setlock to compare with, shells that read
# completions, the program that checks a unit of systemd, the servers MariaDB, Redis, etcd and
# Prometheus, the browser Chromium, what makes and installs packages, and pip for the generator of the site.
declare -A package=(
  [strace]=strace [mkfs.ext4]=e2fsprogs [mkfs.xfs]=xfsprogs [losetup]=mount
  [java]=default-jre-headless [npm]=npm [node]=nodejs [setlock]=daemontools [zsh]=zsh [fish]=fish
  [systemd-analyze]=systemd [etcd]=etcd-server [etcdctl]=etcd-client [mariadbd]=mariadb-server
  [redis-server]=redis-server [redis-cli]=redis-tools [promtool]=prometheus [prometheus]=prometheus
  [chromium]=chromium [apt-ftparchive]=apt-utils [rpm]=rpm [gpg]=gpg [ruby]=ruby [curl]=curl
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

await "$vet" || true # internal/lint.sh shows what it says

# MinIO and versitygw take minutes to build, and the tests without a server mostly wait.
beside "$work/servers" go run ./proof/integration/cmd/servers -prepare
servers=$!
idly "$work/lint" bash internal/lint.sh
lint=$!

# By default each process with the race detector sleeps for a second before it ends. The
# tests start hundreds of processes.
export GORACE="${GORACE:-atexit_sleep_ms=0}"

# The race detector slows these down six times and more: campaigns and statistics in
# virtual time, endless answers, models and readers of text with one goroutine. They run
# without it. Other tests run the same code with it.
unraced='TestPollSchedule|TestGreedyHolders|TestDamagedAnswers|TestEndlessListings|TestEndlessVersions'
unraced+='|TestLogOrders|TestLogRandomOrders|TestBrokenAssumption|TestBacklog|TestManyVersions|TestOrderedEarlyShownLate|TestNoSettleDelay'
unraced+='|TestCompressed|FuzzS3Answers|FuzzDamagedWrites|TestFullRecordBlocksNoLock|TestDataAtTheLimit'
unraced+='|TestSecretsInURLs|TestSecretsInObjectURLs|TestReferences'
unraced+='|TestHandOverRequests|TestAskersLoseNoSession|TestManyWaitersLoseNoLease|TestQueueOfShortWaits'
unraced+='|TestSimulationNotices|TestShortWaitsReturnToAQueueThatWasSlow'
unraced+='|TestOneSlowKeyAmongMany|TestWaitersShareReadsOfASession|TestAcceptedOptionsLoseNothing|TestSteadyLatency|TestFrozenStoreCostsFewGoroutines|TestBatchPollTakeover'
unraced+='|TestNoLeaseIsLost|TestWithoutBackOff'
unraced+='|TestBatchPollRequests|TestBatchPollHandOver|TestBatchPollOddListings|TestAllBeforeAWaiterLeave'
unraced+='|TestWakeUps|TestRequestToSeveralEndsWithThem|TestSlowWritesLoseNoLease|TestRegisterHistories|TestTableOfEachShape|TestSweepOnAWS|TestStoreInOrder|TestEveryCallFaulty|TestSweepDuringWrites|TestSweepResumed'
unraced+='|TestSQLiteLargeRow|TestPolicies|TestStatusUsage|TestNamesWhatIsInIt|TestSweepRate|TestSweepMemory|TestBatchPollThatIsWrong|TestRequestsOfWa(iters|tchers)'
unraced+='|TestLargeState'
# These have no goroutines but those of package testing: readers of the repository, and pure rules.
plain=(. ./internal/lockrec ./internal/mutanttest ./proof/integration/site)
models=(./proof/lockmodel ./proof/sessionmodel ./proof/rostermodel ./proof/logmodel ./proof/versionmodel)
# These do less with the race detector than without it.
again='TestSimulation|TestSimulationOfCrowds|TestOneFaultInEachOrderOfCalls|TestTicketAlteredAtRandom'
# These start programs in real time, hundreds of them, or judge servers by their times. With the race
# detector a program needs three times as much processor time.
started='TestScript|TestStatuses|TestMessagesOfServers|TestTwoKindsOnOnePrefix|TestDatabaseOfOthers|TestDatabaseNamesArePrintedEscaped'
started+='|TestRowsOfOtherPrograms|TestTextOfOthersIsPrintedEscaped|TestListingsWithDamage|TestOneFaultIsOneStory|TestDocumentedLines'
started+='|TestDoctorShowsItsSteps|TestMeasurementsLeaveNothing|TestTwoUsersAndRoot|TestCompletionsOfNames|TestCopyStoreOfBuckets|TestGC'
started+='|TestQuickstart|TestS3|TestReservations|TestOtherKindOfStoreOnS3|TestOtherKindBehindManyObjects|TestObjectsAmongLocks|TestNoRuleWhereVersionsAreTheState|TestDynamoDB'
started+='|TestHandOver|TestNoLibraries|TestStartUpSystemCalls|TestSlowStartOfTheCommand|TestStartUpPackages'
# The libraries of these packages are large: without a cache, compiling them a second time for the race
# detector takes longer than all other tests. They have it in a long campaign.
large='(adapters|azure|cmd|compat/leaselocks|etcd|gcp|items/sqltable|store/sqlstore)(/|$)'
# with TESTS prints the packages with these tests, but for the models, the plain ones, and the adapters.
with() {
  grep -rlE --include='*_test.go' "^func ($1)\(" . | xargs -n 1 dirname |
    grep -vxF "$(printf '%s\n' "${plain[@]}")" | grep -vE '^\./(adapters/.*|proof/.*model)$' | sort -u
}
mapfile -t rest < <(with "$unraced" | grep -vE "^\./$large")
# The packages that take longest come first, so that the others run beside them.
mapfile -t raced < <(go list ./lease ./cmd/internal/command ./compat/s3verstore ./store/filestore ./items/... "${released[@]}" ./examples/... ./proof/integration/hostile |
  grep -vxF "$(go list "${plain[@]}")")
skipped=$unraced
mapfile -t unraced_packages < <(printf '%s\n' "${raced[@]}" | grep -E "^github.com/holdfast-go/holdfast/$large")
mapfile -t starting < <(with "$started" | grep -vE "^\./$large")
if [ -z "${HOLDFAST_TORTURE:-}" ]; then
  mapfile -t raced < <(printf '%s\n' "${raced[@]}" | grep -vE "^github.com/holdfast-go/holdfast/$large")
  skipped+='|'$started
else
  # It compiles the two programs again, as a release does.
  starting+=(./proof/integration/packages)
  started+='|TestPackages'
fi

without_race() {
  local status=0
  go test -vet=off -p 4 -parallel 4 -timeout 25m -run "^($unraced|$again)\$" "$@" "${rest[@]}" || status=1
  go test -vet=off -timeout 25m "$@" "${plain[@]}" || status=1
  return "$status"
}
start_programs() {
  local status=0
  go test -vet=off -p 2 -parallel 4 -timeout 25m "$@" "${unraced_packages[@]}" || status=1
  go test -vet=off -p 2 -timeout 25m -run "^($started)\$" "$@" "${starting[@]}" || status=1
  return "$status"
}

# What runs without the race detector computes, in virtual time. It, the models and the checks get the processor time
# that all other tests leave, those with servers too.
idly "$work/without-race" without_race "$@"
without_race=$!
idly "$work/models" go test -vet=off -p 1 -timeout 25m "$@" "${models[@]}"
models_run=$!
beside "$work/programs" start_programs "$@"
programs=$!

# Many packages wait rather than compute, so that more of them run than there are cores.
# internal/lint.sh vets them.
failed=0
echo "== go test"
"${race[@]}" -vet=off -p 4 -parallel 4 -timeout 25m -skip "^($skipped)\$" "$@" "${raced[@]}" || failed=1

# The suites have run with the race detector on stores in the process. Here the servers
# need the processors. A long campaign has the time for both.
on_servers=(go test)
if [ -n "${HOLDFAST_TORTURE:-}" ]; then on_servers=("${race[@]}"); fi
on_servers+=(-vet=off -timeout 25m)
# finish NAME NUMBER TITLE: shows the output of what ran beside, when it has ended.
finish() {
  local status=0
  await "$2" || status=1
  echo "== $3"
  cat "$work/$1"
  return "$status"
}
# Where a server cannot be had, the tests that need it say so.
await "$servers" || cat "$work/servers"
# Under a load of other tests, servers answer too late. So the tests that compute much come last, beside each other only.
# With their data in memory, servers cost less processor time: no test cuts their power.
if [ "$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 ] 2>/dev/null; then
  export TEST_SERVER_DATA=/dev/shm # it has 4 GB
fi
# Stores and adapters with packages of their own mostly wait, for leases to expire and for servers to start again:
# one after the other.
waiting=(./proof/integration/{gcs,redis,etcd,nats,leaselocks,certstore,leaderlock,migrations})
# These compute much. The servers of Kubernetes and OpenTofu take minutes of processor time to build, which only a
# long campaign does. Later runs have them.
computing=(./proof/integration/{dashboard,azure})
for server in kubernetes:kube-apiserver tofu:tofu; do
  if [ -n "${HOLDFAST_TORTURE:-}" ] || compgen -G "$(cache .)/${server#*:}-v*/" >/dev/null; then
    computing+=("./proof/integration/${server%:*}")
  else
    echo "== not run: proof/integration/${server%:*}. make torture builds its server"
  fi
done
mapfile -t integration < <(go list ./proof/integration/... | grep -vE '/(hostile|packages|kubernetes|tofu|site)$' |
  grep -vxF "$(go list "${waiting[@]}" "${computing[@]}")")
# The tests of single faults judge how long a server takes, so they run alone, which takes seconds.
strict=UnderOneFault
beside "$work/waiting" "${on_servers[@]}" -p 1 "$@" "${waiting[@]}"
waiting_run=$!
computes=TestSQLItems
# The tests of buckets with versions mostly wait, for writes to settle, and take a write
# that lasts two seconds for one of unknown outcome, which fails them. So they run only beside tests that wait, and
# beside what has a lower priority: from here on, the last programs have one, too.
renice -n 10 -g "$programs" >/dev/null 2>&1 || true # if they have not ended
echo "== go test of buckets with versions"
"${on_servers[@]}" -parallel 96 "$@" -run TestVersioned ./proof/integration || failed=1
finish programs "$programs" "go test of programs, and of packages with large libraries" || failed=1
echo "== go test against real servers"
"${on_servers[@]}" "$@" -skip "$strict|$computes|TestVersioned" "${integration[@]}" || failed=1
finish waiting "$waiting_run" "go test of stores and adapters with packages of their own" || failed=1
beside "$work/items" "${on_servers[@]}" "$@" -run "$computes" ./proof/integration
items=$!
echo "== go test of what computes much"
"${on_servers[@]}" -p 1 "$@" "${computing[@]}" || failed=1
finish items "$items" "go test of items in databases" || failed=1
finish without-race "$without_race" "go test without the race detector" || failed=1
finish models "$models_run" "go test of models" || failed=1
finish lint "$lint" "internal/lint.sh" || failed=1
echo "== go test of single faults"
"${on_servers[@]}" "$@" -run "$strict" ./proof/integration || failed=1
exit "$failed"

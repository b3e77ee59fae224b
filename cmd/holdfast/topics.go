package main

import (
	"github.com/spf13/cobra"
)

// topic is a page of help that belongs to no command. It is also a page of the manual.
type topic struct {
	name, section, short, long string
}

// topicCommands are the pages of help that are not of a command.
func (a *app) topicCommands(root *cobra.Command) (all []*cobra.Command) {
	for _, t := range topics(root) {
		all = append(all, &cobra.Command{
			Use: t.name, Short: t.short, Long: t.long,
			Annotations: map[string]string{"section": t.section},
		})
	}
	return all
}

func topics(root *cobra.Command) []topic {
	all := []topic{
		{"stores", "7", "Where locks and checkpoints are, and the parameters of their URLs", storesTopic},
		{"object-urls", "7", "The URLs of objects and commit logs, and their parameters", objectURLsTopic},
		{"permissions", "7", "The rights that each store needs", permissionsTopic},
		{"leases", "7", "How a lock is held, lost and taken over, and the states of locks", leasesTopic},
		{"processes", "7", "The command of run and lead: signals, environment, other processes", processesTopic},
		{"sharing", "7", "Readers, semaphores, and waiting in order", sharingTopic},
		{"once-per", "7", "Jobs that run once in each period, on one of several machines", onceTopic},
		{"hooks", "7", "Programs to start around a run, and metrics", hooksTopic},
		{"environment", "7", "The variables that are read and set", environmentTopic},
		{"exit-status", "7", "The exit statuses of all commands", exitTopic},
		{"config", "5", "holdfast.conf, the file with named stores", configTopic},
	}
	return append([]topic{{"commands", "7", "All commands, topics and global flags", commandsTopic(root, all)}}, all...)
}

const storesTopic = `A store is named by --store, HOLDFAST_STORE, or a name of holdfast.conf.

  file:/PATH                        a directory on a local disk
  sqlite:/PATH                      a file of SQLite
  postgres://HOST/DATABASE/PREFIX   tables in PostgreSQL
  s3://BUCKET/PREFIX                a bucket with conditional writes
  s3+versioned://BUCKET/PREFIX      a bucket with versions and without conditional writes
  dynamodb://TABLE/PREFIX           a table of DynamoDB

Without a store, root uses file:/var/lib/holdfast. Each other user uses
file:~/.local/state/holdfast (below XDG_STATE_HOME, if that is set). Two users exclude each other
only if both name one store. Name one for all users in /etc/holdfast.conf: see holdfast help
config.

Parameters follow the URL, as in s3://locks/prod?region=eu-central-1.

  file:          network=allow: use a file system that may not be local.
                 unsafe=owner, unsafe=writable, unsafe=link: accept a risk (docs/security.md)
  sqlite:        network, unsafe, table, prefix
  postgres:      table, prefix, and those of libpq: sslmode, sslrootcert, host, port, user ...
  s3:, s3+versioned:, dynamodb:
                 region, endpoint (http://HOST:PORT), profile, anonymous, fips, dualstack,
                 timeout (of a request); unsafe, but not for s3+versioned
  s3:, s3+versioned:
                 path_style, sse, sse_key, acl, expected_bucket_owner, checksums
  s3+versioned:  put_lifetime: the longest time that a PUT may take.
                 settle_delay: the pause between a PUT and the listing that confirms it

Credentials for AWS come from where the AWS command finds them, and never from the URL. Objects and
commit logs have more parameters: see holdfast help object-urls. For rights on the store see
holdfast help permissions. "holdfast doctor" tests whether leases are safe on a store.`

const objectURLsTopic = `The URL of an object is that of a bucket and the key of the object: s3://BUCKET/KEY or
file:DIR/KEY. DIR is a directory that is a bucket. If several directories of the path are, the
one nearest to the key counts. The first put makes a bucket of a directory that is new or empty;
file:DIR//KEY says where the directory ends. In a key write %25 for %, %3F for ? and %23 for #.

An s3: URL can name what keeps a condition that the server lacks:

  reserve              the store in which writers make reservations. It is dynamodb://TABLE, a table
                       as that of object_store, which "holdfast init" makes. Or it is the URL of
                       another store, with escapes
  reserve_timeout      how long a write may take under a reservation (default 20s)
  reserve_clock_skew_rate
                       after how many timeouts (default 3) a waiter takes over the reservation of a
                       writer that died
  reserve_ttl          how long a table of DynamoDB keeps a reservation (default 1h)
  reserve_release      false: the reservation of an applied write stays, which saves a request. If
                       the object gets that state again, the next writer waits until the
                       reservation ends
  conditional_put      the value of object_store. dynamo:TABLE or dynamo:TABLE:MILLISECONDS: see
                       reserve. etag, etag-put-if-not-exists: the server's own conditions, which
                       Holdfast tests and uses anyway. disabled: conditional puts are refused
  copy_if_not_exists   the value of object_store. dynamo:... as above; multipart: as etag.
                       header:NAME:VALUE or header-with-status:NAME:VALUE:STATUS: with this header
                       the server refuses a copy (status 412, or STATUS) if its destination exists
  dynamo_endpoint, dynamo_region
                       those of the table, if they are not those of the bucket
  index                self, or the URL of a store. Objects then have names of their own, and an
                       index says which. Only programs that use the index see them
  unique_bodies        true: you promise that no two bodies of one key are equal. Fences then work
                       without an index

"holdfast object stat URL" prints how each condition is kept.`

const permissionsTopic = `Each file below is a policy to paste. Put your names in the place of BUCKET, PREFIX, TABLE, REGION
and ACCOUNT. The files are in the folder policies of the release, and of the source.

  s3://BUCKET/PREFIX             aws/s3-locks.json: locks and checkpoints
  doctor, sweep on a bucket      aws/s3-doctor.json, in addition
  put, get, object, commit-log   aws/s3-objects.json
  object sweep                   aws/s3-sweep.json: parts of uploads that were interrupted
  s3+versioned://BUCKET/PREFIX   aws/s3-versioned-locks.json
  objects encrypted by KMS       aws/kms.json, in addition
  dynamodb://TABLE/PREFIX        aws/dynamodb-locks.json
  reserve=dynamodb://TABLE       aws/dynamodb-reservations.json
  item --table dynamodb://TABLE  aws/dynamodb-items.json
  init, item init                aws/dynamodb-init.json, in addition
  postgres://                    postgres/grants.sql

A directory for several users belongs to a group. Its mode gives the same group to new files:

  install -d -m 2770 -g jobs /var/lib/jobs-locks

If the store refuses for lack of rights, the exit status is 77.`

const leasesTopic = `A lock is held under a lease: the holder must renew it, and loses it if it cannot.

  --ttl              how long a lease lasts without a renewal (default 30s; lock 1h)
  --margin           reserve for late timers (default: TTL/10)
  --grace            time between TERM and KILL after a loss (default: TTL/4, at most 5s)
  --max-clock-drift  how much the rate of a clock may differ from real time (default 0.01: 1 %)

The holder renews after a third of the TTL. It trusts its lease for TTL - margin - grace, 22 seconds
by default. If no renewal was confirmed for so long, the lease is lost, and the holder must stop
within the grace.

A waiter takes over when the record has not changed for the TTL and the clock drift: 30.6 seconds
by default. In a directory it takes over at once if the holder's process is dead. No takeover
compares the wall clocks of two machines.

All programs that exclude each other must name the same store. They must also give the same
--max-clock-drift, as must ls, show and watch. Each lease has its own TTL, which is in its record.

"holdfast ls" prints these states. To --state the first group is held.

  held (alive)       the store can prove that the holder's process lives
  held (dead)        the store can prove that it is dead
  held (orphans)     it is dead, and processes that it started still run
  expired            it was not renewed for longer than its TTL, by the store's clock
  expired?           the same, by the clocks of its holder and of this machine

  shared by 3        three readers hold it
  2 of 5 slots       a semaphore
  yield requested    a client has asked the holder to release it
  1 waits            a client waits in the queue
  free after TIME    no holder takes it before that time
  broken             a user has ended the work of the holder
  unreadable         the record is damaged

SINCE and LAST RUN are times of the holder's clock.`

const processesTopic = `run and lead start COMMAND in a process group of its own. It gets stdin, stdout, stderr, and the
foreground of the terminal. All signals that run can catch are passed on to the group.

When the lease is lost, the whole group gets TERM, and KILL after the grace. So it is dead before
another holder can take the lock. The status of run is 76. If COMMAND ends by signal N, the
status is 128+N.

Processes that COMMAND leaves running do not hold the lock:

  --wait-group    hold the lock until the last process of the group has ended (not on Windows)
  --kill-group    end the processes that COMMAND leaves running in its group

run does not see a process that has left the group.

run cannot stop a command that runs as another user. So write "sudo holdfast run ... -- COMMAND",
and not "holdfast run ... -- sudo COMMAND". While a command that run cannot stop still
runs, run prints a warning and does not end. If the lock is not lost, run keeps it until then.

COMMAND finds these variables. HOLDFAST_TOKEN is for --fence of "holdfast put", for example.

  HOLDFAST_LOCK    the name of the lock, of several the first
  HOLDFAST_TOKEN   its fencing token
  HOLDFAST_SLOT    the number of its slot, with --slots
  HOLDFAST_STORE   its store
  HOLDFAST_LOCKS   all locks that are held around COMMAND, as JSON

A run inside COMMAND that asks for one of HOLDFAST_LOCKS ends with status 75: it would wait for
ever.`

const sharingTopic = `A lock has one holder, or several:

  holdfast run report --shared -- ./read.sh      # a reader, together with other readers
  holdfast run report -- ./write.sh              # alone: waits until all readers have ended
  holdfast run downloads --slots 4 -- ./load.sh  # at most four at a time

Readers that come after a waiting writer wait for it. All runs of a semaphore name the same
--slots. Each finds the number of its slot, from 1, in HOLDFAST_SLOT. "holdfast resize NAME
--slots N" changes the number: runs that hold a slot keep it, and a later run that names another
number ends with status 73.

--fair waits in order: first come, first served among waiters with --fair. A run without it tries
now and then. With "lead --fair" a leader that ends passes the lock to the next candidate. That one
has no value until it has written its own.

These locks are under a session: one record that is renewed in place of its locks. They cannot have
--once-per or --min-interval. With --shared and --slots, --on-ask refuse sends no refusal, since one
of several holders cannot answer for the others.`

const hooksTopic = `These flags of run start a program. Its arguments are separated by blanks, and no shell reads them.

  --on-acquire PROGRAM   runs under the lock before COMMAND, and run waits for it. If it fails,
                         COMMAND is not started
  --on-release PROGRAM   runs when the lock was released, for at most a minute
  --on-lost PROGRAM      runs while COMMAND is stopped after a loss

The program finds the variables of COMMAND, and HOLDFAST_HOOK: acquire, release or lost. Its output
goes to stderr.

--on-lost warn only prints a warning, and COMMAND continues without its lock. So use it only if
the storage checks the fencing token.

--metrics FILE adds to the counters in FILE (*.prom), for the textfile collector of Prometheus' node
exporter: runs, and seconds waited and held, by lock and store. FILE also has the last exit status,
and the times of the last run and of the last success.`

const onceTopic = `  holdfast run report --once-per day -- ./report.sh

COMMAND runs at most once in each period, on one of the machines that try. Start it on all of them,
by cron or a timer, as often as you like. The first run of a period starts COMMAND. The others wait
until it has ended, or end with status 75 with -n. A run that finds COMMAND done ends with status 0,
and prints a note only with -v.

  6h, 90m, 24h                    a length, from 1s to 8784h. A length that divides a day is
                                  counted from midnight UTC
  hour, day, week, month, year    of the calendar, in UTC; a week begins on Monday
  "month Europe/Zurich"           of the calendar, in that time zone

A day has 23 or 25 hours where clocks change for summer. Name the same period and zone on all
machines.

A run counts for the period in which it began, by the clock of its machine. Its results are:

  succeeded   COMMAND ended with status 0
  failed      COMMAND ended with another status, or --timeout ended it
  died        the machine died, or the lease was lost

A run whose command could not be started does not count. --retries N allows N more attempts in
the period. An attempt begins when the next run asks. When no attempt is left, further runs end
with status 0, and print a note that -q hides.

"holdfast show NAME" and "ls" print when the last run began and ended, its result, and its holder.
"holdfast break NAME --token N" lets the job run again in its period.

The lock excludes, and does not depend on wall clocks. Periods do, so they only space runs. A clock
that is set back causes no second run in a period. If a run's clock was more than 5 minutes ahead,
later runs end with status 78 until that period, or until a break.

--min-interval is another thing: no holder, on any machine, takes the lock again before that time
has passed since run took it (at most 8784h). This also holds if COMMAND ends earlier or fails, and
if the machine restarts. run does not wait for that time to pass. The time is in the lock's record,
and processes compare it with their wall clocks: so it spaces jobs, and excludes none. A command
that a signal to run has ended, or that could not be started, does not count.`

const exitTopic = `
  0    done
  1    failed, for a reason without a status of its own
  64   the command line, or an option, is wrong
  66   not found
  69   the store cannot be reached
  73   a condition is not met, or the holder refused
  74   it is not known whether a write was applied
  75   another holder has the lock (run, hold and lock: or the status that -E names)
  76   the lease was lost, or a fence refused
  77   permission denied
  78   the store is not safe, or wrongly configured
  124  run: --timeout ended the command
  126  run: the command cannot be executed
  127  run: the command was not found

Otherwise run ends with the status of the command, or with 128+N if signal N ended it.`

const configTopic = `Two files name stores, so that root, cron and other users mean the same one. They are the user's own
~/.config/holdfast.conf (below XDG_CONFIG_HOME, if that is set), and /etc/holdfast.conf. If both
name a store, the user's own counts. HOLDFAST_CONFIG names another file in place of both.

  # a comment
  store prod = s3://locks/prod?region=eu-central-1
  store local = file:/var/lib/jobs-locks
  default = local

"holdfast --store prod ls" then uses the first. The default counts where neither --store nor
HOLDFAST_STORE names a store. Without a default it is the directory of this user's locks. -v
prints which file was used.

A file that other users can change is refused. So is a file with any other kind of line.`

const environmentTopic = `These variables set flags. The command line counts more.

  HOLDFAST_STORE              --store: the store of the locks, a URL or a name of holdfast.conf
  HOLDFAST_ALSO_STORE         --also-store of run
  HOLDFAST_HOLDER             --holder: the name of the pod or the unit, say
  HOLDFAST_TTL                --ttl
  HOLDFAST_GRACE              --grace
  HOLDFAST_MARGIN             --margin
  HOLDFAST_MAX_CLOCK_DRIFT    --max-clock-drift
  HOLDFAST_WAIT               --wait, but not that of ask
  HOLDFAST_METRICS            --metrics of run
  HOLDFAST_CHECKPOINT_FILE    --file of checkpoint
  HOLDFAST_TABLE              --table of item
  HOLDFAST_BUCKET             --bucket of item
  HOLDFAST_QUIET              --quiet
  HOLDFAST_VERBOSE            --verbose

Other flags have no variable: they say what one command does. A variable of another name that
begins with HOLDFAST_ is reported. If it may stand for HOLDFAST_STORE or HOLDFAST_CONFIG, and no
store is named, it is an error. run passes these variables on to its command, except for
HOLDFAST_WAIT and HOLDFAST_METRICS.

  HOLDFAST_CONFIG   the file with named stores, in place of holdfast.conf
  XDG_STATE_HOME    the folder of the default store and of handles, if not of root
  XDG_CONFIG_HOME   the folder of the user's own holdfast.conf
  AWS_...           the region, the profile and the credentials, as for the AWS command
  PGPASSWORD, ...   those of libpq, for postgres:

run sets for its command:

  HOLDFAST_LOCK     the name of the lock, of several the first; with --fence it stands for --lock
  HOLDFAST_TOKEN    its fencing token
  HOLDFAST_SLOT     the number of its slot, with --slots
  HOLDFAST_STORE    its store
  HOLDFAST_LOCKS    all locks that are held around the command, as JSON
  HOLDFAST_HOOK     for the programs of --on-acquire, --on-release and --on-lost: which it is

A variable that is set and empty counts as not set where it is a number, a time, a switch or a text
for people. Where it names something, such as a store or a file, it is an error: it may be a secret
that is missing.`

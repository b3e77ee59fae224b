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
		{"processes", "7", "How run and lead start COMMAND: signals, environment, processes", processesTopic},
		{"sharing", "7", "Readers, semaphores, and waiting in order", sharingTopic},
		{"once-per", "7", "Jobs that run once in each period, on one of several machines", onceTopic},
		{"hooks", "7", "Programs to start around a run, and metrics", hooksTopic},
		{"environment", "7", "The environment variables that holdfast reads and sets", environmentTopic},
		{"exit-status", "7", "The exit statuses of all commands", exitTopic},
		{"config", "5", "holdfast.conf, the file with named stores", configTopic},
	}
	return append([]topic{{"commands", "7", "All commands, topics and global flags", commandsTopic(root, all)}}, all...)
}

const storesTopic = `Name a store by --store or HOLDFAST_STORE. The value is a URL, or a name from holdfast.conf.

  file:/PATH                        a directory on a local disk
  sqlite:/PATH                      a file of SQLite
  postgres://HOST/DATABASE/PREFIX   tables in PostgreSQL
  s3://BUCKET/PREFIX                a bucket with conditional writes
  s3+versioned://BUCKET/PREFIX      a bucket with versions and without conditional writes
  dynamodb://TABLE/PREFIX           a table of DynamoDB

Without a store, root uses file:/var/lib/holdfast. Each other user uses
file:~/.local/state/holdfast (below XDG_STATE_HOME, if that is set). Two users exclude each other
only if both use the same store. To give all users the same store, name it in
/etc/holdfast.conf: see holdfast help config.

Parameters follow the URL, for example s3://locks/prod?region=eu-central-1.

  file:          network=allow: use a file system that may not be local.
                 unsafe=owner, unsafe=writable, unsafe=link: accept a risk (docs/security.md)
  sqlite:        network, unsafe, table, prefix
  postgres:      table, prefix, and the parameters of libpq: sslmode, host, user, ...
  s3:, s3+versioned:, dynamodb:
                 region, endpoint (http://HOST:PORT), profile, anonymous, fips, dualstack,
                 timeout (of a request); unsafe, but not for s3+versioned
  s3:, s3+versioned:
                 path_style, sse, sse_key, acl, expected_bucket_owner, checksums
  s3+versioned:  put_lifetime: the longest time that a PUT may take.
                 settle_delay: the pause between a PUT and the listing that confirms it

Holdfast finds credentials for AWS in the places where the AWS command finds them, and never in
the URL. Objects and commit logs have more parameters: see holdfast help object-urls. For rights
see holdfast help permissions. "holdfast doctor" tests whether leases are safe on a store.`

const objectURLsTopic = `The URL of an object is the URL of its bucket and the key of the object: s3://BUCKET/KEY or
file:DIR/KEY. DIR is a directory that is used as a bucket. If several directories of a path are
used as buckets, the last one is DIR. The first put turns a new or empty directory into a bucket.
With file:DIR//KEY you say where DIR ends. In a key write %25 for %, %3F for ? and %23 for #.

If an S3 server lacks a condition, these parameters name a replacement for it:

  reserve              the store in which writers make reservations: dynamodb://TABLE, which
                       "holdfast init" creates as object_store does, or the escaped URL of
                       another store
  reserve_timeout      how long a write may take under a reservation (default 20s)
  reserve_clock_skew_rate
                       after how many timeouts a waiter takes over the reservation of a dead
                       writer (default 3)
  reserve_ttl          how long DynamoDB keeps a reservation in its table (default 1h)
  reserve_release      false: after a successful write, the writer does not release its
                       reservation. This saves one request. If the object gets the same
                       state again, the next writer waits until that reservation ends
  conditional_put      the same parameter as in object_store. dynamo:TABLE and
                       dynamo:TABLE:MILLISECONDS: like reserve. etag and
                       etag-put-if-not-exists: the server's own conditions, which Holdfast tests
                       and uses in any case. disabled: Holdfast refuses conditional puts
  copy_if_not_exists   the same parameter as in object_store. dynamo:... and multipart: like
                       dynamo and etag of conditional_put. header:NAME:VALUE and
                       header-with-status:NAME:VALUE:STATUS: Holdfast sends this header with
                       a copy. If the destination exists, the server then refuses the copy
                       with status 412, or with STATUS
  dynamo_endpoint, dynamo_region
                       endpoint and region of the table, if they differ from those of the bucket
  index                self, or the URL of a store. Holdfast then writes each content under a
                       random name, and the index maps keys to these names. Only programs that
                       use the index find the objects
  unique_bodies        true: you promise that no two contents of one key are equal. Fences then
                       work without an index

"holdfast object stat URL" prints how the bucket keeps each condition.`

const permissionsTopic = `Each file in this list is a policy. Copy it, and replace BUCKET, PREFIX, TABLE, REGION and
ACCOUNT by your names. The files are in the folder policies of the release and of the source.

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

A directory for several users belongs to a group. With this mode new files get the same group:

  install -d -m 2770 -g jobs /var/lib/jobs-locks

If the store refuses a request because a right is missing, the exit status is 77.`

const leasesTopic = `A holder has a lock under a lease: it must renew the lease in time, or it loses the lock.

  --ttl              how long a lease lasts without a renewal (default 30s; lock 1h)
  --margin           time that the holder keeps in reserve for late timers (default: TTL/10)
  --grace            time that the work has to stop after a loss (default: TTL/4, at most 5s)
  --max-clock-drift  how much the rate of a clock may differ from real time (default 0.01: 1 %)

The holder renews after a third of the TTL. It relies on a renewal for TTL - margin - grace, 22
seconds by default. If the store confirms no renewal in that time, the lease is lost. Then the
holder must stop its work within the grace.

A waiter takes the lock if the record did not change for the TTL plus the clock drift: 30.6 seconds
by default. In a directory a waiter takes the lock at once if the process of the holder is dead.
Holdfast never compares the wall clocks of two machines for this decision.

All programs that exclude each other must name the same store, and give the same
--max-clock-drift. Give it to ls, show and watch, too. TTLs may differ, because each record
contains its TTL.

"holdfast ls" prints these states. --state held selects the states of the first group.

  held (alive)       the store can prove that the process of the holder lives
  held (dead)        the store can prove that the process of the holder is dead
  held (orphans)     the holder is dead, and processes that it started still run
  expired            by the store's clock, the holder did not renew the lease for its TTL
  expired?           the same, but by the clocks of the holder and of this machine

  shared by 3        three readers hold the lock
  2 of 5 slots       two of the five slots of a semaphore are held
  yield requested    a client has asked the holder to release the lock
  1 waits            a client waits in the queue
  free after TIME    no client can take the lock before that time
  broken             a user has ended the work of the holder
  unreadable         the record of the lock is damaged

SINCE and LAST RUN are times of the holder's clock.`

const processesTopic = `run and lead start COMMAND in a new process group. COMMAND gets stdin, stdout, stderr, and the
foreground of the terminal. run and lead pass on all signals that they can catch to that group.

If the lease is lost, run sends TERM to the whole group, and KILL after the grace. So the group is
dead before another holder can take the lock. The status of run is then 76. If signal N ends
COMMAND, the status of run is 128+N.

Processes that COMMAND leaves running do not hold the lock:

  --wait-group    run holds the lock until all processes of the group have ended (not on Windows)
  --kill-group    run stops the processes that COMMAND leaves running in its group

run does not see a process that has left the group.

run cannot stop a command that runs as another user. So write "sudo holdfast run ... -- COMMAND",
and not "holdfast run ... -- sudo COMMAND". If run cannot stop COMMAND, it prints a warning, and
ends when COMMAND ends. Until then run keeps the lock, unless the lock is lost.

run sets these variables for COMMAND. Use HOLDFAST_TOKEN for --fence of "holdfast put", for example.

  HOLDFAST_LOCK    name of the lock; of several locks, the first
  HOLDFAST_TOKEN   fencing token of that lock
  HOLDFAST_SLOT    number of the slot, with --slots
  HOLDFAST_STORE   store of the lock
  HOLDFAST_LOCKS   all locks that are held around COMMAND, as JSON

If a run inside COMMAND asks for one of HOLDFAST_LOCKS, it ends with status 75. It would wait for
ever, because COMMAND cannot end before it.`

const sharingTopic = `A lock has one holder, or several:

  holdfast run report --shared -- ./read.sh      # a reader, together with other readers
  holdfast run report -- ./write.sh              # a writer: waits until all readers have ended
  holdfast run downloads --slots 4 -- ./load.sh  # at most four runs at a time

While a writer waits, new readers wait until the writer has ended.

A lock with --slots is a semaphore. All its runs must give the same --slots. Each run finds the
number of its slot, from 1, in HOLDFAST_SLOT. "holdfast resize NAME --slots N" changes the number of
slots: runs that hold a slot keep it, and a later run with another number ends with status 73.

With --fair, runs wait in order: the first to come gets the lock first. A run without --fair has
no place in this order, and tries from time to time. With "lead --fair" a leader that ends passes
the lock to the next candidate. The new leader has no value until it writes one.

Locks with --shared, --slots or --fair belong to a session. The session has one record, which is
renewed for all its locks. These locks cannot have --once-per or --min-interval. With --shared and
--slots, --on-ask refuse writes no refusal, because one holder cannot answer for the others.`

const hooksTopic = `With these flags run starts a program. Blanks separate its arguments. run does not use a shell.

  --on-acquire PROGRAM   run has the lock, starts PROGRAM, and waits for it before it starts
                         COMMAND. If PROGRAM fails, run does not start COMMAND
  --on-release PROGRAM   run starts PROGRAM after it has released the lock. PROGRAM may run for at
                         most a minute
  --on-lost PROGRAM      run starts PROGRAM after a loss, while it stops COMMAND

PROGRAM gets the variables of COMMAND, and HOLDFAST_HOOK: acquire, release or lost. Its output
goes to stderr.

With --on-lost warn, run only prints a warning after a loss. COMMAND continues without its lock.
So use this only if the storage checks the fencing token.

With --metrics FILE, run updates the counters in FILE (*.prom). The textfile collector of
Prometheus' node exporter reads this file. It counts runs, seconds of waiting and seconds of
holding, for each lock and store. It also contains the last exit status, the time of the last run
and the time of the last success.`

const onceTopic = `  holdfast run report --once-per day -- ./report.sh

COMMAND runs at most once in each period, on one of the machines that try. Start run on all of them,
for example by cron, as often as you like. The first run of a period starts COMMAND. Other runs
wait until COMMAND has ended; with -n they end at once with status 75. If a run finds that COMMAND
has already run, it ends with status 0. With -v it prints a note.

  6h, 90m, 24h                    a length, from 1s to 8784h. A length that divides a day is
                                  counted from midnight UTC
  hour, day, week, month, year    of the calendar, in UTC; a week begins on Monday
  "month Europe/Zurich"           of the calendar, in that time zone

A day has 23 or 25 hours when clocks change for summer. Name the same period and zone on all
machines.

A run counts for the period in which it began, by the clock of its machine. Its results are:

  succeeded   COMMAND ended with status 0
  failed      COMMAND ended with another status, or --timeout ended it
  died        the machine died, or the lease was lost

If COMMAND could not be started, the run does not count. If a run failed or died, --retries N allows
up to N more attempts in the period. The next run that starts, or that already waits, makes the
next attempt. If no attempt is left, later runs end with status 0, and print a note. -q hides it.

"holdfast show NAME" and "ls" print when the last run began and ended, its result, and its holder.
"holdfast break NAME --token N" lets the job run again in its period.

The lock does not depend on wall clocks: two runs never work at the same time. A period does
depend on them. If a clock is set back, no second run starts in a period. If a run's clock was
more than 5 minutes ahead, later runs end with status 78 until that period, or until a break.

--min-interval D is different: after run takes the lock, no holder takes it again for the time D,
at most 8784h. This also holds if COMMAND ends or fails, and if the machine restarts. A run that
comes too early ends at once with status 75. The time is in the record of the lock, and runs compare
it with the wall clocks of their machines. If a signal to run ends COMMAND, or COMMAND cannot be
started, the interval does not apply.`

const exitTopic = `
  0    success
  1    an error that has no status in this list
  64   the command line, or an option, is wrong
  66   not found
  69   the store cannot be reached
  73   a condition does not hold, or the holder refused
  74   it is not known whether a write was applied
  75   another holder has the lock (run, hold and lock: this status, or that of -E)
  76   the lease was lost, or a fence refused the write
  77   permission denied
  78   the store is not safe, or wrongly configured
  124  run: --timeout ended the command
  126  run: the command cannot be executed
  127  run: the command was not found

In all other cases run ends with the status of the command, or with 128+N if signal N ended it.`

const configTopic = `A configuration file gives names to stores, so that root, cron and other users use the same store.
holdfast reads the user's file, ~/.config/holdfast.conf (below XDG_CONFIG_HOME, if that is set),
and /etc/holdfast.conf. If both files use the same name, the user's file counts. If
HOLDFAST_CONFIG names a file, holdfast reads only that file.

  # a comment
  store prod = s3://locks/prod?region=eu-central-1
  store local = file:/var/lib/jobs-locks
  default = local

With this file "holdfast --store prod ls" uses s3://locks/prod. The default counts if neither
--store nor HOLDFAST_STORE names a store. Without a default line, the default is the directory of
this user's locks. With -v, holdfast prints which file it has used.

holdfast refuses a file that other users can change, and a file with any other kind of line.`

const environmentTopic = `These variables set flags. If the command line also sets the flag, the command line counts.

  HOLDFAST_STORE              --store: the store of the locks, a URL or a name of holdfast.conf
  HOLDFAST_ALSO_STORE         --also-store of run
  HOLDFAST_HOLDER             --holder: for example the name of the pod or the unit
  HOLDFAST_TTL                --ttl
  HOLDFAST_GRACE              --grace
  HOLDFAST_MARGIN             --margin
  HOLDFAST_MAX_CLOCK_DRIFT    --max-clock-drift
  HOLDFAST_WAIT               --wait, except for ask
  HOLDFAST_METRICS            --metrics of run
  HOLDFAST_CHECKPOINT_FILE    --file of checkpoint
  HOLDFAST_TABLE              --table of item
  HOLDFAST_BUCKET             --bucket of item
  HOLDFAST_QUIET              --quiet
  HOLDFAST_VERBOSE            --verbose

Other flags have no variable, because they belong to one command line. If the environment has any
other variable that begins with HOLDFAST_, holdfast prints a note. This is an error if no store is
named and the name may be a typing error for HOLDFAST_STORE or HOLDFAST_CONFIG. run passes on these
variables to its command, except HOLDFAST_WAIT and HOLDFAST_METRICS.

  HOLDFAST_CONFIG   the configuration file, in place of both files named holdfast.conf
  XDG_STATE_HOME    the folder of the default store and of handles, except for root
  XDG_CONFIG_HOME   the folder of the user's holdfast.conf
  AWS_...           the region, the profile and the credentials, as for the AWS command
  PGPASSWORD, ...   the variables of libpq, for postgres:

run sets these variables for its command:

  HOLDFAST_LOCK     name of the lock; of several locks, the first. The default of --lock
  HOLDFAST_TOKEN    fencing token of that lock
  HOLDFAST_SLOT     number of the slot, with --slots
  HOLDFAST_STORE    store of the lock
  HOLDFAST_LOCKS    all locks that are held around the command, as JSON
  HOLDFAST_HOOK     only for the programs of --on-acquire, --on-release and --on-lost: acquire,
                    release or lost

If a variable is set but empty, and its value is a number, a time, a switch or a text for people,
holdfast ignores it. An empty variable that names a store or a file is an error, because a
secret may be missing.`

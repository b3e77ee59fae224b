package command

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

// topicCommands are the pages of help that are not of a command. Each is also a page of the manual.
func topicCommands(root *cobra.Command) []*cobra.Command {
	topic := func(name, section, short, long string) *cobra.Command {
		return &cobra.Command{Use: name, Short: short, Long: long, Annotations: map[string]string{"section": section}}
	}
	all := []*cobra.Command{
		topic("stores", "7", "The stores of locks and checkpoints, and the parameters of store URLs", storesTopic()),
		topic("object-urls", "7", "The URLs of objects and commit logs, with all parameters", objectURLsTopic),
		topic("permissions", "7", "The rights that each store needs", permissionsTopic),
		topic("leases", "7", "Renewal, loss and takeover of a lock, and the states of locks", leasesTopic),
		topic("processes", "7", "How run and lead start COMMAND: signals, environment, processes", processesTopic),
		topic("sharing", "7", "Readers, semaphores, and waiting in order", sharingTopic),
		topic("once-per", "7", "Jobs that run once in each period, on one of several machines", onceTopic),
		topic("hooks", "7", "Starting programs before and after a run, and at a loss; metrics", hooksTopic),
		topic("environment", "7", "The environment variables that holdfast reads and sets", environmentTopic),
		topic("exit-status", "7", "The exit statuses of all commands", exitTopic),
		topic("config", "5", "holdfast.conf, the file with named stores", configTopic),
	}
	return append([]*cobra.Command{topic("commands", "7", "All commands, topics and global flags", commandsTopic(root, all))}, all...)
}

// storesTopic is the page about stores.
func storesTopic() string {
	return `Name a store by --store or HOLDFAST_STORE. The value is a URL, or a name from holdfast.conf.

` + stores.StoreForms() + `
If you name no store, root uses file:/var/lib/holdfast. Each other user uses
file:~/.local/state/holdfast (or a directory below XDG_STATE_HOME, if that is set). Two users
exclude each other only if both use the same store. To give all users the same store, name it in
/etc/holdfast.conf: see holdfast help config.

Parameters follow the URL, for example s3://locks/prod?region=eu-central-1.

` + stores.StoreParameters() + `
Holdfast reads the credentials of AWS and of Google Cloud from the same places as their commands,
and never from the URL. For azblob:, set AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or
AZURE_STORAGE_SAS_TOKEN. Without these variables, Holdfast uses the identity of the machine, or that
of "az login".

"holdfast help object-urls" lists more parameters for objects and commit logs. "holdfast help
permissions" lists the rights. "holdfast doctor" tests whether leases are safe on a store.`
}

const objectURLsTopic = `The URL of an object is the URL of its bucket and the key of the object: s3://BUCKET/KEY,
gs://BUCKET/KEY, azblob://ACCOUNT/CONTAINER/KEY or file:DIR/KEY. DIR is a directory that is used as
a bucket. The first put turns a new or empty directory into a bucket. If several directories of the
path are buckets, DIR is the longest path. In file:DIR//KEY, two slashes mark the end of DIR. In a
key write %25 for %, %3F for ? and %23 for #.

If an S3 server lacks a condition, these parameters name a replacement for it:

  reserve              the store for the reservations of writers: dynamodb://TABLE, or the
                       escaped URL of another store. "holdfast init" creates TABLE in the
                       format of object_store
  reserve_timeout      the longest time of a write under a reservation (default 20s)
  reserve_clock_skew_rate
                       the number of timeouts after which a waiter takes over the reservation
                       of a dead writer (default 3)
  reserve_ttl          how long DynamoDB keeps a reservation in its table (default 1h)
  reserve_release      false: after a successful write, the writer does not release its
                       reservation. This saves one request. If the object gets the same
                       state again, the next writer waits until that reservation ends
  conditional_put      as in the library object_store. dynamo:TABLE and
                       dynamo:TABLE:MILLISECONDS name a table, as reserve does. etag and
                       etag-put-if-not-exists name the server's own conditions. Holdfast tests
                       and uses these conditions in any case. disabled: Holdfast refuses
                       conditional puts
  copy_if_not_exists   as in the library object_store. dynamo:TABLE names a table. multipart
                       names the server's own conditions. header:NAME:VALUE and
                       header-with-status:NAME:VALUE:STATUS: Holdfast sends this header with
                       a copy. If the destination exists, the server then refuses the copy
                       with status 412, or with STATUS
  dynamo_endpoint, dynamo_region
                       endpoint and region of the table, if they differ from those of the
                       bucket
  index                self, or the URL of a store. Holdfast then writes each content under a
                       random name, and the index maps keys to these names. Only programs that
                       use the index find the objects
  unique_bodies        true: you promise that no two contents of one key are equal. Fences then
                       work without an index

"holdfast object stat URL" prints how Holdfast checks each condition in the bucket.`

const permissionsTopic = `Each file in this list is a policy. Copy the file, and replace BUCKET, PREFIX, TABLE, REGION and
ACCOUNT by your names. The files are in the folder "policies" of the release and of the source.

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
  gs://                          gcp/locks.yaml; for doctor also gcp/doctor.yaml
  azblob://ACCOUNT/CONTAINER     azure/role.sh
  postgres://                    postgres/grants.sql
  mysql://                       mysql/grants.sql
  k8s://                         kubernetes/role.yaml

The page docs/stores.md has the rights for redis://, rediss://, etcd:// and nats://.

A directory for several users belongs to a group, here to the group jobs. With this mode, new
files in the directory also belong to the group:

  install -d -m 2770 -g jobs /var/lib/jobs-locks

If a right is missing, the store refuses the request, and the exit status is 77.`

const leasesTopic = `A holder has a lock under a lease. If the holder does not renew the lease in time, it loses the
lock.

  --ttl              how long a lease lasts without a renewal (default 30s). For lock: how long you
                     can rely on it (default 1h, or 1m with --renew-until). Its lease is longer
  --margin           time that the holder reserves for late timers (default: TTL/10)
  --grace            time in which the work must stop after a loss (default: TTL/4, at most 5s)
  --max-clock-drift  maximum error of the rate of a clock (default 0.01, which is 1 %)

The holder renews the lease after a third of the TTL. After each renewal it relies on the lease
for TTL - margin - grace, by default 22 seconds. If the store confirms no new renewal in that
time, the lease is lost. Then the holder must stop its work within the grace.

A waiter takes the lock if the record did not change for the TTL plus the clock drift, by default
30.6 seconds. In a directory, a waiter takes the lock at once if the process of the holder is dead.
For this decision Holdfast never compares the wall clocks of two machines. With --wait 0, a client
sees the record once. So it takes the lock only if a command on this machine saw the same record a
TTL earlier. On S3, Google Cloud Storage and Azure, it also takes the lock if the record is old.

All programs that exclude each other must name the same store, and give the same
--max-clock-drift. Also give it to ls, show and watch. The programs may use different TTLs, because
each record contains its TTL.

"holdfast ls" prints these states. --state held selects the states of the first group.

  held (alive)       the store can prove that the process of the holder lives
  held (dead)        the store can prove that the process of the holder is dead
  held (orphans)     the holder is dead, but processes that it started still run
  expired            by the store's clock, the lease was not renewed for its TTL
  expired?           by the clocks of the holder and of this machine, the lease was not renewed
                     for its TTL

  shared by 3        three readers hold the lock
  2 of 5 slots       two of the five slots of a semaphore are taken
  asked              a client has asked the holder to release the lock
  1 waits            one client waits in the queue
  free after TIME    no client can take the lock before that time
  broken             a user has ended the work of the holder
  unreadable         the record of the lock is damaged

SINCE and LAST RUN show times of the holder's clock.`

const processesTopic = `run and lead start COMMAND in a new process group. COMMAND gets stdin, stdout, stderr, and the
foreground of the terminal. run and lead send all signals that they can catch to that group.

If the lease is lost, run sends TERM to the whole group, and KILL after the grace. So the group is
dead before another holder can take the lock. The status of run is then 76. If signal N ends
COMMAND, the status of run is 128+N.

When COMMAND has ended, run releases the lock, even if other processes of the group still run:

  --wait-group    run holds the lock until all processes of the group have ended (not on Windows)
  --kill-group    run stops the remaining processes of the group, and then releases the lock

run does not know of a process that has left the group.

run cannot stop a command that runs as another user. So write "sudo holdfast run ... -- COMMAND",
and not "holdfast run ... -- sudo COMMAND". If run cannot stop COMMAND, run prints a warning, and
waits for the end of COMMAND. During this wait run holds the lock, unless the lease is lost.

run sets these variables for COMMAND. Use HOLDFAST_TOKEN for --fence of "holdfast put", for example.

  HOLDFAST_LOCK    name of the lock; of several locks, the first
  HOLDFAST_TOKEN   fencing token of that lock
  HOLDFAST_SLOT    number of the slot, with --slots
  HOLDFAST_STORE   store of the lock
  HOLDFAST_LOCKS   all locks that are held around COMMAND, as JSON

If COMMAND starts another run for one of these locks, that run ends at once with status 75.
Otherwise the two would wait for each other.`

const sharingTopic = `A lock has one holder, or several holders:

  holdfast run report --shared -- ./read.sh      # a reader, together with other readers
  holdfast run report -- ./write.sh              # a writer: waits until all readers have ended
  holdfast run downloads --slots 4 -- ./load.sh  # at most four runs at a time

While a writer waits, new readers wait until the writer has ended.

A lock with --slots is a semaphore. All its runs must give the same --slots. HOLDFAST_SLOT contains
the number of the run's slot, from 1. "holdfast resize NAME --slots N" changes the number of slots.
Runs that hold a slot keep it. A later run with another number ends with status 73.

Runs with --fair wait in a queue, and get the lock in the order of their arrival. A run without
--fair does not enter the queue, and tries from time to time. When a leader with "lead --fair"
ends, it passes the lock to the next candidate. The value is empty until the new leader writes one.

A holder with --shared, --slots or --fair has a session. The session has one record, and a renewal
of this record renews all locks of the session. These flags exclude --once-per and --min-interval.
With --shared or --slots, "--on-ask refuse" continues COMMAND, but ask gets no answer: one holder
cannot answer for the others.`

const hooksTopic = `With these flags run starts PROGRAM. Blanks separate the arguments of PROGRAM. run does not use a
shell.

  --on-acquire PROGRAM   run takes the lock, runs PROGRAM, and then starts COMMAND. If PROGRAM
                         fails, run does not start COMMAND
  --on-release PROGRAM   run releases the lock, and then runs PROGRAM for at most a minute
  --on-lost PROGRAM      after a loss, run starts PROGRAM, and at the same time stops COMMAND

The program of --on-acquire works under the lock. So a loss, a signal to run or "holdfast ask" stops
the program in the same way as COMMAND. Then run does not start COMMAND.

PROGRAM gets the variables of COMMAND. It also gets HOLDFAST_HOOK with the value acquire, release
or lost. The output of PROGRAM goes to stderr.

With --on-lost warn, run only prints a warning after a loss. COMMAND continues without the lock.
So use this only if the storage checks the fencing token.

With --metrics FILE, run updates the counters in FILE (*.prom). The textfile collector of the
Prometheus node exporter reads FILE. For each lock and store, FILE contains the number of runs, the
seconds of waiting and the seconds of holding. FILE also contains the last exit status, the time of
the last run and the time of the last success.`

const onceTopic = `  holdfast run report --once-per day -- ./report.sh

COMMAND runs at most once in each period, on one of several machines. Start run on all machines,
for example by cron, as often as you like. The first run of a period starts COMMAND. Other runs
wait until COMMAND has ended. With -n they end at once with status 75. If COMMAND has already run
in the period, a run ends with status 0. With -v that run also prints a note.

  6h, 90m, 24h                    a fixed length, from 1s to 8784h. If a day is a multiple of the
                                  length, a period begins at midnight UTC
  hour, day, week, month, year    a calendar period in UTC; a week begins on Monday
  "month Europe/Zurich"           a calendar period in that time zone

When clocks change for summer or winter, a day in such a zone has 23 or 25 hours. Name the same
period and zone on all machines.

A run counts for the period in which it began, by the clock of its machine. Its results are:

  succeeded   COMMAND ended with status 0
  failed      COMMAND ended with another status, or --timeout ended it
  died        the machine died, or the lease was lost

If run cannot start COMMAND, the run does not count. If a run failed or died, --retries N allows
up to N more attempts in the period. The next run that starts or already waits makes the next
attempt. If no attempt is left, later runs end with status 0 and print a note. -q hides the note.

"holdfast show NAME" and "ls" print when the last run began and ended, its result, and its holder.
"holdfast break NAME --token N" lets the job run again in its period.

The lock does not depend on wall clocks: two runs never work at the same time. Periods depend on
wall clocks. If you set a clock back, no second run starts in a period. If the clock of a run was
more than 5 minutes ahead, later runs end with status 78. This ends with that period, or with a
break.

--min-interval D is different. After run takes the lock, no other run can take the lock for the
time D, at most 8784h. This is also true if COMMAND fails, or if the machine restarts. A run that
comes too early waits until then. With -n it ends at once with status 75. The record of the lock
contains the end of the interval. Runs compare this time with the wall clocks of their machines. If
a signal to run ends COMMAND, or if run cannot start COMMAND, the interval does not apply.`

const exitTopic = `
  0    success
  1    an error that has no status in this list
  64   the command line or an option is wrong
  66   not found
  69   the store cannot be reached
  73   a condition is not true, or the holder refused the request
  74   the reply of the store was lost: the write may have been applied, or not
  75   another holder has the lock; in run, hold and lock, -E changes this status
  76   the lease was lost, or a fence refused the write
  77   permission denied
  78   the store is not safe, or its configuration is wrong
  124  run: --timeout ended the command
  126  run: the command cannot be executed
  127  run: the command was not found

Otherwise run ends with the status of its command. If signal N ended the command, this is 128+N.`

const configTopic = `A configuration file gives names to stores. Then root, cron and other users can name the same store.
holdfast reads two files: ~/.config/holdfast.conf of the user, and /etc/holdfast.conf. If
XDG_CONFIG_HOME is set, the user's file is below that directory. If both files define the same
name, holdfast uses the user's file. If HOLDFAST_CONFIG names a file, holdfast reads only that file.

  # a comment
  store prod = s3://locks/prod?region=eu-central-1
  store local = file:/var/lib/jobs-locks
  default = local

With this file "holdfast --store prod ls" uses s3://locks/prod. If neither --store nor
HOLDFAST_STORE is set, holdfast uses the default. If the file has no default line, holdfast uses
the directory of this user's locks. With -v, holdfast prints the name of the file that it used.

holdfast refuses a file that other users can change. It also refuses a file with a line of any
other kind.`

const environmentTopic = `These variables set flags. If the command line also sets the flag, holdfast ignores the variable.

  HOLDFAST_STORE              --store: the store of the locks, a URL or a name of holdfast.conf
  HOLDFAST_ALSO_STORE         --also-store of run
  HOLDFAST_HOLDER             --holder, for example the name of a pod or a unit
  HOLDFAST_HISTORY            --history, 1 to keep a history of each lock and checkpoint
  HOLDFAST_TTL                --ttl
  HOLDFAST_GRACE              --grace
  HOLDFAST_MARGIN             --margin
  HOLDFAST_MAX_CLOCK_DRIFT    --max-clock-drift
  HOLDFAST_WAIT               --wait, but not --wait of ask
  HOLDFAST_METRICS            --metrics of run
  HOLDFAST_CHECKPOINT_FILE    --file of checkpoint
  HOLDFAST_TABLE              --table of item
  HOLDFAST_BUCKET             --bucket of item
  HOLDFAST_QUIET              --quiet
  HOLDFAST_VERBOSE            --verbose

Other flags have no variable. If the environment has another variable that begins with HOLDFAST_,
holdfast prints a note and ignores the variable. If you name no store, and if the variable looks
like HOLDFAST_STORE or HOLDFAST_CONFIG, holdfast ends with an error. The command of run inherits
all variables above, except HOLDFAST_WAIT and HOLDFAST_METRICS.

  HOLDFAST_CONFIG   the configuration file that replaces both files named holdfast.conf
  XDG_STATE_HOME    the folder of the default store and of handles (root ignores it)
  XDG_CONFIG_HOME   the folder of the user's holdfast.conf
  AWS_...           the region, the profile and the credentials, as for the AWS command
  GOOGLE_APPLICATION_CREDENTIALS
                    the file of credentials for gs:, as for the Google Cloud command
  AZURE_...         the credentials, as for the Azure command
  PGPASSWORD, ...   the variables of libpq, for postgres:
  MYSQL_PWD         the password for mysql:
  REDIS_PASSWORD    the password for redis: and rediss:
  ETCDCTL_USER      USER:PASSWORD for etcd:. ETCDCTL_PASSWORD: the password alone
  KUBECONFIG        the files for k8s:, as for kubectl
  NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_CREDS
                    the credentials for nats:, as for the command nats

run sets these variables for its command:

  HOLDFAST_LOCK     name of the lock; of several locks, the first. The default of --lock
  HOLDFAST_TOKEN    fencing token of that lock
  HOLDFAST_SLOT     number of the slot, with --slots
  HOLDFAST_STORE    store of the lock
  HOLDFAST_LOCKS    all locks that are held around the command, as JSON
  HOLDFAST_HOOK     only for the programs of --on-acquire, --on-release and --on-lost: acquire,
                    release or lost

A variable for a number, a time, a switch or a text for people may be empty: holdfast ignores it.
If an empty variable names a store or a file, holdfast ends with an error, because the value may be
missing by mistake.`

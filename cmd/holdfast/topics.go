package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// topic is a page of help that belongs to no command. It is also a page of the manual.
type topic struct {
	name, section, short, long string
}

// topicCommands are the pages of help beside the commands.
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
	return []topic{
		{"stores", "7", "Where locks and checkpoints can lie, and the parameters of their URLs", storesTopic},
		{"periods", "7", "Jobs that run once in a period, among all machines", periodsTopic},
		{"environment", "7", "The variables that are read and set", environmentTopic(root)},
		{"exit-status", "7", "The exit statuses of all commands", exitTopic},
		{"holdfast.conf", "5", "The file with named stores", configTopic},
	}
}

const storesTopic = `A store is named by --store, HOLDFAST_STORE, or a name of holdfast.conf.

  file:/PATH                        a directory on a local disk
  sqlite:/PATH                      a file of SQLite
  postgres://HOST/DATABASE/PREFIX   tables in PostgreSQL
  s3://BUCKET/PREFIX                a bucket with conditional writes
  s3+versioned://BUCKET/PREFIX      a bucket with versions and without conditional writes
  dynamodb://TABLE/PREFIX           a table of DynamoDB

Without a store root has file:/var/lib/holdfast, and each other user
file:~/.local/state/holdfast (below XDG_STATE_HOME, if that is set): so root and a user, or
two users, do not exclude each other there. Name one store for all in /etc/holdfast.conf.

A directory for several users belongs to a group, and new files in it, too:

  install -d -m 2770 -g jobs /var/lib/jobs-locks

Parameters follow the URL, as in s3://locks/prod?region=eu-central-1.

  file:          network=allow (a file system that is not known to be local), unsafe=owner,
                 unsafe=writable, unsafe=link (risks that are accepted; see docs/security.md)
  sqlite:        network, unsafe, table, prefix
  postgres:      table, prefix, and those of libpq: sslmode, sslrootcert, host, port, user ...
  s3:, s3+versioned:, dynamodb:
                 region, endpoint (http://HOST:PORT), profile, anonymous, fips, dualstack,
                 timeout (of a request); unsafe, but for s3+versioned
  s3:, s3+versioned:
                 path_style, sse, sse_key, acl, owner, checksums
  s3+versioned:  life and settle: for how long a PUT may be under way, and the pause after it

Rights on AWS. For s3://BUCKET/PREFIX: s3:GetObject, s3:PutObject and s3:DeleteObject on
arn:aws:s3:::BUCKET/PREFIX/*, and s3:ListBucket on arn:aws:s3:::BUCKET. For s3+versioned also
s3:GetObjectVersion and s3:DeleteObjectVersion, and on the bucket s3:ListBucketVersions,
s3:GetBucketVersioning, s3:GetLifecycleConfiguration, s3:GetBucketObjectLockConfiguration. For
dynamodb: dynamodb:GetItem, dynamodb:PutItem, dynamodb:UpdateItem, dynamodb:DeleteItem,
dynamodb:Scan, dynamodb:Query and dynamodb:DescribeTable on the table; dynamodb:CreateTable,
dynamodb:DescribeTimeToLive and dynamodb:UpdateTimeToLive for "holdfast init". Credentials
come from where the AWS command has them, and never from the URL.

Objects and logs have URLs of their own, with the key behind the store: file:DIR/KEY and
s3://BUCKET/KEY. DIR is the nearest directory above that is a bucket; the first put makes one
of a directory that is new or empty, and file:DIR//KEY says where it ends. In a key write %25
for %, %3F for ? and %23 for #. For s3: further parameters say how conditions are kept that
the server lacks, and how fences are:

  reserve              the store in which writers make reservations: dynamodb://TABLE, a table
                       as that of object_store ("holdfast init" makes it), or the URL of any
                       other store, with escapes
  reserve_timeout      how long a write may take under one (20s)
  reserve_rate         a waiter waits for this many timeouts (3) before it takes over the
                       reservation of a writer that died
  reserve_ttl          how long a table of DynamoDB keeps a reservation (1h)
  reserve_release      false: the reservation of a write that was applied stays, for one
                       request less; if the object gets that state again, the next writer
                       waits until it is over
  conditional_put      as object_store has it: dynamo:TABLE or dynamo:TABLE:MILLISECONDS;
                       etag, etag-put-if-not-exists: the server's own conditions, which are
                       tried and used anyway; disabled: conditional puts are refused
  copy_if_not_exists   dynamo:... as before; multipart: as etag; header:NAME:VALUE or
                       header-with-status:NAME:VALUE:STATUS: the server refuses a copy with
                       this header, with 412 or this status, if its destination exists
  dynamo_endpoint, dynamo_region
                       of that table, if they are not those of the bucket
  index                self, or the URL of a store: objects lie under names of their own, and
                       an index says which; only programs with that index see them
  distinct_bodies      true: no two bodies of one key are equal, so that fences can be kept

"holdfast doctor" tries out whether leases are safe on a store.`

const periodsTopic = `  holdfast run report --once-per day -- ./report.sh

runs the command at most once in each period, whichever machines try and however often. Start
it on all of them, by cron or a timer, as often as you like: the first one of each period runs
the command. While it runs, the others wait until it has ended, or end with status 75 with -n.
A call that finds that the command is done already ends with status 0, and says so only with -v.

A period is

  6h, 90m, 24h                    a length, from 1s to 8784h; what divides a day is counted
                                  from midnight UTC
  hour, day, week, month, year    of the calendar, in UTC; a week begins on Monday
  "month Europe/Zurich"           of the calendar, in that time zone

A day has 23 or 25 hours where clocks are set for summer. Name the same period, and the same
zone, on all machines.

A run counts for the period in which it began, by the clock of its machine. It is done if the
command ends with status 0. Else it has failed: --retries N lets it be tried again in the same
period, N times, whenever the next one asks. A run whose machine died, whose lease was lost, or
which --timeout ended, has failed, too; one whose command could not be started does not count. When
no try is left, further calls end with status 0, and print a note, which -q hides.

"holdfast show NAME" and "ls" tell when the last run began and ended, its outcome, and who ran
it; "show --json" has it as last_run. "holdfast break NAME --token N" takes the last run back, so
that the job may run again in its period.

Periods compare the wall clocks of machines. They space runs, and exclude none: the lock does
that, and rests on no wall clock. A clock that is set back never
makes a second run in a period. After a run by a clock that is ahead by more than 5 minutes,
the others end with status 78 until they have reached its period or the run is taken back.
--min-interval is something else: the least time between two runs.`

const exitTopic = `
  0    done
  1    failed, for a reason without a status of its own
  64   the command line, or an option, is wrong
  66   not found
  69   the store cannot be reached
  73   a condition is not met
  74   the outcome of a write is not known
  75   the lock is busy (run, hold and lock: or what -E says)
  76   the lease was lost, or a fence refused
  77   no rights
  78   the store is not safe, or misconfigured
  124  run: --timeout ended the command
  126  run: the command cannot be executed
  127  run: the command is not there

run otherwise ends with the status of the command, or with 128+n if signal n ended it.`

const configTopic = `Two files name stores, so that root, cron and other users mean the same one: the user's own
~/.config/holdfast.conf (below XDG_CONFIG_HOME, if that is set), and /etc/holdfast.conf. The
user's own counts more. HOLDFAST_CONFIG names another file in place of both.

  # a comment
  store prod = s3://locks/prod?region=eu-central-1
  store local = file:/var/lib/jobs-locks
  default = local

"holdfast --store prod ls" then uses the first. The default is used where neither --store
nor HOLDFAST_STORE names a store; without one it is the directory of this user's locks. -v
says which file was used. A file that other users could change is refused, and so is one
with a line that is none of these.`

// variables returns the environment variables of the flags of a command and those below it.
func variables(root *cobra.Command) []string {
	flags := map[string]bool{}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		note := func(f *pflag.Flag) {
			if f.Name != "help" && f.Name != "token" && f.Name != "recursive" && f.Name != "version" && !f.Hidden {
				flags[variableOf(f.Name)] = true
			}
		}
		// Not LocalFlags: that merges the flags of all parents, in half a millisecond.
		cmd.Flags().VisitAll(note)
		cmd.PersistentFlags().VisitAll(note)
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	visit(root)
	return slices.Sorted(maps.Keys(flags))
}

// environmentTopic lists the environment variables.
func environmentTopic(root *cobra.Command) string {
	names := variables(root)
	var list strings.Builder
	for len(names) > 0 {
		n := min(3, len(names))
		fmt.Fprintf(&list, "  %s\n", strings.Join(names[:n], " "))
		names = names[n:]
	}
	return `Each flag can be set by a variable, HOLDFAST_WAIT for --wait, and the command line counts
more. There is none for --recursive, nor for --token: HOLDFAST_TOKEN is what run tells its command. run and lead keep from their command
the variables of their own flags, but for those that say how leases are held, and where:
HOLDFAST_TTL, _MARGIN, _GRACE, _MAX_CLOCK_DRIFT, _HOLDER and _ALSO_STORE.

A variable of another name that begins with HOLDFAST_ is reported. If it may stand for
HOLDFAST_STORE or HOLDFAST_CONFIG, and no store is named, it is an error.

` + list.String() + `
  HOLDFAST_CONFIG   the file with named stores, in place of holdfast.conf
  XDG_STATE_HOME    where the default store, handles and what is remembered lie, if not root's
  XDG_CONFIG_HOME   where the user's own holdfast.conf lies
  AWS_...           the region, the profile and the credentials, as for the AWS command
  PGPASSWORD, ...   those of libpq, for postgres:

run sets for its command:

  HOLDFAST_LOCK     the name of the lock, of several the first
  HOLDFAST_TOKEN    its fencing token
  HOLDFAST_SLOT     the number of its slot, with --slots
  HOLDFAST_STORE    its store
  HOLDFAST_LOCKS    all locks that are held around the command, as JSON
  HOLDFAST_HOOK     for the programs of --on-acquire, --on-release and --on-lost: which it is

A variable that is set and empty counts as not set where it is a number, a time, a switch
or a text for people. Where it names something (a store, a state file, a table, a bucket, a program,
a period, a version) it is an error, since that may be a secret that is missing.`
}

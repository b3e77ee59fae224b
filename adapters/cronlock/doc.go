// Package cronlock runs each tick of a periodic job on one machine. It has jobs and a wrapper for
// robfig/cron, and [Locker.Do] for any other scheduler.
//
//	locker, err := cronlock.New(st, "billing", lease.Every(time.Minute), nil)
//	scheduler := cron.New()
//	_, err = scheduler.AddJob("* * * * *", locker.Job(ctx, "report", func(ctx context.Context, guard *lease.Guard) error {
//		return report(ctx, guard.Token())
//	}))
//
// # Ticks
//
// A lock alone does not suffice for a fast job: the first machine frees the lock before the second
// machine tries, and each machine runs the job. So a [Locker] also has the period of its jobs, and the
// record of the lock has the last run. A job runs at most once in each period of the grid that
// [lease.Period] describes.
//
// Each machine decides by its own clock in which period its tick is. So clocks of machines may differ
// by up to 5 minutes: all machines give the same tick the same period. There are three limits:
//
//   - By the clock of its machine, a tick must come in the period that contains its time, or at most a quarter of
//     the period and 5 s before that period. A tick that comes later counts for the next period: the tick of that
//     period is then skipped, and the late tick can be a second run. So choose times in the middle of the period.
//   - If a machine dies whose clock is ahead, the other machines run no tick until their clocks show a later
//     period than its last run. After a run by a clock that is more than 5 minutes ahead, the error of the others
//     matches [lease.ErrRunInFuture].
//   - Machines whose ticks come at different times, such as "@every 1m" on machines that started at
//     different times, have no common ticks. Their jobs run at most once in each period of the grid.
//
// For the first limit, a Locker does two things. If a tick comes in the last quarter of a period in which
// the job has run, Do waits for the next period, at most 5 s. And two runs begin at least half a period
// apart, or 10 s if that is less; see [Options].
//
// # What is not promised
//
// A missed run is not repeated later: a tick is skipped if the store does not answer, if the job still runs on any
// machine, or if its run dies. If a machine dies during a run, its lock stays held until the lease expires;
// see [lease.Options].TTL. To repeat failed runs, call [lease.Client.Once] with [lease.LockOptions].Retries.
//
// A lease cannot stop a function that ignores its context. Pass the token of the guard with every write.
//
// # Names
//
// The lock of a job has the name of the namespace, a slash, and the name of the job. In the name of the job,
// "%25" replaces a percent sign and "%2F" a slash. If the result is longer than 200 bytes or no valid key, it
// is replaced by "%%" and 32 hexadecimal digits of the name's SHA-256.
package cronlock

// Package gocronlock runs each tick of a job of gocron on one machine ([Locker]), or all jobs on one machine
// ([Elector]).
//
//	locker, err := gocronlock.New(st, "billing", lease.Every(time.Minute), nil)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//	_, err = scheduler.NewJob(gocron.CronJob("* * * * *", false), locker.Task(report), gocron.WithName("report"))
//
// With a lock alone, each machine runs a fast job: the first machine frees the lock before the second machine
// tries. So a Locker also has the period of its jobs. Package cronlock explains which ticks belong to a period, how
// exact the clocks must be, the names of the locks, and what is not promised. Jobs with other periods need other
// Lockers; see [gocron.WithDistributedJobLocker].
//
// # Names of jobs
//
// gocron gives the Locker the name of the job. Without [gocron.WithName], this is the name of its function, such
// as "main.main.func1". This name changes when the program changes. So give each job a name of
// its own. A [Locker.Task] without a name does not run.
//
// # Locker or Elector
//
// If gocron has an Elector, it ignores all Lockers. With an Elector no tick sends a request. But if the leader
// changes near a tick, both machines can run this tick, or none. A Locker has no such gap.
package gocronlock

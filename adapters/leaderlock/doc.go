// Package leaderlock elects the leaders of controllers on any store of Holdfast. A [Lock] implements
// resourcelock.Interface of client-go. So controllers outside of one cluster elect a leader on S3, in a
// database, or in a directory.
//
//	lock, err := leaderlock.New(st, "prod/invoices", hostname, nil)
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
//		Lock:          lock,
//		LeaseDuration: 15 * time.Second,
//		RenewDeadline: 10 * time.Second,
//		RetryPeriod:   2 * time.Second,
//		Callbacks: leaderelection.LeaderCallbacks{
//			OnStartedLeading: func(ctx context.Context) {
//				token, err := lock.Token(ctx)
//				// ... pass the token with each write
//			},
//			OnStoppedLeading: func() { os.Exit(1) },
//		},
//	})
//
// With controller-runtime, set manager.Options.LeaderElectionResourceLockInterface to the Lock, and
// LeaderElection to true. The election needs no API server.
//
// # What is promised
//
// A candidate leads until the context ends that its elector passed to OnStartedLeading. At most one candidate leads at
// any time, under four conditions:
//
//   - RenewDeadline + RetryPeriod + LeaseDuration/10 is less than LeaseDuration, in whole seconds. This is true for
//     the defaults of client-go. The difference must cover the drift of the clocks.
//   - The system stops no process of a leader, and suspends none of its machines.
//   - No program or user deletes the record.
//   - Each call of the store returns soon after its context has ended. All stores of Holdfast do this.
//
// Each leader has a fencing token that is higher than all earlier ones, also if a condition does not hold: see
// [Lock.Token].
//
// The elector of client-go measures all times, with its own clock. It takes a change of the raw record for a renewal.
// The raw record that [Lock.Get] returns is the version of the register, which differs after each write. The times in
// the record do not always differ, because they have whole seconds.
//
// The Lock does more for the elector than a lock on an object of Kubernetes does:
//
//   - After a lost reply, Create and Update find out whether the store has applied the write. If not, they send the
//     same write again. So a leader does not stop because replies are lost.
//   - If Create or Update succeeds, the write was sent at most LeaseDuration/10 ago. Otherwise the call returns an
//     error, and the elector tries again. This matters because the elector counts from the reply, and the other
//     candidates count from the write.
//   - With ReleaseOnCancel, the elector frees the record before it ends the context of the work. If the store hangs, the
//     work would continue meanwhile. So after LeaseDuration*9/10 without a successful write, all calls fail until
//     the elector has stopped.
//   - A leader that was stopped can find a free record, because another candidate has led meanwhile. The elector of
//     client-go would take the record, and continue the old work. The Lock refuses this until the elector has stopped.
//   - An elector that does not know yet that another candidate leads would free the record of this candidate. The Lock
//     refuses this.
//
// If a process was stopped for more than LeaseDuration*9/10, its elector stops too, even if no other candidate has led.
//
// Get takes at most LeaseDuration/3, and Create and Update take at most LeaseDuration/10. Choose a LeaseDuration of at
// least ten times a slow write of the store. Until the elector writes for the first time, Get takes at most 5 s.
//
// # What is not promised
//
// If a leader is stopped (by a debugger, a paused virtual machine, a suspended laptop), another candidate leads after
// LeaseDuration. If the first leader continues, both work. The elector ends the context of the first leader
// RenewDeadline after its next attempt to renew. client-go does not fence. So pass the token with every write. Let
// the target of the writes refuse each token that is lower than the highest token that it has seen. Packages object
// and checkpoint do this.
//
// Stores that delay their writes (store.Traits.Delayed) are refused. Coordinated leader election of Kubernetes does
// not work with a Lock.
//
// # The record
//
// The value of the register "leader/" + name of the election is a JSON object in one line:
//
//	{"acquireTime":"2026-02-03T04:05:06Z","holderIdentity":"host-7_Q5K3...","holdfast":1,"kind":"leader",
//	 "leaderTransitions":1770091506123456,"leaseDurationSeconds":15,"name":"prod/invoices",
//	 "preferredHolder":"","renewTime":"2026-02-03T04:06:06Z","strategy":""}
//
// Its fields are:
//
//   - holdfast: the version of the format. A Lock refuses a record with a higher version than it knows.
//   - kind, name: the kind of the record, and the name of the election.
//   - the fields of resourcelock.LeaderElectionRecord. leaderTransitions is the token.
//
// If a record has other fields, a write does not change them. A Lock never overwrites a register whose value is not
// such a record: the error of Get then matches store.ErrCorrupt.
//
// The record is not a lock of package lease. The commands of holdfast for locks do not show or change it.
package leaderlock

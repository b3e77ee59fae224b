// Package tusdlock locks the uploads of tusd on any store of Holdfast.
//
// Several hosts can serve one data store of tusd, and a client may continue an upload at any host.
// tusd locks the upload for each request. Its own lockers reach one process or one disk. With this
// package, the lock is valid on all hosts that share a store of Holdfast:
//
//	client, err := lease.New(st, &lease.Options{
//		TTL:    15 * time.Second,
//		Tuning: lease.Tuning{RenewInterval: 2 * time.Second},
//	})
//	locker := tusdlock.New(client)
//	locker.UseIn(composer)
//	uploads, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
//	http.Handle("/files/", locker.Handler(http.StripPrefix("/files/", uploads)))
//
// All hosts must have clients with the same store and the same Options.KeyPrefix.
//
// # Which times to choose
//
// If a client of tusd loses its connection, the host may not notice this for a minute, and keeps
// the lock. When the client continues at another host, that host asks the holder to yield. The
// holder reads the request with its next renewal, so RenewInterval bounds this delay. In the same
// process, the holder reads the request at once.
//
// If a host dies, another host gets its locks after the TTL, or earlier if the store knows which
// processes live. The TTL should be below AcquireLockTimeout of tusd (20 s by default). Otherwise
// the first attempts of the client get ERR_LOCK_TIMEOUT, and a later attempt succeeds.
//
// # What it costs
//
// The locks of a host are under one [lease.Session], which the first request opens. An upload
// request without a competitor costs at most three requests to the store: a read and a write before,
// and a write after. The session costs one request in each RenewInterval, however many uploads
// there are, also if there are none. If each lock had its own lease, each running upload would cost
// one request in each RenewInterval. With the times above, 100 uploads of a minute at one host cost
// about 330 requests, instead of about 3,300.
//
// tusd also locks an upload for a GET request, and cannot interrupt this request. So during a long
// download, all other requests for the same upload wait, now on all hosts. Set DisableDownload of
// tusd, and let another server deliver the files.
//
// The store keeps a small record for each upload id that a client has named, even if there is no
// such upload. Remove old records with [lease.Client.Sweep] or `holdfast sweep`.
//
// # What is promised
//
// At any time at most one host relies on the lock of an upload; package lease states the conditions.
// If a host loses its lease, its locks call requestUnlock, and tusd closes the body of the request.
// With [Locker.Handler], no further byte of this body reaches the data store. The data store has
// Options.Grace to finish its writes before another host can get the lock.
//
// This package cannot prevent a late write. tusd has no fence: its data stores check no tokens. If a
// host is stopped or cut off for longer than the TTL, bytes that its data store has already read can
// reach the file after another host has continued the upload. The file is then damaged. If this
// matters, compare a checksum of the whole file at the end of the upload.
package tusdlock

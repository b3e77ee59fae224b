package holding

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// handleSignals makes all signals that run passes on come to the channel: those that end or
// suspend the wait for the lock at once, the others by the time at which the returned
// channel is closed. Each costs two changes of thread, all of them half a millisecond, in
// which the lock is taken.
func handleSignals(signals chan os.Signal) (handled chan struct{}) {
	handled = make(chan struct{})
	first := func(sig os.Signal) bool { return child.Terminating(sig) || child.Suspends(sig) }
	all := child.Forwardable()
	now := slices.DeleteFunc(slices.Clone(all), func(sig os.Signal) bool { return !first(sig) })
	later := slices.DeleteFunc(all, first)
	if len(now) > 0 { // no signal would mean all
		signal.Notify(signals, now...)
	}
	go func() {
		defer close(handled)
		if len(later) > 0 {
			signal.Notify(signals, later...)
		}
	}()
	return handled
}

// handles opens the stores and makes a handle for each lock in each of them.
func (a *access) handles(ctx context.Context, f *runFlags, names []string) (handles []*openedStore, all leases.Clients, presence []presenceFiler, err error) {
	defer func() {
		if err != nil {
			all.Close()
		}
	}()
	if cmdline.EmptyFlag(f.FlagSet, "also-store") || slices.Contains(f.also, "") {
		return nil, nil, nil, exit.Usagef("--also-store is empty: name a store, or remove the flag")
	}
	for i, also := range f.also {
		if f.also[i], err = a.Named(also); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, url := range append([]string{a.StoreURL}, f.also...) {
		f.Flags.MinInterval = f.minInterval
		client, st, err := a.Client(ctx, url, &f.Flags)
		if err != nil {
			return nil, all, nil, err
		}
		all = append(all, leases.Client{Client: client, Store: st})
		for _, other := range all[:len(all)-1] {
			if a, b := store.TraitsOf(other.Store.Store), store.TraitsOf(st.Store); a.ID == b.ID && a.Prefix == b.Prefix {
				return nil, all, nil, exit.Usagef("--also-store names the store %s, which --store already names", st.URL)
			}
		}
		if p, ok := store.As[presenceFiler](st.Store); ok {
			presence = append(presence, p)
		}
		for _, name := range names {
			if err := leases.HeldAround(ctx, client, st.URL, name); err != nil {
				return nil, all, nil, err
			}
			h := &openedStore{client: client, store: st.Store, url: st.URL, again: st.Again}
			if f.inSession() {
				h.open = func(ctx context.Context, open map[*lease.Client]*lease.Session) (err error) {
					if open[client] == nil {
						if open[client], err = client.OpenSession(ctx); err != nil {
							return err
						}
					}
					h.Handle, err = open[client].Handle(name, &f.shared)
					return err
				}
			} else if h.Handle, err = client.Handle(name, &lease.LockOptions{Period: f.period, Retries: f.retries}); err != nil {
				return nil, all, nil, err
			}
			handles = append(handles, h)
		}
	}
	return handles, all, presence, nil
}

// presenceFiler is a store on which a child can keep the holder's presence up.
type presenceFiler interface {
	store.Presence
	PresenceFile(ctx context.Context) (*os.File, error)
}

var _ presenceFiler = (*filestore.Store)(nil)

// openedStore is a handle together with its store.
type openedStore struct {
	*lease.Handle
	client *lease.Client
	store  store.Store
	url    string
	again  string // the URL of the store, with its parameters

	// open makes the handle of a lock under a session, of which each client opens one. It is
	// nil for other locks, whose handle is there.
	open func(context.Context, map[*lease.Client]*lease.Session) error
}

// acquire takes the locks, as awaited says.
func (a *access) acquire(ctx context.Context, f *runFlags, handles []*openedStore, signals chan os.Signal) (*lease.GuardSet, error) {
	take := lease.AcquireAll
	if f.wait == 0 {
		take = lease.TryAcquireAll
	}
	return a.awaited(ctx, f, storesOf(handles), signals, func(ctx context.Context) (*lease.GuardSet, error) {
		sessions := map[*lease.Client]*lease.Session{}
		plain := make([]*lease.Handle, len(handles))
		for i, h := range handles {
			if h.open != nil {
				if err := h.open(ctx, sessions); err != nil {
					return nil, err
				}
			}
			plain[i] = h.Handle
		}
		return take(ctx, plain...)
	})
}

// awaited calls take. It waits for as long as the flags say, or until a signal comes. A
// signal that awaited takes from the channel takes effect, even if the lock was acquired
// at the same instant. A signal that it does not take stays in the channel.
func (a *access) awaited(ctx context.Context, f *runFlags, stores []string, signals chan os.Signal, take func(context.Context) (*lease.GuardSet, error)) (*lease.GuardSet, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if f.wait > 0 {
		timer := time.AfterFunc(f.wait, func() {
			cancel(&leases.WaitedError{Limit: f.wait})
		})
		defer timer.Stop()
	}
	done := make(chan struct{})
	stopped := make(chan struct{})
	var late <-chan time.Time // only for a single try; a wait reports it by an event
	if f.wait == 0 {
		timer := time.NewTimer(lease.UnresponsiveAfter)
		defer timer.Stop()
		late = timer.C
	}
	go func() {
		defer close(stopped)
		for {
			select {
			case <-late:
				a.Notef("%s has not answered yet", strings.Join(stores, ", "))
			case sig := <-signals:
				switch {
				case child.Terminating(sig):
					cancel(&signalled{sig})
					return
				case child.Suspends(sig):
					child.Suspend()
				}
			case <-done:
				return
			}
		}
	}()
	set, err := take(ctx)
	close(done)
	<-stopped
	var sig *signalled
	if err == nil && errors.As(context.Cause(ctx), &sig) {
		return nil, errors.Join(sig, set.Release(ctx))
	}
	return set, err
}

// storesOf returns the URLs of the stores of locks.
func storesOf(handles []*openedStore) (all []string) {
	for _, h := range handles {
		if !slices.Contains(all, h.url) {
			all = append(all, h.url)
		}
	}
	return all
}

// signalled says that a signal has ended the wait.
type signalled struct{ sig os.Signal }

// Is says that this is a cancellation, for metrics.
func (e *signalled) Is(target error) bool { return target == context.Canceled }

func (e *signalled) Error() string { return "ended by " + child.SignalName(e.sig) }

// busy turns the error of an acquire into the message and the error of run.
func (a *access) busy(ctx context.Context, f *runFlags, handles []*openedStore, err error) error {
	var sig *signalled
	if errors.As(err, &sig) {
		return exit.With(128+child.SignalNumber(sig.sig), fmt.Errorf("no lock was taken: %w", sig))
	}
	var held *lease.HeldError
	if !errors.As(err, &held) || errors.Is(err, lease.ErrUnresponsive) {
		return err
	}
	b := &BusyError{HeldError: held, on: held.Store}
	var client *lease.Client
	for _, h := range handles {
		if h.url == held.Store {
			b.on, client, b.orphans = h.again, h.client, leftRunning(ctx, h.store, held.Record)
		}
	}
	b.By, b.broken = leases.HoldersOf(ctx, client, held.Record), leases.AfterBreak(client, held.Record)
	return exit.With(f.conflictStatus, b)
}

// leftRunning says that the holder of a lock is dead, and what it has left running.
func leftRunning(ctx context.Context, st store.Store, r lease.Record) string {
	pids, any := leases.OrphansOf(ctx, st, r)
	if r.State != lease.Held || !any {
		return ""
	}
	return (&leases.LockView{Liveness: "orphans", Orphans: pids}).Explained()
}

// urls returns a function that returns the URL of a guard's store.
func urls(handles []*openedStore) func(*lease.Guard) string {
	of := map[*lease.Handle]string{}
	for _, h := range handles {
		of[h.Handle] = h.url
	}
	return func(g *lease.Guard) string { return of[g.Handle()] }
}

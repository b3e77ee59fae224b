// Package leases opens clients of leases, and shows locks: who holds them, who waits, and for how long
// this command has waited.
package leases

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Opener opens clients of leases for one invocation of the command.
type Opener struct{ *cmdline.Invocation }

// Flags are the flags of every command that takes leases.
type Flags struct {
	TTL, Margin, Grace time.Duration
	maxClockDrift      float64
	Holder             string

	MinInterval time.Duration     // shortest time from one grant to the next
	Detached    bool              // the lease outlives this process
	FlagSet     *pflag.FlagSet    // those that the values come from; nil if they come from elsewhere
	Events      func(lease.Event) // called with each event

	History      bool // keep a history of the locks
	ReportsWaits bool // the command itself reports its waits
}

// Add adds the flags to those of a command.
func (f *Flags) Add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.TTL, "ttl", 0, "how long a lease lasts without a renewal (default 30s)")
	flags.DurationVar(&f.Margin, "margin", 0, "time that the holder reserves for late timers (default: TTL/10)")
	flags.DurationVar(&f.Grace, "grace", 0, "time in which the work must stop after a loss (default: TTL/4, at most 5s); a negative value means no time")
	f.AddClockDrift(flags)
	flags.StringVar(&f.Holder, "holder", "", "name of the holder in ls and show (default: user, host and process)")
	flags.BoolVar(&f.History, "history", false, "keep a history, which \"holdfast history\" prints")
}

// AddClockDrift adds the flag of the commands that judge how long a lock is not renewed, or take it.
func (f *Flags) AddClockDrift(flags *pflag.FlagSet) {
	f.FlagSet = flags
	flags.Float64Var(&f.maxClockDrift, "max-clock-drift", 0, "maximum error of the rate of a clock (default 0.01, which is 1 %)")
}

// explain names the flags with the values that a client of leases refuses.
func (f *Flags) explain(err error) error {
	wrong := (*lease.OptionError)(nil)
	if !errors.As(err, &wrong) || f.FlagSet == nil {
		return err
	}
	var given []string
	for _, field := range wrong.Fields {
		flag := f.FlagSet.Lookup(map[string]string{"TTL": "ttl", "Margin": "margin", "Grace": "grace", "MaxClockDrift": "max-clock-drift", "MinInterval": "min-interval", "Holder": "holder"}[field])
		if flag != nil && flag.Changed {
			given = append(given, cmdline.AsGiven(flag))
		}
	}
	if given == nil {
		return err
	}
	return exit.Usagef("%s: %s", strings.Join(given, ", "), wrong.Why)
}

// Client is a client together with its store.
type Client struct {
	*lease.Client
	Store stores.Opened
}

// Clients are the clients of one command.
type Clients []Client

// Close closes the stores, and with them the clients.
func (c Clients) Close() {
	for _, client := range c {
		_ = client.Store.Close()
	}
}

// Flush waits until the messages about past events are written.
func (c Clients) Flush() {
	for _, client := range c {
		Flush(client.Client)
	}
}

// WithClient checks the names of locks, opens a client on the store of the command, calls do, and closes the client.
func (a *Opener) WithClient(ctx context.Context, f *Flags, names []string, do func(*lease.Client, stores.Opened) error) error {
	for _, name := range names {
		if err := CheckLockName(name); err != nil {
			return err
		}
	}
	client, st, err := a.Client(ctx, a.StoreURL, f)
	if err != nil {
		return err
	}
	defer st.Close()
	return do(client, st)
}

// Client opens a store and a client of leases on it. Closing the store closes the client, too: it
// releases what the client holds.
func (a *Opener) Client(ctx context.Context, url string, f *Flags) (*lease.Client, stores.Opened, error) {
	st, err := a.OpenURL(ctx, url)
	if err != nil {
		return nil, stores.Opened{}, err
	}
	options := &lease.Options{
		TTL:           f.TTL,
		Grace:         f.Grace,
		MinInterval:   f.MinInterval,
		Holder:        f.Holder,
		History:       f.History,
		StoreTimeout:  UnresponsiveTimeout,
		ManualRenewal: f.Detached,
		NoPresence:    f.Detached,
		// A new lock costs two more reads. That is worth it where reads are nearly free.
		CheckTokenFloor: store.TraitsOf(st.Store).Local,
		// The first run on a server pays for a probe, and most often makes a new lock: it does
		// not read first.
		AssumeNew: !store.TraitsOf(st.Store).Trusted,
		Tuning:    lease.Tuning{Margin: f.Margin, MaxClockDrift: f.maxClockDrift},
	}
	var client *lease.Client
	waiting := a.waitingLine(st.URL, f, func(r lease.Record) string { return HoldersOf(ctx, client, r) }, func(name string) (t time.Time) {
		ctx, cancel := context.WithTimeout(ctx, namesWithin)
		defer cancel()
		if info, err := client.Inspect(ctx, name); err == nil && info.Record.State == lease.Free {
			t = info.Record.NotBefore
		}
		return t
	})
	options.OnEvent = func(e lease.Event) {
		waiting(e)
		if f.Events != nil {
			f.Events(e)
		}
	}
	if dir, err := stores.DefaultDir(); err == nil {
		options.Cache = lease.FileCache(filepath.Join(dir, stores.SeenDir))
	}
	if client, err = lease.New(st.Store, options); err != nil {
		_ = st.Close()
		return nil, stores.Opened{}, f.explain(err)
	}
	below := st.Closer
	st.Closer = closer(func() error {
		_ = client.Close(ctx) // the release has reported the errors
		Flush(client)
		return below.Close()
	})
	return client, st, nil
}

type closer func() error

func (c closer) Close() error { return c() }

// Flush waits, for a short time at most, until the messages about past events are written.
func Flush(client *lease.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = client.FlushEvents(ctx)
}

// CompleteLocks offers the names of locks.
func (a *Opener) CompleteLocks() cobra.CompletionFunc { return a.CompleteStored(a.lockNames) }

// lockNames calls yield with the names of all locks, until it returns false.
func (a *Opener) lockNames(ctx context.Context, yield func(string) bool) error {
	return a.WithClient(ctx, &Flags{}, nil, func(client *lease.Client, _ stores.Opened) error {
		for name, err := range client.List(ctx, "") {
			if err != nil || !yield(name) {
				return err
			}
		}
		return nil
	})
}

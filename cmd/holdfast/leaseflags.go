package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// leaseFlags are the flags of every command that takes leases.
type leaseFlags struct {
	ttl, margin, grace time.Duration
	maxClockDrift      float64
	holder             string

	minInterval time.Duration     // shortest time from one grant to the next
	detached    bool              // the lease outlives this process
	flags       *pflag.FlagSet    // those that the values come from; nil if they come from elsewhere
	events      func(lease.Event) // called with each event

	reportsWaits bool // the command itself reports its waits
}

func (f *leaseFlags) add(flags *pflag.FlagSet) {
	flags.DurationVar(&f.ttl, "ttl", 0, "how long a lease lasts without a renewal (default 30s)")
	flags.DurationVar(&f.margin, "margin", 0, "time that the holder reserves for late timers (default: TTL/10)")
	flags.DurationVar(&f.grace, "grace", 0, "time in which the work must stop after a loss (default: TTL/4, at most 5s); a negative value means no time")
	f.addClockDrift(flags)
	flags.StringVar(&f.holder, "holder", "", "name of the holder in ls and show (default: user, host and process)")
}

// addClockDrift adds the flag of the commands that judge how long a lock is not renewed, or take it.
func (f *leaseFlags) addClockDrift(flags *pflag.FlagSet) {
	f.flags = flags
	flags.Float64Var(&f.maxClockDrift, "max-clock-drift", 0, "maximum error of the rate of a clock (default 0.01, which is 1 %)")
}

// explain names the flags with the values that a client of leases refuses.
func (f *leaseFlags) explain(err error) error {
	wrong := (*lease.OptionError)(nil)
	if !errors.As(err, &wrong) || f.flags == nil {
		return err
	}
	var given []string
	for _, field := range wrong.Fields {
		flag := f.flags.Lookup(map[string]string{"TTL": "ttl", "Margin": "margin", "Grace": "grace", "MaxClockDrift": "max-clock-drift", "MinInterval": "min-interval", "Holder": "holder"}[field])
		if flag != nil && flag.Changed {
			given = append(given, cmdline.AsGiven(flag))
		}
	}
	if given == nil {
		return err
	}
	return exit.Usagef("%s: %s", strings.Join(given, ", "), wrong.Why)
}

// openClient is a client together with its store.
type openClient struct {
	*lease.Client
	st stores.Opened
}

type clients []openClient

// close releases what is held and closes the stores.
func (c clients) close(ctx context.Context) {
	for _, client := range c {
		_ = client.Close(ctx) // the release has reported the errors
		_ = client.st.Close()
	}
}

// flush waits until the messages about past events are written.
func (c clients) flush() {
	for _, client := range c {
		flush(client.Client)
	}
}

// client opens a store and a client of leases on it.
func (a *app) client(ctx context.Context, url string, f *leaseFlags) (*lease.Client, stores.Opened, error) {
	st, err := a.OpenURL(ctx, url)
	if err != nil {
		return nil, stores.Opened{}, err
	}
	options := &lease.Options{
		TTL:           f.ttl,
		Grace:         f.grace,
		MinInterval:   f.minInterval,
		Holder:        f.holder,
		StoreTimeout:  unresponsiveTimeout,
		ManualRenewal: f.detached,
		NoPresence:    f.detached,
		// A new lock costs two more reads. That is worth it where reads are nearly free.
		CheckTokenFloor: store.TraitsOf(st.Store).Local,
		// The first run on a server pays for a probe, and most often makes a new lock: it does
		// not read first.
		AssumeNew: !store.TraitsOf(st.Store).Trusted,
		Tuning:    lease.Tuning{Margin: f.margin, MaxClockDrift: f.maxClockDrift},
	}
	var client *lease.Client
	waiting := a.waitingLine(st.URL, f, func(r lease.Record) string { return holdersOf(ctx, client, r) })
	options.OnEvent = func(e lease.Event) {
		waiting(e)
		if f.events != nil {
			f.events(e)
		}
	}
	if dir, err := stores.DefaultDir(); err == nil {
		options.Cache = lease.FileCache(filepath.Join(dir, stores.SeenDir))
	}
	if client, err = lease.New(st.Store, options); err != nil {
		_ = st.Close()
		return nil, stores.Opened{}, f.explain(err)
	}
	st.Closer = reportingCloser{st.Closer, client}
	return client, st, nil
}

// reportingCloser closes a store. First it waits until the messages about past events are
// written.
type reportingCloser struct {
	io.Closer
	client *lease.Client
}

func (c reportingCloser) Close() error {
	flush(c.client)
	return c.Closer.Close()
}

// flush waits, for a short time at most, until the messages about past events are written.
func flush(client *lease.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = client.FlushEvents(ctx)
}

// lockNames calls yield with the names of all locks, until it returns false.
func (a *app) lockNames(ctx context.Context, yield func(string) bool) error {
	client, st, err := a.client(ctx, a.StoreURL, &leaseFlags{})
	if err != nil {
		return err
	}
	defer clients{openClient{client, st}}.close(ctx)
	for name, err := range client.List(ctx, "") {
		if err != nil || !yield(name) {
			return err
		}
	}
	return nil
}

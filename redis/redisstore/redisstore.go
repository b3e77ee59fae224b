package redisstore

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/internal/drivers/wakeup"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// Options are the options of [New] and [Open].
type Options struct {
	// Prefix is what the keys begin with, before a slash: "" or a valid key.
	Prefix string

	// Name is the name of the store in errors and for people, such as its URL; [Open] sets it.
	Name string

	// Unsafe are the risks that the user accepts; see [Risk].
	Unsafe []Risk

	// Timeout is the time limit of a request: 100 ms to 1 min. 0 means 5 s.
	Timeout time.Duration

	// Logger receives the outcomes of writes whose reply was lost. Nil means no log.
	Logger *slog.Logger
}

// Store is a space of registers in Redis. It may be used by any number of goroutines. The caller closes it.
// Package engine contains its methods, and decides the outcome of each write.
type Store struct {
	*engine.Store
	d   *driver
	hub *wakeup.Hub
}

// New returns a store on the server that connect names: one server, a cluster (IsClusterMode, or several
// addresses), or the primary server that sentinels know (MasterName). It makes its own client, which sends
// each request once. New sends no request.
func New(connect *redis.UniversalOptions, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	below, err := store.Below(o.Prefix)
	if err != nil {
		return nil, fmt.Errorf("redisstore: Options.Prefix: %w", err)
	}
	d := &driver{o: o, prefix: space + below, tls: connect.TLSConfig != nil, secrets: []string{connect.Password, connect.SentinelPassword}}
	if o.Timeout < 100*time.Millisecond || o.Timeout > time.Minute {
		return nil, fmt.Errorf("redisstore: %w: Options.Timeout is %v; it must be between 100 ms and 1 min", store.ErrInvalid, o.Timeout)
	}
	for _, risk := range o.Unsafe {
		if !slices.Contains(Risks, risk) {
			return nil, fmt.Errorf("redisstore: %w: Options.Unsafe has the unknown value %q", store.ErrInvalid, risk)
		}
	}
	d.client = newClient(*connect, o.Timeout, &d.connected)
	traits := store.Traits{Name: o.Name, ConflictCarriesState: true, Trusted: true, Prefix: below}
	traits.ID = fmt.Sprintf("redis:%s:%s/%d", strings.Join(slices.Sorted(slices.Values(connect.Addrs)), ","), connect.MasterName, connect.DB)
	registers, err := engine.New(d, &engine.Options{
		Traits:          traits,
		ReadTries:       engine.DefaultTries,
		Check:           d.check,
		TrustConditions: true,
		Logger:          o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	return &Store{registers, d, wakeup.New(d.listen)}, nil
}

// newClient returns a client that repeats nothing by itself.
func newClient(o redis.UniversalOptions, timeout time.Duration, connected *atomic.Bool) redis.UniversalClient {
	o.MaxRetries, o.DialerRetries, o.ReadOnly, o.RouteByLatency, o.RouteRandomly = -1, 1, false, false, false
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = timeout, timeout, timeout, true
	o.Protocol, o.DisableIdentity = 2, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.Dialer = dialer(o, connected)
	switch {
	case o.MasterName != "":
		return redis.NewFailoverClient(o.Failover())
	case o.IsClusterMode || len(o.Addrs) > 1:
		c := o.Cluster()
		c.DisableRoutingPolicies = true
		return redis.NewClusterClient(c)
	}
	return redis.NewClient(o.Simple())
}

// Close closes the connections of the store.
func (s *Store) Close() error { return s.d.client.Close() }

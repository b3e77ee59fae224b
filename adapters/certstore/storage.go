package certstore

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// storeTimeout is the default of Options.StoreTimeout of package lease.
	storeTimeout = time.Minute

	// writeTimeout bounds each write.
	writeTimeout = 30 * time.Second

	// shortTimeout bounds Exists, which cannot return an error, and RenewLockLease, after whose errors certmagic pauses
	// for at least a minute.
	shortTimeout = 10 * time.Second
)

// Storage is a certmagic.Storage in a store of Holdfast. All servers of a cluster use a Storage of their own, on the
// same store. Any number of goroutines may use it. A held lock has the goroutines of a lease; a Storage has no other
// goroutine, and needs no Close.
//
// Each method returns soon after its context has ended, except that Unlock frees the lock nevertheless.
type Storage struct {
	name   string
	values store.Store
	client *lease.Client

	mu    sync.Mutex
	locks map[string]*lock // by their names
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New returns the Storage in a store. It sends no request. The store must be able to list its keys, as all stores of
// Holdfast can. The options are those of the locks; nil means all defaults. The default of Options.StoreTimeout is one
// minute here. Options.ManualRenewal and a KeyPrefix that begins with "certmagic" are not allowed. If an option is not
// valid, the error matches store.ErrInvalid.
func New(st store.Store, locks *lease.Options) (*Storage, error) {
	if _, ok := store.As[store.Lister](st); !ok {
		return nil, fmt.Errorf("certstore: this store cannot list its keys: %w", errors.ErrUnsupported)
	}
	o := *cmp.Or(locks, &lease.Options{})
	if o.ManualRenewal {
		return nil, fmt.Errorf("%w: certstore renews its locks automatically: Options.ManualRenewal is not allowed", store.ErrInvalid)
	}
	if strings.HasPrefix(o.KeyPrefix+"/", dir+"/") {
		return nil, fmt.Errorf("%w: the registers below %q have the values: Options.KeyPrefix is not allowed to be %q", store.ErrInvalid, dir, o.KeyPrefix)
	}
	o.StoreTimeout = cmp.Or(o.StoreTimeout, storeTimeout)
	client, err := lease.New(st, &o)
	if err != nil {
		return nil, err
	}
	values, err := store.Prefix(st, dir)
	if err != nil {
		return nil, err
	}
	return &Storage{name: store.TraitsOf(st).Name, values: values, client: client, locks: map[string]*lock{}}, nil
}

// String returns the name of the store. certmagic writes it into its logs.
func (s *Storage) String() string { return "holdfast:" + s.name }

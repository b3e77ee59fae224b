package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultTries is the largest number of times that the engine sends a write whose
	// outcome is not known.
	DefaultTries = 5

	// maxPause bounds every pause.
	maxPause = 2 * time.Second
)

// Options describe a backend to the engine.
type Options struct {
	// Traits are the traits of the store. Traits.ConflictCarriesState says that
	// [ConditionFailedError] carries the state that the write found. If the reply to a
	// write is lost, the engine of such a store sends the write again. If the second try
	// is refused, the error shows whether the first try was applied. On any other store,
	// the engine reads before it sends the write again.
	Traits store.Traits

	// Trusted says that the store is known to be safe: the engine sends the first write
	// without Check and without the probe. Traits.Trusted says to other packages that the
	// store is safe. Traits.Trusted may also be set if the store needs Check but no probe.
	Trusted bool

	// Tags says that the server gives each state its own tag ([Stored].Tag), and that
	// [Driver.Write] needs the tag of the state that it names.
	Tags bool

	// TagChanges reports whether another program can have changed the tag of a state from one to another, and
	// left the envelope as it is. If the server then refuses a write, the engine sends it again with the new
	// tag. Nil means never.
	TagChanges func(from, to Tag) bool

	// Numbered says that the backend numbers its states. The ID of a state is then its
	// number, a hyphen and its nonce: for example, "8-" and the nonce.
	Numbered bool

	// ReadTries is the largest number of times that the engine sends a read that fails
	// with [store.ErrUnavailable]: 1 to 100. 0 means once, for drivers that repeat
	// reads themselves.
	ReadTries int

	// Pause bounds the random pause before the second try: at most 2 s; 0 means 50 ms. The
	// bound doubles with each further try, up to 2 s.
	Pause time.Duration

	// The engine calls Check before a write, until Check has succeeded once. Check tests what the
	// backend needs in addition to conditions: for example, the right keys of a table. If Check
	// fails, the engine does not send the write. The write then returns the error of Check. Nil
	// means no check.
	Check func(context.Context) error

	// TrustConditions says that the server is known to honour conditions. Then the engine calls
	// Check before the first write, but does not probe the server.
	TrustConditions bool

	// Sync is for a server whose reads can show a write before that write survives a crash: it makes all
	// writes durable that earlier reads have shown. The engine calls Sync before it reports an in-doubt
	// write as applied. If Sync fails, the outcome is unknown. Set Traits.ReadsUnsynced too. Nil means
	// that reads show durable writes only.
	Sync func(context.Context) error

	// If the store ignores conditions, the engine calls OnConditionsIgnored. The function returns
	// the error with which all writes then fail, or nil if the user accepts the risk. The error
	// should match [store.ErrUnsafe]. If OnConditionsIgnored is nil, the error is the
	// [ConditionsIgnoredError].
	OnConditionsIgnored func(ConditionsIgnoredError) error

	// The engine calls OnVerified when Check and the probe have succeeded. The user can
	// record this, and set Traits.Trusted the next time. OnVerified may be nil.
	OnVerified func()

	// Logger receives the outcomes of writes whose reply was lost, and the keys that the
	// probe could not remove. Nil means no log.
	Logger *slog.Logger

	tries int // how many times a write is sent while its outcome is not known; tests set it
}

// Store is a space of registers on a [Driver]. It may be used by any number of
// goroutines, starts none, and needs no closing.
type Store struct {
	driver Driver
	o      Options
	probe  *probe
}

var (
	_ store.Store             = (*Store)(nil)
	_ store.Lister            = (*Store)(nil)
	_ store.ConditionalGetter = (*Store)(nil)
	_ store.Describer         = (*Store)(nil)
	_ store.Resolver          = (*Store)(nil)
)

// New returns a store on a driver. It sends no request. Nil options mean the defaults.
func New(driver Driver, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	o.tries = cmp.Or(o.tries, DefaultTries)
	o.ReadTries = cmp.Or(o.ReadTries, 1)
	o.Pause = cmp.Or(o.Pause, 50*time.Millisecond)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	switch {
	case o.ReadTries < 1 || o.ReadTries > 100:
		return nil, fmt.Errorf("engine: Options.ReadTries is %d; it must be between 1 and 100", o.ReadTries)
	case o.Pause < 0 || o.Pause > maxPause:
		return nil, fmt.Errorf("engine: Options.Pause is %v; it must be between 0 and %v", o.Pause, maxPause)
	}
	return &Store{driver: driver, o: o, probe: newProbe()}, nil
}

// Traits implements [store.Describer].
func (s *Store) Traits() store.Traits { return s.o.Traits }

// Get implements [store.Store]. It sends one request.
func (s *Store) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	current, err := s.GetStored(ctx, key)
	return current.Value, current.version(err), err
}

// GetStored reads a register like [Store.Get], and returns everything that the driver returned.
// Backends use it for optional abilities of their stores.
func (s *Store) GetStored(ctx context.Context, key string) (Stored, error) {
	current, err := s.read(ctx, key, "")
	return current, s.opError("get", key, existing(current, err))
}

// GetIfChanged implements [store.ConditionalGetter]. If the driver returns
// [ErrUnchanged], an unchanged register costs a request without a body.
func (s *Store) GetIfChanged(ctx context.Context, key string, seen store.Version) ([]byte, store.Version, bool, error) {
	known, err := s.parse(seen)
	if err != nil {
		known = Stored{} // not a version of this store: every state differs from it
	}
	current, err := s.read(ctx, key, known.Tag)
	if errors.Is(err, ErrUnchanged) {
		return nil, seen, false, nil
	}
	if err := existing(current, err); err != nil {
		return nil, "", true, s.opError("get", key, err)
	}
	if v := current.Version(); v != seen {
		return current.Value, v, true, nil
	}
	return nil, seen, false, nil
}

// read reads the state of a register, a tombstone too.
func (s *Store) read(ctx context.Context, key string, seen Tag) (current Stored, err error) {
	if err := store.CheckKey(key); err != nil {
		return Stored{}, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return Stored{}, err
	}
	err = Repeat(ctx, s.o.ReadTries, s.o.Pause, func() error {
		current, err = s.driver.Read(ctx, key, seen)
		return err
	})
	if err != nil {
		return Stored{}, err
	}
	return current.clone(), nil
}

// clone returns s with a value that belongs to the caller, and is not nil.
func (s Stored) clone() Stored {
	s.Value = append([]byte{}, s.Value...)
	return s
}

// existing returns the error of a read that treats a tombstone as absent.
func existing(current Stored, err error) error {
	if err == nil && (current.Deleted || current.Absent()) {
		return store.ErrNotFound
	}
	return err
}

// version is Version, or zero if there is an error.
func (s Stored) version(err error) store.Version {
	if err != nil {
		return ""
	}
	return s.Version()
}

// Put implements [store.Store]. After a conflict the error is a [*store.ConflictError] with the
// current state. If the outcome is unknown, the error is a [*store.InDoubtError].
func (s *Store) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	err := store.CheckPut(key, value)
	var v store.Version
	if err == nil {
		v, err = s.write(ctx, key, prev, Envelope{Value: append([]byte{}, value...)})
	}
	return v, s.opError("put", key, err)
}

// Delete implements [store.Store]. It writes a tombstone. It has the same outcomes as
// [Store.Put].
func (s *Store) Delete(ctx context.Context, key string, prev store.Version) error {
	err := store.CheckDelete(key, prev)
	if err == nil {
		_, err = s.write(ctx, key, prev, Envelope{Deleted: true})
	}
	return s.opError("delete", key, err)
}

// Erase removes a register or its tombstone, without a condition. Nothing remains. Use it only for
// registers that were made to test a store: if another client uses the register, Erase breaks the
// contract for that client. If the driver is not a [Remover], the error matches
// [errors.ErrUnsupported].
func (s *Store) Erase(ctx context.Context, key string) error {
	remover, ok := s.driver.(Remover)
	err := store.CheckKey(key)
	if err == nil && !ok {
		err = errors.ErrUnsupported
	}
	if err == nil {
		err = remover.Remove(ctx, key)
	}
	return s.opError("erase", key, err)
}

// List implements [store.Lister].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return Listing(ctx, s, store.OpList, prefix, s.driver.List)
}

// Listing calls a listing function of the driver, and yields its results. It first checks the
// prefix and the context. An error names the operation, and ends the listing.
func Listing[T any](ctx context.Context, s *Store, op store.Kind, prefix string, list func(ctx context.Context, prefix string) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		_, err := store.Below(prefix)
		if err == nil {
			err = store.CheckContext(ctx)
		}
		if err != nil {
			yield(none, s.opError(op, prefix, err))
			return
		}
		for t, err := range list(ctx, prefix) {
			if err == nil {
				err = store.CheckContext(ctx)
			}
			if err != nil {
				yield(none, s.opError(op, prefix, err))
				return
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}

// Repeat calls f until f returns nil or an error other than [store.ErrUnavailable], but not more
// often than the given number of tries. Between two calls it waits for a random time. The argument
// pause bounds the first wait. The bound doubles with each further wait, up to 2 s. Use Repeat only
// for requests that change nothing.
func Repeat(ctx context.Context, tries int, pause time.Duration, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if !errors.Is(err, store.ErrUnavailable) || try >= tries || backoff.Wait(ctx, try, pause, maxPause) != nil {
			return err
		}
	}
}

// minShare is the least time that [Share] leaves for a request.
const minShare = 500 * time.Millisecond

// Share returns the time limit of one request of a call: the given limit, or half of the remaining time
// of the call if that half is shorter, but at least 500 ms. The other half is for a second request, which
// finds out the outcome if the answer to the first request is lost.
func Share(ctx context.Context, limit time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(deadline)/2, minShare))
	}
	return limit
}

func (s *Store) opError(op store.Kind, key string, err error) error {
	if err == nil {
		return nil
	}
	return &store.OpError{Op: op, Key: key, Store: s.o.Traits.Name, Err: err}
}

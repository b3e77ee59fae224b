package leaderlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/store"
)

// MaxCandidate is the largest length of the name of a candidate, in bytes.
const MaxCandidate = 1024

const (
	keyPrefix = "leader/"

	// stoppedLeading is the event with which the elector ends a term.
	stoppedLeading = "stopped leading"

	// defaultLeaseDuration is the LeaseDuration before the elector has written a record.
	defaultLeaseDuration = 15 * time.Second
)

// resource names elections in the errors of Kubernetes.
var resource = schema.GroupResource{Group: "holdfast", Resource: "leaders"}

// ErrNotLeading: the candidate does not lead, or another candidate has led since.
var ErrNotLeading = errors.New("this candidate does not lead")

// Options of a [Lock]. Each zero value means the default.
type Options struct {
	// Logger receives the events of the elector: "became leader" and "stopped leading". Default: none.
	Logger *slog.Logger
}

// Lock is one candidate of an election. It implements resourcelock.Interface. Use each Lock in one elector. The
// elector calls the methods one after the other; any goroutine may call [Lock.Token] meanwhile. A Lock starts no
// goroutine and needs no Close.
type Lock struct {
	st                  store.Store
	name, key, identity string
	log                 *slog.Logger
	clock               *sysclock.Clock

	mu            sync.Mutex    // never held during a request
	seen          state         // what this Lock has read or written last
	failed        bool          // whether the last write of the term failed, although the elector wanted it
	term          uint64        // the token of the term that the elector has begun and not ended; 0 means none
	trusted       time.Duration // by clock: until when the term can be trusted without another write
	leaseDuration time.Duration // of the elector
}

var _ resourcelock.Interface = (*Lock)(nil)

// New returns a candidate of the election with the given name, such as "namespace/name". It sends no request. The
// candidates of an election need the same store and the same name. The parameter candidate names this one for
// people, for example with its host; the Lock appends a random text to make [Lock.Identity].
//
// "leader/" and the name together must be a valid store key, or the error matches store.ErrKey. If the candidate is
// not valid UTF-8, or not 1 to [MaxCandidate] bytes long, the error matches store.ErrInvalid. If the store delays its
// writes, the error matches errors.ErrUnsupported.
func New(st store.Store, name, candidate string, o *Options) (*Lock, error) {
	key := keyPrefix + name
	if err := store.CheckKey(key); err != nil {
		return nil, err
	}
	if candidate == "" || len(candidate) > MaxCandidate || !utf8.ValidString(candidate) {
		return nil, fmt.Errorf("%w: the candidate must be valid UTF-8 of 1 to %d bytes, but has %d bytes: %.40q", store.ErrInvalid, MaxCandidate, len(candidate), candidate)
	}
	if store.TraitsOf(st).Delayed() {
		return nil, fmt.Errorf("%w: the store delays its writes for longer than an election can wait", errors.ErrUnsupported)
	}
	log := slog.New(slog.DiscardHandler)
	if o != nil && o.Logger != nil {
		log = o.Logger
	}
	return &Lock{
		st: st, name: name, key: key, identity: candidate + "_" + rand.Text()[:16],
		log: log.With("election", name), leaseDuration: defaultLeaseDuration,
		clock: sysclock.NewClock(sysclock.Read, sysclock.ReadAwake),
	}, nil
}

// Identity returns the name of the candidate with a random text. Each Lock has its own: two candidates never take
// each other for themselves, and a program that restarts is another candidate.
func (l *Lock) Identity() string { return l.identity }

// Describe returns the key of the record, with escapes for control characters.
func (l *Lock) Describe() string { return strings.Trim(strconv.Quote(l.key), `"`) }

// RecordEvent logs an event of the elector. With the event "stopped leading" the term ends.
func (l *Lock) RecordEvent(event string) {
	l.mu.Lock()
	token := l.term
	if event == stoppedLeading {
		l.term = 0
	}
	l.mu.Unlock()
	l.log.Info(event, "candidate", l.identity, "token", token)
}

// Token returns the fencing token of this candidate's term. Pass the context of the work: the one that
// OnStartedLeading received, or that the manager passed to the controller. The token does not change during a term. It
// is higher than the tokens of all earlier terms of all candidates. Token sends no request.
//
// The work of an ended term never gets the token of a later term:
//
//   - If the term has ended, the error matches [ErrNotLeading]. This is also true if the Lock has read the record of
//     another candidate, or LeaseDuration*9/10 has passed since it sent its last successful write. The elector can end
//     the context later. The time in which the machine sleeps counts, too. A wall clock
//     that jumps forward ends the term early.
//   - If the context has ended, the error is its cause.
//
// The token of the first record is the Unix time in microseconds. So tokens rise even if the record was removed, under
// two conditions. First: the clock of the machine that creates the new record is slow by less than the age of the
// election. Second: the leader has changed less than a million times a second.
//
// LeaderTransitions in the record is the same number. On systems with an int of 32 bits, it has only the lower 32 bits.
func (l *Lock) Token(ctx context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.owns(l.seen) || l.clock.SinceStart() > l.trusted {
		return 0, ErrNotLeading
	}
	// After the term was read: the elector ends the context of a term before it begins the next term.
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return l.term, nil
}

// owns reports whether s is the record of the term of this candidate. The caller holds the mutex.
func (l *Lock) owns(s state) bool {
	return l.term != 0 && s.HolderIdentity == l.identity && s.Token == l.term
}

// bound returns the context of a call, which takes at most 1/part of LeaseDuration. During a term no call takes longer
// than the term is trusted: after its last attempt to renew, the elector frees the record before it ends the context of
// the work.
func (l *Lock) bound(ctx context.Context, part time.Duration) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.leaseDuration / part
	if left := l.trusted - l.clock.SinceStart(); l.term != 0 && limit > left {
		return context.WithTimeoutCause(ctx, left, ErrNotLeading)
	}
	return context.WithTimeout(ctx, limit)
}

// Get reads the record. The second result is the version of the register, which differs after each write. If the record
// is absent, the error matches IsNotFound. Other errors are those of the store.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := l.bound(ctx, 3)
	defer cancel()
	value, version, err := l.st.Get(ctx, l.key)
	if errors.Is(err, store.ErrNotFound) {
		l.remember(state{})
		return nil, nil, apierrors.NewNotFound(resource, l.name)
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := decode(l.name, value)
	if err != nil {
		return nil, nil, &store.OpError{Op: store.OpGet, Key: l.key, Store: store.TraitsOf(l.st).Name, Err: err}
	}
	s.version = version
	l.remember(s)
	ler := s.LeaderElectionRecord
	ler.LeaderTransitions = int(s.Token)
	return &ler, []byte(version.WithoutHint()), nil
}

// Create writes the first record. If there is a record, the error matches IsAlreadyExists. See [Lock.Update].
func (l *Lock) Create(ctx context.Context, ler resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, ler, state{}, apierrors.NewAlreadyExists(resource, l.name))
}

// Update replaces the record that this Lock has read or written last. It ignores LeaderTransitions: it keeps the token
// during a term, and raises it otherwise. The errors:
//
//   - IsConflict: another candidate has replaced the record, or removed it.
//   - [ErrNotLeading]: the elector wants to renew or to free a record of another candidate, or too late.
//   - IsTimeout: the record was written, but too long ago for a leader.
//   - All other errors are those of the store. If their outcome is unknown (store.OutcomeOf), the record may have
//     been written.
func (l *Lock) Update(ctx context.Context, ler resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	seen := l.seen
	l.mu.Unlock()
	if seen.version == "" {
		return errors.New("no record was read: call Get or Create before Update")
	}
	return l.write(ctx, ler, seen, apierrors.NewConflict(resource, l.name, errors.New("another candidate has changed the record")))
}

// write replaces the state seen. If the register has another state, it returns the error conflict.
func (l *Lock) write(ctx context.Context, ler resourcelock.LeaderElectionRecord, seen state, conflict error) error {
	next, err := l.next(ler, seen)
	if err != nil {
		return err
	}
	value, err := next.encode()
	if err != nil {
		return err
	}
	sent := l.clock.SinceStart()
	bounded, cancel := l.bound(ctx, 10)
	defer cancel()
	found, err := store.PutAndResolve(bounded, l.st, l.key, seen.version, value)
	if err == nil && found.Resolution == store.ResolutionApplied {
		next.version = found.Current.Version
		return l.written(next, sent)
	}
	l.mu.Lock()
	// If the elector gave the write up because the work has ended, the record can be freed.
	l.failed = l.failed || ler.HolderIdentity != "" && !errors.Is(ctx.Err(), context.Canceled)
	l.mu.Unlock()
	if err == nil || errors.Is(err, store.ErrConflict) && store.OutcomeOf(err) == store.NotApplied {
		return conflict
	}
	return err
}

// next returns the state that follows seen if the elector wants to write ler.
func (l *Lock) next(ler resourcelock.LeaderElectionRecord, seen state) (state, error) {
	if ler.LeaseDurationSeconds < 1 {
		return state{}, apierrors.NewBadRequest(fmt.Sprintf("the lease lasts %d s; LeaseDuration must be at least 1 s", ler.LeaseDurationSeconds))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := seen
	next.record = record{Holdfast: formatVersion, Kind: recordKind, Name: l.name, Token: seen.Token, LeaderElectionRecord: ler}
	switch {
	case ler.HolderIdentity == "": // the elector frees the record
		// After a failed renewal the work ends only after this call, which may hang: the others wait instead.
		if seen.HolderIdentity != l.identity || l.failed {
			return state{}, ErrNotLeading
		}
		return next, nil
	case l.term == 0 && seen.Token == 0:
		next.Token = uint64(max(1, time.Now().UnixMicro()))
	case l.term == 0:
		next.Token++
	case !l.owns(seen):
		return state{}, ErrNotLeading
	}
	l.leaseDuration = time.Duration(ler.LeaseDurationSeconds) * time.Second
	return next, nil
}

// written notes a state whose write was sent at this time. A leader may not rely on a write that was sent too long ago.
func (l *Lock) written(s state, sent time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = s
	took, limit := l.clock.SinceStart()-sent, l.leaseDuration/10
	switch {
	case s.HolderIdentity == "":
		l.term = 0
	case took > limit:
		l.failed = true
		return apierrors.NewTimeoutError(fmt.Sprintf("the write of %s took %v; a leader needs it within %v, a tenth of LeaseDuration", l.key, took, limit), 0)
	default:
		l.term, l.trusted, l.failed = s.Token, sent+9*limit, false
	}
	return nil
}

func (l *Lock) remember(s state) {
	l.mu.Lock()
	l.seen = s
	l.mu.Unlock()
}

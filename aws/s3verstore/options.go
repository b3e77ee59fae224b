package s3verstore

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/aws/internal/endpoint"
	"github.com/holdfast-go/holdfast/aws/internal/transport"
	"github.com/holdfast-go/holdfast/store"
)

// Defaults and bounds. Each is an option.
const (
	// DefaultLife is how long a PUT may be under way; see [Options].
	DefaultLife = 5 * time.Second

	// DefaultSettle is the pause after a PUT that goes with [DefaultLife].
	DefaultSettle = 6 * time.Second

	// DefaultRho is the assumed bound of the error of a clock's rate.
	DefaultRho = 0.01

	// DefaultTimeout is how long one request may take, but for the PUT of a write.
	DefaultTimeout = 5 * time.Second

	// DefaultTries is how often a request is sent that may be repeated.
	DefaultTries = 4

	// MinLife and MaxLife bound [Options].Life.
	MinLife = 50 * time.Millisecond
	MaxLife = 10 * time.Minute

	// The shortest lease is four pauses and this: so that a renewal, which takes a
	// pause, is through before the margin and grace of a lease begin.
	ttlBeyondSettles = 3 * time.Second
)

// Options are the options of [New]. The zero value of each field means its default.
type Options struct {
	// Prefix is put before all names, with a slash between. A valid key of at most
	// 256 bytes, or empty.
	Prefix string

	// Life (L in the package comment) is how long a PUT may be under way: from its
	// sending until it takes effect or never will, by the clocks of the machine that
	// sends it, and including what the clocks of the server's machines differ by. A
	// write whose PUT takes longer has an unknown outcome. All clients of a bucket
	// should have the same. From [MinLife] to [MaxLife]. Default [DefaultLife].
	Life time.Duration

	// Settle is the pause between a PUT and its judgement. More than
	// Life*(1+Rho)/(1-Rho) and a twentieth of Life for a listing. Default six fifths
	// of Life, or more where Rho is large.
	Settle time.Duration

	// Rho bounds the error of the rate of any machine's clock. From 0.0001 to 0.2.
	// Default [DefaultRho].
	Rho float64

	// Timeout bounds each request but the PUT of a write, which Life bounds. At least
	// 100 ms. Default [DefaultTimeout].
	Timeout time.Duration

	// Tries is how often a request that reads or cleans up is sent at most. From 1
	// to 20. Default [DefaultTries].
	Tries int

	// Owner is the account that must own the bucket, twelve digits; empty means any.
	Owner string

	// Encryption is how the server encrypts what is put; empty leaves it to the
	// bucket. KMSKey names the key of an encryption with KMS.
	Encryption types.ServerSideEncryption
	KMSKey     string

	// ACL is a canned ACL for what is put; empty sends none.
	ACL types.ObjectCannedACL

	// KeepAll leaves every version where it is. They pile up.
	KeepAll bool

	// UnsafeTimes accepts a Life and a Settle out of bounds. Nothing is promised then; it
	// is there to show what the pause is for.
	UnsafeTimes bool

	// Log is told of what went wrong beside the calls that return errors. Nil
	// discards.
	Log *slog.Logger
}

// MinSettle returns the shortest Settle that goes with a Life.
func MinSettle(life time.Duration, rho float64) time.Duration {
	return time.Duration(math.Ceil(float64(life)*(1+rho)/(1-rho))) + life/20
}

// check fills in the defaults and refuses what is out of bounds.
func (o *Options) check() error {
	o.Life = cmp.Or(o.Life, DefaultLife)
	o.Rho = cmp.Or(o.Rho, DefaultRho)
	o.Settle = cmp.Or(o.Settle, max(o.Life*6/5, MinSettle(o.Life, o.Rho)))
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Tries = cmp.Or(o.Tries, DefaultTries)
	o.Prefix = strings.Trim(o.Prefix, "/")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("s3verstore: Options: %w: %s", store.ErrMisconfigured, fmt.Sprintf(format, args...))
	}
	if o.Prefix != "" {
		if err := store.CheckKey(o.Prefix); err != nil || len(o.Prefix) > 256 {
			return bad("the prefix %.80q is no valid key of at most 256 bytes", o.Prefix)
		}
	}
	switch {
	case math.IsNaN(o.Rho) || o.Rho < 0.0001 || o.Rho > 0.2:
		return bad("Rho is %v; it can be from 0.0001 to 0.2", o.Rho)
	case o.Life < 0 || o.Settle < 0:
		return bad("Life or Settle is negative")
	case !o.UnsafeTimes && (o.Life < MinLife || o.Life > MaxLife):
		return bad("Life is %v; it can be from %v to %v", o.Life, MinLife, MaxLife)
	case !o.UnsafeTimes && o.Settle < MinSettle(o.Life, o.Rho):
		return bad("Settle is %v; for a Life of %v it is at least %v", o.Settle, o.Life, MinSettle(o.Life, o.Rho))
	case o.Timeout < 100*time.Millisecond:
		return bad("Timeout is %v; it is at least 100ms", o.Timeout)
	case o.Tries < 1 || o.Tries > 20:
		return bad("Tries is %d; it can be from 1 to 20", o.Tries)
	case o.KMSKey != "" && o.Encryption != types.ServerSideEncryptionAwsKms && o.Encryption != types.ServerSideEncryptionAwsKmsDsse:
		return bad("KMSKey needs an Encryption with KMS")
	case o.Encryption != "" && !slices.Contains(o.Encryption.Values(), o.Encryption):
		return bad("Encryption is one of %q", o.Encryption.Values())
	case o.ACL != "" && !slices.Contains(o.ACL.Values(), o.ACL):
		return bad("ACL is one of %q", o.ACL.Values())
	}
	return nil
}

// Store is a space of registers on a versioned bucket. It may be used by any number
// of goroutines, starts none that outlives a call, and needs no closing.
type Store struct {
	client *s3.Client
	http   *transport.Client
	bucket string
	prefix string // with a slash at its end, or empty
	where  string // for people
	o      Options
	fit    fitness
	cache  cache
}

var (
	_ store.Store          = (*Store)(nil)
	_ store.Peeker         = (*Store)(nil)
	_ store.Lister         = (*Store)(nil)
	_ store.Marker         = (*Store)(nil)
	_ store.Settler        = (*Store)(nil)
	_ store.VolatilePutter = (*Store)(nil)
	_ store.Describer      = (*Store)(nil)
)

// New returns the registers in a bucket, which must have versioning enabled. It
// sends nothing; the first call checks the bucket.
func New(client *s3.Client, bucket string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if client == nil || bucket == "" {
		return nil, fmt.Errorf("s3verstore: %w: a client and the name of a bucket are needed", store.ErrMisconfigured)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Store{client: client, http: transport.Guard(client.Options().HTTPClient, o.Log), bucket: bucket, o: o}
	s.where = Scheme + "://" + bucket
	if o.Prefix != "" {
		s.prefix = o.Prefix + "/"
		s.where += "/" + o.Prefix
	}
	s.fit.slot = make(chan struct{}, 1)
	s.cache.registers = map[string]*register{}
	return s, nil
}

// Scheme is that of the URLs of this store.
const Scheme = "s3+versioned"

// Traits implements [store.Describer].
func (s *Store) Traits() store.Traits {
	return store.Traits{
		Name:   s.where,
		ID:     endpoint.S3ID(Scheme, s.client.Options(), s.bucket),
		Prefix: s.prefix,
		// Conditions are not asked of the server, so that there is nothing to probe.
		Trusted:    true,
		NoReadBack: true,
		MinTTL:     4*s.o.Settle + ttlBeyondSettles,
		WriteTime:  s.o.Settle,
	}
}

// Pause returns [Options].Settle: the pause between a PUT and its judgement, which is
// the time that a write takes at least.
func (s *Store) Pause() time.Duration { return s.o.Settle }

// Life returns how long a PUT may be under way.
func (s *Store) Life() time.Duration { return s.o.Life }

package s3bucket

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/logging"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/aws/endpoint"
	"github.com/holdfast-go/holdfast/internal/aws/transport"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultTimeout is the default of [Options].Timeout.
	DefaultTimeout = 5 * time.Second

	// tries is how often a request is sent at most that may be repeated: reads, and
	// writes without a condition.
	tries = 4

	// DefaultPartSize is the size of a part of a large upload, in bytes.
	DefaultPartSize = 8 << 20

	// DefaultParallel is the default of [Options].Parallel.
	DefaultParallel = 5

	// DefaultProbePrefix is the default of [Options].ProbePrefix.
	DefaultProbePrefix = ".holdfast/probe"

	// minRate is how fast the body of an upload is expected to go at least, in
	// bytes a second.
	minRate = 256 << 10

	// longTimeout bounds requests for which the server itself copies or joins
	// bodies. It holds them open with white space.
	longTimeout = 5 * time.Minute

	// smallBody is the size to which the body of a request is small, in bytes.
	smallBody = 256 << 10

	minPartSize = 5 << 20 // of the protocol, but for the last part
)

// Options are the options of [New].
type Options struct {
	// Timeout bounds each request until the answer is complete. The bound of a request with a body
	// is one second longer for each 256 KiB. For a Get, Timeout bounds the time until the answer
	// begins, and then each time without new bytes. It also bounds the sum of all times in which
	// the body arrives at less than 16 KiB a second.
	//
	// If the context of the call has a deadline, a small request gets at most half of the remaining
	// time, but at least 500 ms. The other half is for a read that finds the outcome after a lost
	// answer. Timeout is at least 100 ms; 0 means [DefaultTimeout].
	Timeout time.Duration

	// PartSize is the size of the parts of a large upload, in bytes. The Bucket uploads a body in
	// parts if it is larger than PartSize. PartSize is from 5 MiB to 5 GiB; 0 means
	// [DefaultPartSize]. If a body would need more than 10,000 parts, the parts are larger. For
	// example, if the body has a known length of 1 TiB, the parts have 105 MiB. If the length is
	// not known, the parts grow during the upload: to 25 MiB after 14 GiB, and to 120 MiB after 110
	// GiB.
	PartSize int64

	// Parallel is the number of parts that the Bucket sends, or the server copies, at the same
	// time. A Put needs memory for Parallel parts of PartSize bytes. If a single part is larger
	// than this memory, the Put sends only one part at a time. Parallel is from 1 to 64; 0 means
	// [DefaultParallel].
	Parallel int

	// ProbePrefix is the prefix of the objects on which the bucket tests conditions; empty means
	// [DefaultProbePrefix].
	ProbePrefix string

	// AssumeAbilities names abilities that the Bucket does not test. Either an earlier run has
	// found these abilities (see [Bucket.KnownAbilities]), or the user accepts the risk.
	AssumeAbilities []object.Ability

	// CopyIfAbsent is the header that makes the server refuse a copy if the destination exists. It
	// is for servers other than Amazon's. Nil means If-None-Match.
	CopyIfAbsent *CopyHeader

	// Owner is the account that must own the bucket, twelve digits; empty means any account. If
	// another account owns the bucket, the server denies all requests.
	Owner string

	// Encryption is the method by which the server encrypts new objects: "AES256", "aws:kms" or
	// "aws:kms:dsse". Empty means the setting of the bucket. KMSKey names the key. Empty means the
	// account's key for S3.
	Encryption types.ServerSideEncryption
	KMSKey     string

	// ACL is a canned ACL for new objects, such as "bucket-owner-full-control"; empty sends none.
	ACL types.ObjectCannedACL

	// Logger receives the results of the tests of conditions. Nil means no log.
	Logger *slog.Logger
}

// Bucket is a bucket on S3. Any number of goroutines may use it, and it needs no Close. Calls
// that transfer parts start goroutines and wait for them.
type Bucket struct {
	client    *s3.Client
	http      *transport.Client
	name      string
	where     string // the bucket and its endpoint, for people
	o         Options
	id        string // the same, for programs
	onAWS     bool
	abilities *object.AbilityCache

	// plain and versioned say that a PUT was answered without the id of a version, and with
	// one; notMD5, that the ETags of the server are not the MD5 of the body; oneByOne, that it
	// removes no more than one version in a request. All views share them.
	plain, versioned, notMD5, oneByOne *atomic.Bool

	buffers *sync.Pool // of pointers to the memory of parts

	// trying: this view is used to try conditions; it sends what the caller asks for.
	// parts: it uploads everything in parts.
	trying, parts bool

	// checksum is that which the SDK sends with each part; empty: none. Some servers refuse
	// to complete an upload whose beginning did not announce it.
	checksum types.ChecksumAlgorithm

	copyPart int64 // the size of the parts of a copy, in bytes
	tries    int
}

var (
	_ object.Bucket      = (*Bucket)(nil)
	_ object.Copier      = (*Bucket)(nil)
	_ object.Verifier    = (*Bucket)(nil)
	_ object.DirLister   = (*Bucket)(nil)
	_ object.WholeReader = (*Bucket)(nil)
	_ object.Describer   = (*Bucket)(nil)
	_ object.Uploader    = (*Bucket)(nil)
)

// New returns the bucket with this name. The Bucket sends its requests through the given client.
// New sends no request. It refuses a Multi-Region Access Point, with an error that matches
// [store.ErrUnsafe].
func New(client *s3.Client, bucket string, opts *Options) (*Bucket, error) {
	o := *cmp.Or(opts, &Options{})
	if client == nil || bucket == "" {
		return nil, fmt.Errorf("s3bucket: %w: the client is nil, or the name of the bucket is empty", object.ErrInvalid)
	}
	if strings.HasSuffix(bucket, ".mrap") {
		return nil, fmt.Errorf("s3bucket: %w: a Multi-Region Access Point sends requests to buckets in several regions, and each condition is checked in one of these buckets only: name one bucket", store.ErrUnsafe)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	b := &Bucket{client: client, http: transport.Guard(client.Options().HTTPClient, o.Logger), name: bucket, o: o, copyPart: copyPart, tries: tries}
	if b.onAWS = isAWS(client.Options()); b.onAWS {
		b.o.CopyIfAbsent = nil // a header that is ignored there would be no condition
	}
	b.id = bucketID(client.Options(), bucket)
	b.where = "s3://" + bucket
	if host := endpoint.Host(base(client.Options())); host != "" {
		b.where += " at " + host
	}
	b.buffers = new(sync.Pool)
	b.plain, b.versioned, b.notMD5, b.oneByOne = new(atomic.Bool), new(atomic.Bool), new(atomic.Bool), new(atomic.Bool)
	if client.Options().RequestChecksumCalculation == aws.RequestChecksumCalculationWhenSupported {
		b.checksum = types.ChecksumAlgorithmCrc32
	}
	b.abilities = object.NewAbilityCache(b.where, b.o.Logger, b.onAWS, append([]object.Ability{object.PlainCopy}, o.AssumeAbilities...)...)
	return b, nil
}

// check fills in the defaults and refuses what is out of bounds.
func (o *Options) check() error {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.PartSize = cmp.Or(o.PartSize, DefaultPartSize)
	o.Parallel = cmp.Or(o.Parallel, DefaultParallel)
	o.ProbePrefix = cmp.Or(o.ProbePrefix, DefaultProbePrefix)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	for _, a := range o.AssumeAbilities {
		if !slices.Contains(object.Abilities(), a) {
			return fmt.Errorf("s3bucket: %w: the ability %q in Options.AssumeAbilities is unknown", object.ErrInvalid, a)
		}
	}
	var wrong string
	switch {
	case o.Timeout < 100*time.Millisecond:
		wrong = fmt.Sprintf("Timeout is %v; it must be at least 100ms", o.Timeout)
	case o.PartSize < minPartSize || o.PartSize > maxPartSize:
		wrong = fmt.Sprintf("PartSize is %d; it must be from %d to %d", o.PartSize, int64(minPartSize), int64(maxPartSize))
	case o.Parallel < 1 || o.Parallel > 64:
		wrong = fmt.Sprintf("Parallel is %d; it must be from 1 to 64", o.Parallel)
	case o.KMSKey != "" && o.Encryption != types.ServerSideEncryptionAwsKms && o.Encryption != types.ServerSideEncryptionAwsKmsDsse:
		wrong = "KMSKey is set, but Encryption is not aws:kms or aws:kms:dsse"
	case o.Encryption != "" && !slices.Contains(o.Encryption.Values(), o.Encryption):
		wrong = fmt.Sprintf("Encryption must be one of %q", o.Encryption.Values())
	case o.ACL != "" && !slices.Contains(o.ACL.Values(), o.ACL):
		wrong = fmt.Sprintf("ACL must be one of %q", o.ACL.Values())
	default:
		return nil
	}
	return fmt.Errorf("s3bucket: Options: %w: %s", object.ErrInvalid, wrong)
}

// Name returns the name of the bucket.
func (b *Bucket) Name() string { return b.name }

// OnAWS reports whether the server is Amazon S3 itself, whose conditions need no test.
func (b *Bucket) OnAWS() bool { return b.onAWS }

// Traits implements [object.Describer].
func (b *Bucket) Traits() object.Traits {
	return object.Traits{Name: "s3://" + b.name, ID: b.id, Trusted: b.onAWS}
}

// call sends one request through f, with the SDK's retries off, and classifies what
// outcome.
func (b *Bucket) call(ctx context.Context, timeout time.Duration, f func(ctx context.Context, opt func(*s3.Options)) error) (*awscall.Call, error) {
	c := awscall.New(ctx, b.where)
	if timeout <= b.timeoutFor(smallBody) {
		timeout = c.Share(timeout)
	}
	return c, b.send(ctx, c, timeout, f)
}

// request is call for a method of the client of the SDK. The answer is never nil.
func request[In, Out any](ctx context.Context, b *Bucket, timeout time.Duration, method method[In, Out], in *In, special ...func(*s3.Options)) (out *Out, c *awscall.Call, err error) {
	c, err = b.call(ctx, timeout, func(ctx context.Context, opt func(*s3.Options)) (err error) {
		out, err = method(ctx, in, append([]func(*s3.Options){opt}, special...)...)
		return err
	})
	return cmp.Or(out, new(Out)), c, err
}

type method[In, Out any] = func(context.Context, *In, ...func(*s3.Options)) (*Out, error)

// send is call with a time limit that is kept as it is.
func (b *Bucket) send(ctx context.Context, c *awscall.Call, timeout time.Duration, f func(ctx context.Context, opt func(*s3.Options)) error) error {
	if ctx.Err() != nil {
		return c.Classify(ctx.Err())
	}
	ctx, cancel := c.WithTimeout(timeout)
	defer cancel()
	err := f(ctx, b.once(c))
	if err != nil || c.Damaged() != nil {
		return b.classify(c, err)
	}
	return nil
}

// once switches off retries and lets c watch the request. A program that has asked for no log
// gets none: by default the SDK would write to standard error that an answer has no checksum.
func (b *Bucket) once(c *awscall.Call) func(*s3.Options) {
	return func(o *s3.Options) {
		if o.ClientLogMode == 0 {
			o.Logger = logging.Nop{}
		}
		o.Retryer = aws.NopRetryer{}
		o.HTTPClient = c.Watch(b.http)
	}
}

func strOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// unquoted is an ETag without the quotes that not every server sends.
func unquoted(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }

// versionOf returns the version that an ETag is: with its quotes, which not every
// server sends.
func versionOf(etag *string) object.Version {
	tag := aws.ToString(etag)
	if tag != "" && !isETag(tag) {
		tag = `"` + tag + `"`
	}
	return object.Version(tag)
}

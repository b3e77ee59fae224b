package azblobbucket

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultTimeout is the default of [Options].Timeout.
	DefaultTimeout = 5 * time.Second

	// DefaultBlockSize is the default of [Options].BlockSize, in bytes.
	DefaultBlockSize = 8 << 20

	// DefaultParallel is the default of [Options].Parallel.
	DefaultParallel = 5

	// DefaultProbePrefix is the default of [Options].ProbePrefix.
	DefaultProbePrefix = ".holdfast/probe"

	maxBlocks    = 50_000
	maxBlockSize = 4000 << 20
	minBlockSize = 64 << 10

	// minRate is how fast the body of an upload is expected to go at least, in bytes a second.
	minRate = 256 << 10

	// tries is the largest number of times that the Bucket sends a request that may be repeated.
	tries = 4
)

// Options are the options of [New].
type Options struct {
	// Timeout bounds each request. The bound of a request with a body is one second longer for each 256
	// KiB. For a Get, Timeout bounds the time until the answer begins, and then each time without new
	// bytes. It also bounds the sum of all times in which the body arrives at less than 16 KiB a second. If the context of the call has a deadline, a request gets at most half of the remaining
	// time, but at least 500 ms. The other half is for a read that finds the outcome after a lost
	// answer. Timeout is at least 100 ms; 0 means [DefaultTimeout].
	Timeout time.Duration

	// BlockSize is the size of the blocks of a large upload, in bytes. A body of at most BlockSize is
	// written with one request. BlockSize is from 64 KiB to 4,000 MiB; 0 means [DefaultBlockSize]. If a
	// body would need more than 50,000 blocks, the blocks are larger.
	BlockSize int64

	// CopyBlockSize is the size of the blocks of a copy, in bytes. It is from 64 KiB to 4,000 MiB; 0 means 256
	// MiB.
	CopyBlockSize int64

	// Parallel is the number of blocks that the Bucket sends, or the server copies, at the same time. A Put
	// needs memory for Parallel blocks. Parallel is from 1 to 64; 0 means [DefaultParallel].
	Parallel int

	// Credential authorizes the sources of copies. Set it if the client has a token credential.
	Credential azcore.TokenCredential

	// ProbePrefix is the prefix of the blobs on which the Bucket tests conditions on a server other than
	// Azure; empty means [DefaultProbePrefix].
	ProbePrefix string

	// AssumeAbilities names abilities that the Bucket does not test: an earlier run has found them,
	// or the user accepts the risk.
	AssumeAbilities []object.Ability

	// Logger receives the results of the tests of conditions. Nil means no log.
	Logger *slog.Logger

	secrets []string                       // that no error may show
	key     *container.SharedKeyCredential // of the client; can be nil
}

// Bucket is a container. Any number of goroutines may use it, and it needs no Close. Calls that
// transfer blocks start goroutines and wait for them.
type Bucket struct {
	client    *container.Client
	container string // its name
	name      string // of the bucket, for people
	id        string
	azure     bool // the server is Azure itself, whose conditions need no test
	o         Options

	// blocks: this view uploads everything in blocks. trying: this view tests the server.
	blocks, trying bool

	abilities *object.AbilityCache
}

var (
	_ object.Bucket    = (*Bucket)(nil)
	_ object.Copier    = (*Bucket)(nil)
	_ object.Verifier  = (*Bucket)(nil)
	_ object.Describer = (*Bucket)(nil)
)

// New returns the bucket of a container. New sends no request. The Bucket uses the HTTP client of the given
// client. Give the client a bound for the size of answers, or use [Open].
func New(client *container.Client, opts *Options) (*Bucket, error) {
	o := *cmp.Or(opts, &Options{})
	if err := o.check(); err != nil {
		return nil, err
	}
	at, err := url.Parse(client.URL())
	if err != nil {
		return nil, fmt.Errorf("azblobbucket: %w: the client's URL is not valid", object.ErrInvalid)
	}
	// The account is the first part of the host, or of the path.
	path := strings.Split(strings.Trim(at.Path, "/"), "/")
	account, _, _ := strings.Cut(at.Host, ".")
	if len(path) == 2 {
		account = path[0]
	}
	name := path[len(path)-1]
	if len(path) > 2 || name == "" {
		return nil, fmt.Errorf("azblobbucket: %w: the client's URL does not name a container", object.ErrInvalid)
	}
	host := strings.ToLower(strings.TrimSuffix(at.Host, map[string]string{"https": ":443", "http": ":80"}[at.Scheme]))
	if first, _, _ := strings.Cut(host, "."); strings.HasSuffix(first, "-secondary") {
		return nil, fmt.Errorf("%w: %s is the secondary endpoint of an account: it shows old data; use the primary endpoint", store.ErrUnsafe, host)
	}
	b := &Bucket{client: client, o: o}
	b.azure = at.Scheme == "https" && len(path) == 1 && azureHost().MatchString(host)
	b.container, b.name = name, "azblob://"+account+"/"+name
	if !b.azure {
		b.name += " at " + host
	}
	b.id = "azblob:" + host + "/" + strings.Join(path, "/")
	b.o.secrets = append(slices.Clone(o.secrets), sasSecrets(at.RawQuery)...)
	b.abilities = object.NewAbilityCache(b.name, o.Logger, b.azure, append([]object.Ability{object.PlainCopy}, o.AssumeAbilities...)...)
	return b, nil
}

// azureHost matches the hosts of Blob Storage in all clouds of Azure, with and without a DNS zone.
var azureHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]{3,24}(\.blob\.core\.(windows\.net|chinacloudapi\.cn|usgovcloudapi\.net|cloudapi\.de)|\.z[0-9]{1,2}\.blob\.storage\.azure\.net)$`)
})

// sasSecrets returns the secret part of a SAS token, as it is and as a URL has it.
func sasSecrets(token string) []string {
	q, _ := url.ParseQuery(strings.TrimPrefix(token, "?"))
	if sig := q.Get("sig"); sig != "" {
		return []string{url.QueryEscape(sig), sig}
	}
	return nil
}

// check fills in the defaults and refuses what is out of bounds.
func (o *Options) check() error {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.BlockSize = cmp.Or(o.BlockSize, DefaultBlockSize)
	o.CopyBlockSize = cmp.Or(o.CopyBlockSize, 256<<20)
	o.Parallel = cmp.Or(o.Parallel, DefaultParallel)
	o.ProbePrefix = cmp.Or(o.ProbePrefix, DefaultProbePrefix)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	var wrong string
	switch {
	case o.Timeout < 100*time.Millisecond:
		wrong = fmt.Sprintf("Timeout is %v; it must be at least 100ms", o.Timeout)
	case min(o.BlockSize, o.CopyBlockSize) < minBlockSize || max(o.BlockSize, o.CopyBlockSize) > maxBlockSize:
		wrong = fmt.Sprintf("BlockSize is %d, and CopyBlockSize is %d; they must be from %d to %d", o.BlockSize, o.CopyBlockSize, minBlockSize, int64(maxBlockSize))
	case o.Parallel < 1 || o.Parallel > 64:
		wrong = fmt.Sprintf("Parallel is %d; it must be from 1 to 64", o.Parallel)
	}
	for _, a := range o.AssumeAbilities {
		if !slices.Contains(object.Abilities(), a) {
			wrong = fmt.Sprintf("the ability %q in AssumeAbilities is unknown", a)
		}
	}
	if wrong != "" {
		return fmt.Errorf("azblobbucket: Options: %w: %s", object.ErrInvalid, wrong)
	}
	return nil
}

// Container returns the client of the container.
func (b *Bucket) Container() *container.Client { return b.client }

// Traits implements [object.Describer].
func (b *Bucket) Traits() object.Traits {
	name, _, _ := strings.Cut(b.name, " ")
	return object.Traits{Name: name, ID: b.id, Trusted: b.azure, UniqueVersions: b.azure}
}

// WithAbilities returns a view of the same bucket that assumes these abilities.
func (b *Bucket) WithAbilities(abilities ...object.Ability) *Bucket {
	view := *b
	view.abilities = b.abilities.With(abilities...)
	return &view
}

// KnownAbilities returns the abilities of the server that the Bucket already knows. Pass them to
// [Options].AssumeAbilities of a later run. KnownAbilities sends no request.
func (b *Bucket) KnownAbilities() []object.Ability { return b.abilities.Known() }

// Verify implements [object.Verifier]. It tests the abilities that are not yet known, on blobs below
// [Options].ProbePrefix. The Bucket remembers the results.
func (b *Bucket) Verify(ctx context.Context, abilities ...object.Ability) error {
	for _, a := range abilities {
		if err := b.require(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// require returns nil if the server has an ability, or if none is named. While abilities are tested, nothing
// is required.
func (b *Bucket) require(ctx context.Context, a object.Ability) error {
	if a == "" || b.trying {
		return nil
	}
	return b.abilities.Require(ctx, a, func() (map[object.Ability]error, error) {
		view := *b
		view.trying, view.blocks = true, a == object.PartsIfAbsent || a == object.PartsIfMatch
		return object.Probe(ctx, &view, b.o.ProbePrefix, a)
	})
}

// condition is that of a write.
type condition struct {
	ifAbsent bool
	ifMatch  object.Version
}

func (c condition) any() bool { return c != condition{} }

// of returns the ability that the condition needs; empty if there is none.
func (c condition) of(absent, match object.Ability) object.Ability {
	switch {
	case c.ifAbsent:
		return absent
	case c.ifMatch != "":
		return match
	}
	return ""
}

func (c condition) headers() *blob.AccessConditions {
	var m blob.ModifiedAccessConditions
	switch {
	case c.ifAbsent:
		any := azcore.ETagAny
		m.IfNoneMatch = &any
	case c.ifMatch != "":
		m.IfMatch = etag(c.ifMatch)
	}
	return &blob.AccessConditions{ModifiedAccessConditions: &m}
}

func etag(v object.Version) *azcore.ETag { return (*azcore.ETag)(strOrNil(string(v))) }

// versionOf returns the version that an ETag is. A listing has ETags without quotes.
func versionOf(e *azcore.ETag) object.Version {
	if e == nil || *e == "" {
		return ""
	}
	return object.Version(`"` + strings.Trim(string(*e), `"`) + `"`)
}

// validETag matches what can be the version of a blob. A * would match every version.
var validETag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^"[!#-~]{1,100}"$`) })

// checkCall returns the error of an earlier check, an error for a key that Azure would change, a conflict if one of the
// versions cannot be an ETag, or the error of the context.
func checkCall(ctx context.Context, err error, key string, versions ...object.Version) error {
	if err == nil {
		err = checkKey(key)
	}
	for _, v := range versions {
		if err == nil && v != "" && !validETag().MatchString(string(v)) {
			err = fmt.Errorf("%w: %.100q is not an ETag of Azure", &object.ConflictError{Key: key}, v)
		}
	}
	return cmp.Or(err, store.CheckContext(ctx))
}

// checkKey refuses keys that Azure would change to another key.
func checkKey(key string) error {
	for segment := range strings.SplitSeq(key, "/") {
		if strings.HasSuffix(segment, ".") || strings.Contains(segment, `\`) {
			return fmt.Errorf("%w: in %.200q, a segment ends with a dot or has a backslash; Azure would use another name for the blob", store.ErrKey, key)
		}
	}
	return nil
}

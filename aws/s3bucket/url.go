package s3bucket

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/internal/aws/awsconfig"
	"github.com/holdfast-go/holdfast/object"
)

// Config is a parsed URL s3://BUCKET/PREFIX?PARAMETERS. The parameters:
//
//	endpoint    http://HOST:PORT or https://HOST:PORT of a server other than AWS
//	region      default: us-east-1 if there is an endpoint, else that of the AWS command
//	profile     profile in the files of the AWS command
//	anonymous   the client does not sign its requests
//	path_style  the bucket is in the path of the address, not in the host name;
//	            also use_path_style; default: true if there is an endpoint
//	fips, dualstack   the kind of AWS endpoint
//	sse         AES256, aws:kms or aws:kms:dsse
//	sse_key     key of KMS
//	acl         canned ACL, such as bucket-owner-full-control
//	expected_bucket_owner  account that must own the bucket
//	copy_if_not_exists   header that makes a copy conditional; header:NAME:VALUE or
//	            header-with-status:NAME:VALUE:STATUS, as in object_store
//	timeout     time limit of a request, such as 5s
//	checksums   when_supported or when_required; default with an endpoint: when_required,
//	            because some servers refuse the checksums that the SDK adds
//	unsafe      abilities, separated by commas, that Holdfast uses although the server
//	            failed their test: put-if-absent, put-if-match, ...
//
// Credentials come from the sources of the AWS command, never from the URL.
type Config struct {
	Bucket string
	Prefix string // without slashes at its ends; can be empty

	params    awsconfig.Params
	pathStyle *bool
	checksums string
	options   Options
	unsafe    []object.Ability
}

// ParseURL parses a URL. Its errors match store.ErrMisconfigured.
func ParseURL(raw string) (*Config, error) {
	u, err := awsconfig.Parse(raw, "s3")
	if err != nil {
		return nil, err
	}
	c := &Config{Bucket: u.Host, Prefix: u.Prefix, params: u.Params()}
	c.pathStyle = u.Bool("path_style")
	if also := u.Bool("use_path_style"); c.pathStyle == nil {
		c.pathStyle = also
	}
	c.checksums = u.String("checksums")
	c.options = Options{
		Timeout:    u.Duration("timeout"),
		Owner:      u.String("expected_bucket_owner"),
		Encryption: types.ServerSideEncryption(u.String("sse")),
		KMSKey:     u.String("sse_key"),
		ACL:        types.ObjectCannedACL(u.String("acl")),
	}
	if text := u.String("copy_if_not_exists"); text != "" {
		if c.options.CopyIfAbsent, err = parseCopyHeader(text); err != nil {
			return nil, wrongParameter("copy_if_not_exists", err.Error())
		}
	}
	if c.unsafe, err = object.ParseAbilities(u.String("unsafe")); err != nil {
		return nil, wrongParameter("unsafe", err.Error())
	}
	if err := u.Rest(); err != nil {
		return nil, err
	}
	switch c.checksums {
	case "", "when_supported", "when_required":
	default:
		return nil, wrongParameter("checksums", "it must be when_supported or when_required")
	}
	return c, c.options.with(nil, "").check()
}

// Client returns a client of the SDK. It sends no request.
func (c *Config) Client(ctx context.Context) (*s3.Client, error) {
	cfg, err := c.params.Load(ctx)
	if err != nil {
		return nil, err
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.BaseEndpoint = c.params.BaseEndpoint(o.BaseEndpoint)
		o.Region = awsconfig.Region(o.Region, o.BaseEndpoint)
		o.UsePathStyle = !isAWS(*o)
		if c.pathStyle != nil {
			o.UsePathStyle = *c.pathStyle
		}
		if c.checksums == "when_required" || c.checksums == "" && !isAWS(*o) {
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	})
	return client, awsconfig.CheckRegion(client.Options().Region)
}

// Unsafe returns the abilities that the URL names in its parameter "unsafe".
func (c *Config) Unsafe() []object.Ability { return c.unsafe }

// Options returns a copy of the given options. If the URL has a value for an option, the copy has
// the value of the URL. The ProbePrefix is below the prefix of the URL.
func (c *Config) Options(opts *Options) *Options { return c.options.with(opts, c.Prefix) }

// with returns opts with what is set in o.
func (o Options) with(opts *Options, prefix string) *Options {
	merged := *cmp.Or(opts, &Options{})
	merged.Timeout = cmp.Or(o.Timeout, merged.Timeout)
	merged.Owner = cmp.Or(o.Owner, merged.Owner)
	merged.Encryption = cmp.Or(o.Encryption, merged.Encryption)
	merged.KMSKey = cmp.Or(o.KMSKey, merged.KMSKey)
	merged.ACL = cmp.Or(o.ACL, merged.ACL)
	merged.CopyIfAbsent = cmp.Or(o.CopyIfAbsent, merged.CopyIfAbsent)
	if merged.ProbePrefix == "" && prefix != "" {
		merged.ProbePrefix = prefix + "/" + DefaultProbePrefix
	}
	return &merged
}

// Open returns the bucket of the URL, with the options of [Config.Options]. Open ignores the
// abilities of [Config.Unsafe]: the caller decides whether to use them. Open sends no request.
func (c *Config) Open(ctx context.Context, opts *Options) (*Bucket, error) {
	client, err := c.Client(ctx)
	if err != nil {
		return nil, err
	}
	return New(client, c.Bucket, c.Options(opts))
}

// Open returns the bucket that a URL names, and the prefix in the URL. The caller adds the prefix
// to its keys. See [Config] for the parameters. Open sends no request.
func Open(ctx context.Context, rawURL string, opts *Options) (b *Bucket, prefix string, err error) {
	c, err := ParseURL(rawURL)
	if err != nil {
		return nil, "", err
	}
	o := *cmp.Or(opts, &Options{})
	o.AssumeAbilities = slices.Concat(o.AssumeAbilities, c.unsafe)
	b, err = c.Open(ctx, &o)
	return b, strings.Trim(c.Prefix, "/"), err
}

func wrongParameter(name, why string) error {
	return awsconfig.Wrong("the parameter %s of the store's URL: %s", name, why)
}

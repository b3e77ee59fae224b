package s3verstore

import (
	"cmp"
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/internal/aws/awsconfig"
)

// Config is a parsed URL s3+versioned://BUCKET/PREFIX?PARAMETERS. The parameters are the same as in
// [s3bucket.Config], except unsafe, which is not allowed. There are two more parameters:
//
//	put_lifetime  longest time of a PUT, such as 5s; see [Options]
//	settle_delay  wait between a PUT and the listing that shows its outcome
type Config struct {
	*s3bucket.Config

	life, settle time.Duration
}

// ParseURL parses a URL. Its errors match store.ErrMisconfigured.
func ParseURL(raw string) (*Config, error) {
	rest, ok := strings.CutPrefix(raw, Scheme+"://")
	if !ok {
		return nil, awsconfig.Wrong("the URL of the store does not begin with %s://", Scheme)
	}
	c := &Config{}
	rest, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, awsconfig.Wrong("the parameters in the URL of the store are not valid")
	}
	for name, to := range map[string]*time.Duration{"put_lifetime": &c.life, "settle_delay": &c.settle} {
		given := values[name]
		delete(values, name)
		switch {
		case len(given) > 1:
			return nil, awsconfig.Wrong("the URL of the store has the parameter %s twice", name)
		case len(given) == 1:
			if *to, err = time.ParseDuration(given[0]); err != nil || *to <= 0 {
				return nil, awsconfig.Wrong("the parameter %s of the store's URL must be a duration such as 5s", name)
			}
		}
	}
	if values.Has("unsafe") {
		return nil, awsconfig.Wrong("the parameter unsafe has no meaning for a store on a versioned bucket; leave the parameter out")
	}
	if c.Config, err = s3bucket.ParseURL("s3://" + rest + "?" + values.Encode()); err != nil {
		return nil, err
	}
	return c, c.Times(nil).check()
}

// Times returns a copy of the given options. If the URL has the parameters put_lifetime or
// settle_delay, the copy has their values.
func (c *Config) Times(opts *Options) *Options {
	o := *cmp.Or(opts, &Options{})
	if c.life != 0 {
		o.PutLifetime, o.SettleDelay = c.life, 0 // SettleDelay depends on it
	}
	o.SettleDelay = cmp.Or(c.settle, o.SettleDelay)
	return &o
}

// Open returns a [Store] for the registers that a URL names; see [Config]. It sends no request.
func Open(ctx context.Context, rawURL string, opts *Options) (*Store, error) {
	c, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	o := c.Times(opts)
	b, err := c.Config.Open(ctx, &s3bucket.Options{Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return New(b, c.Prefix, o)
}

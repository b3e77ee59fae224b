package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/store"
)

// table is what is examined of a table in DynamoDB.
type table struct {
	client *dynamodb.Client
	name   string
	prefix string // ends with a slash unless it is empty
	opts   dynamostore.Options
	st     *dynamostore.Store // as programs use it
	e      *examination
}

// DynamoDB returns the target of a table in DynamoDB.
func DynamoDB(client *dynamodb.Client, name string, opts *dynamostore.Options) *Target {
	p := &table{client: client, name: name}
	if opts != nil {
		p.opts = *opts
	}
	p.opts.Unsafe = nil // it is to be seen what the table is, not what one puts up with
	if prefix := strings.Trim(p.opts.Prefix, "/"); prefix != "" {
		p.prefix = prefix + "/"
	}
	return &Target{
		kind: "dynamodb", name: strings.TrimSuffix("dynamodb://"+name+"/"+p.prefix, "/"),
		begin: p.begin,
		steps: func(*examination) []step {
			return []step{
				{"rights", "rights", true, p.rights},
				{"table", "the table", true, p.table},
				{"conditions", "the check before the first use", true, p.firstUse},
			}
		},
		clean: p.clean,
		sweep: p.sweep,
		right: func(op string) string {
			return map[string]string{"get": "dynamodb:GetItem", "put": "dynamodb:PutItem", "delete": "dynamodb:PutItem", "list": "dynamodb:Query"}[op]
		},
	}
}

func (p *table) begin(ctx context.Context, e *examination) error {
	p.e = e
	var handles []store.Store
	for range e.handles {
		o := p.opts
		o.Trusted = true // what the registers do is to be seen
		st, err := dynamostore.New(p.client, p.name, &o)
		if err != nil {
			return err
		}
		handles = append(handles, st)
	}
	o := p.opts
	o.Trusted = false
	// What its probe writes is below our own prefix, so that sweep finds it. Only a prefix
	// of more than 200 bytes has no room for that.
	if own := p.prefix + e.dir; len(own) <= dynamostore.MaxPrefix {
		o.Prefix = own
	}
	var err error
	if p.st, err = dynamostore.New(p.client, p.name, &o); err != nil {
		return err
	}
	if err := e.use(true, handles...); err != nil {
		return err
	}
	err = e.look(ctx)
	if errors.Is(err, store.ErrMisconfigured) {
		// A table with other keys is something to be shown.
		if t, e := p.st.Describe(ctx); e == nil && !t.KeysValid {
			return nil
		}
	}
	return err
}

func (p *table) table(ctx context.Context) []Check {
	c := finding("table-keys", "keys of the table", true)
	t, err := p.st.Describe(ctx)
	switch {
	case errors.Is(err, store.ErrDenied):
		c.needed = false
		return c.as(NotTested, reason(err), "needs the right dynamodb:DescribeTable; if it is a global table, its locks may not be safe")
	case err != nil:
		return p.e.failed(c, err)
	case !t.KeysValid:
		return c.unsafe("they are "+t.Keys, "part (HASH, S) and key (RANGE, S) are needed: use another table, which holdfast init can create")
	}
	checks := c.ok("part and key, as needed")
	c = finding("table-global", "global table", true)
	checks = append(checks, c.global(t.Replicas, t.StronglyConsistent, "two regions could grant one lock at the same time; Holdfast refuses leases here")...)
	c = finding("table-ttl", "items removed by TTL", false)
	switch {
	case errors.Is(t.TTLErr, store.ErrDenied):
		checks = append(checks, c.as(NotTested, reason(t.TTLErr), "needs the right dynamodb:DescribeTimeToLive; items of Holdfast have no number attribute, so DynamoDB removes none of them")...)
	case t.TTLErr != nil:
		checks = append(checks, c.as(NotTested, t.TTLErr.Error(), "items of Holdfast have no number attribute, so DynamoDB removes none of them")...)
	case t.TTL != "":
		checks = append(checks, c.warn(fmt.Sprintf("by the attribute %q", t.TTL), "items of Holdfast have no number attribute, so DynamoDB removes none of them; do not add one by hand")...)
	default:
		checks = append(checks, c.ok("off")...)
	}
	c = finding("table-protected", "protection from deletion", false)
	if t.DeletionProtection {
		return append(checks, c.ok("on")...)
	}
	return append(checks, c.as(OK, "off", "if you delete or restore the table, old tokens are valid again: consider turning this protection on")...)
}

// global ends a check of the regions of a table.
func (c Check) global(replicas []string, oneOrder bool, without string) []Check {
	switch {
	case len(replicas) == 0:
		return c.ok("it is in one region")
	case oneOrder:
		return c.ok("all regions share one order of writes")
	}
	return c.unsafe("also in "+strings.Join(replicas, ", ")+", without one order of writes", without)
}

// rights tries each kind of request once.
func (p *table) rights(ctx context.Context) []Check {
	var r rights
	st := p.e.handles[0]
	_, put := st.Put(ctx, "rights", "", value())
	r.tried("dynamodb:PutItem", "no lock can be taken", true, put)
	_, _, get := st.Get(ctx, "rights")
	r.tried("dynamodb:GetItem", "no lock can be read", true, get)
	var list error
	for _, list = range store.List(ctx, st, "none") {
		break
	}
	r.tried("dynamodb:Query", "ls, watch and sweep do not work", false, list)
	c := finding("rights", "rights", true)
	switch {
	case len(r.missing) > 0:
		return r.missing
	case put != nil && !errors.Is(put, store.ErrConflict) && !errors.Is(put, store.ErrMisconfigured):
		return p.e.failed(c, put)
	}
	return c.ok("reading, writing and listing are allowed")
}

// firstUse is what every program does before it first writes.
func (p *table) firstUse(ctx context.Context) []Check {
	c := finding("first-use", "the check before the first use", true)
	if err := p.st.Verify(ctx); err != nil {
		return p.e.failed(c, err)
	}
	if store.TraitsOf(p.st).Trusted {
		return c.ok("the table passes; doctor does not test the conditions of DynamoDB itself")
	}
	return c.ok("the table and its conditions pass")
}

// clean removes our items, tombstones too.
func (p *table) clean(ctx context.Context, e *examination) (left []string) {
	for _, key := range e.made() {
		key = p.prefix + key
		err := p.remove(ctx, key)
		if err != nil {
			left = append(left, key)
		}
	}
	if len(left) > 0 {
		left = []string{fmt.Sprintf("%d items of the table whose key begins with %q (removing needs the right dynamodb:DeleteItem)", len(left), p.prefix+e.dir)}
	}
	return left
}

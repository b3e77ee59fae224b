package awsdoctor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/store"
)

// table is what is examined of a table in DynamoDB.
type table struct {
	client *dynamodb.Client
	name   string
	prefix string // ends with a slash unless it is empty
	opts   dynamostore.Options
	st     *dynamostore.Store // as programs use it
	e      *doctor.Examination
}

// DynamoDB returns the target of a table in DynamoDB.
func DynamoDB(client *dynamodb.Client, name string, opts *dynamostore.Options) *doctor.Target {
	p := &table{client: client, name: name, opts: *cmp.Or(opts, &dynamostore.Options{})}
	p.opts.Unsafe = nil // it is to be seen what the table is, not what one puts up with
	p.prefix = doctor.Folder(p.opts.Prefix)
	return &doctor.Target{
		Kind: "dynamodb", Name: strings.TrimSuffix("dynamodb://"+name+"/"+p.prefix, "/"),
		Begin: p.begin,
		Steps: func(*doctor.Examination) []doctor.Step {
			return []doctor.Step{
				doctor.Single("rights", "rights", true, p.rights),
				{ID: "table", What: "the table", Needed: true, Run: p.table},
				{ID: "conditions", What: "the check before the first use", Needed: true, Run: p.firstUse},
			}
		},
		Clean:  p.clean,
		Killed: p.sweep,
		Right: func(op string) string {
			return map[string]string{"get": "dynamodb:GetItem", "put": "dynamodb:PutItem", "delete": "dynamodb:PutItem", "list": "dynamodb:Query"}[op]
		},
	}
}

func (p *table) begin(ctx context.Context, e *doctor.Examination) error {
	p.e = e
	o := p.opts
	o.Trusted = true // what the registers do is to be seen
	if _, err := doctor.UseNew(e, func() (*dynamostore.Store, error) { return dynamostore.New(p.client, p.name, &o) }); err != nil {
		return err
	}
	o.Trusted = false
	// What its probe writes is below our own prefix, so that sweep finds it. Only a prefix
	// of more than 200 bytes has no room for that.
	if own := p.prefix + e.Dir; len(own) <= dynamostore.MaxPrefix {
		o.Prefix = own
	}
	var err error
	if p.st, err = dynamostore.New(p.client, p.name, &o); err != nil {
		return err
	}
	err = e.Look(ctx)
	if errors.Is(err, store.ErrMisconfigured) {
		// A table with other keys is something to be shown.
		if t, e := p.st.Describe(ctx); e == nil && !t.KeysValid {
			return nil
		}
	}
	return err
}

func (p *table) table(ctx context.Context) []doctor.Check {
	c := doctor.Finding("table-keys", "keys of the table", true)
	t, err := p.st.Describe(ctx)
	switch {
	case errors.Is(err, store.ErrDenied):
		c.Needed = false
		return c.As(doctor.NotTested, doctor.Reason(err), "needs the right dynamodb:DescribeTable; if it is a global table, its locks may not be safe")
	case err != nil:
		return p.e.Failed(c, err)
	case !t.KeysValid:
		return c.Unsafe("they are "+t.Keys, "part (HASH, S) and key (RANGE, S) are needed: use another table, which holdfast init can create")
	}
	checks := c.OK("part and key, as needed")
	c = doctor.Finding("table-global", "global table", true)
	checks = append(checks, global(c, t.Replicas, t.StronglyConsistent, "two regions could grant one lock at the same time; Holdfast refuses leases here")...)
	c = doctor.Finding("table-ttl", "items removed by TTL", false)
	switch {
	case errors.Is(t.TTLErr, store.ErrDenied):
		checks = append(checks, c.As(doctor.NotTested, doctor.Reason(t.TTLErr), "needs the right dynamodb:DescribeTimeToLive; items of Holdfast have no number attribute, so DynamoDB removes none of them")...)
	case t.TTLErr != nil:
		checks = append(checks, c.As(doctor.NotTested, t.TTLErr.Error(), "items of Holdfast have no number attribute, so DynamoDB removes none of them")...)
	case t.TTL != "":
		checks = append(checks, c.Warn(fmt.Sprintf("by the attribute %q", t.TTL), "items of Holdfast have no number attribute, so DynamoDB removes none of them; do not add one by hand")...)
	default:
		checks = append(checks, c.OK("off")...)
	}
	c = doctor.Finding("table-protected", "protection from deletion", false)
	if t.DeletionProtection {
		return append(checks, c.OK("on")...)
	}
	return append(checks, c.As(doctor.OK, "off", "if you delete or restore the table, old tokens are valid again: consider turning this protection on")...)
}

// global ends a check of the regions of a table.
func global(c doctor.Check, replicas []string, oneOrder bool, without string) []doctor.Check {
	switch {
	case len(replicas) == 0:
		return c.OK("it is in one region")
	case oneOrder:
		return c.OK("all regions share one order of writes")
	}
	return c.Unsafe("also in "+strings.Join(replicas, ", ")+", without one order of writes", without)
}

// rights tries each kind of request once.
func (p *table) rights(ctx context.Context, c doctor.Check) []doctor.Check {
	var r doctor.Rights
	st := p.e.Handles[0]
	_, put := st.Put(ctx, "rights", "", doctor.Value())
	r.Tried("dynamodb:PutItem", "no lock can be taken", true, put)
	_, _, get := st.Get(ctx, "rights")
	r.Tried("dynamodb:GetItem", "no lock can be read", true, get)
	var list error
	for _, list = range store.List(ctx, st, "none") {
		break
	}
	r.Tried("dynamodb:Query", "ls, watch and sweep do not work", false, list)
	switch {
	case len(r.Missing) > 0:
		return r.Missing
	case put != nil && !errors.Is(put, store.ErrConflict) && !errors.Is(put, store.ErrMisconfigured):
		return p.e.Failed(c, put)
	}
	return c.OK("reading, writing and listing are allowed")
}

// firstUse is what every program does before it first writes.
func (p *table) firstUse(ctx context.Context) []doctor.Check {
	c := doctor.Finding("first-use", "the check before the first use", true)
	if err := p.st.Verify(ctx); err != nil {
		return p.e.Failed(c, err)
	}
	if store.TraitsOf(p.st).Trusted {
		return c.OK("the table passes; doctor does not test the conditions of DynamoDB itself")
	}
	return c.OK("the table and its conditions pass")
}

// clean removes our items, tombstones too.
func (p *table) clean(ctx context.Context, e *doctor.Examination) (left []string) {
	for _, key := range e.Made() {
		if p.remove(ctx, p.prefix+key) != nil {
			left = append(left, key)
		}
	}
	if len(left) > 0 {
		left = []string{fmt.Sprintf("%d items of the table whose key begins with %q (removing needs the right dynamodb:DeleteItem)", len(left), p.prefix+e.Dir)}
	}
	return left
}

// sweep removes the items of killed examinations, tombstones too.
func (p *table) sweep(ctx context.Context, before time.Time, dryRun bool) (n int, err error) {
	for _, part := range "0123456789abcdef" {
		pages := dynamodb.NewQueryPaginator(p.client, &dynamodb.QueryInput{
			TableName:                &p.name,
			ConsistentRead:           aws.Bool(true),
			KeyConditionExpression:   aws.String("#p = :p AND begins_with(#k, :k)"),
			ExpressionAttributeNames: map[string]string{"#p": "part", "#k": "key"},
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":p": &types.AttributeValueMemberS{Value: string(part)}, ":k": &types.AttributeValueMemberS{Value: p.prefix + doctor.Dir + "/"},
			},
			ProjectionExpression: aws.String("#p, #k"),
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return n, err
			}
			for _, item := range page.Items {
				key, _ := item["key"].(*types.AttributeValueMemberS)
				if key == nil || !strings.HasPrefix(key.Value, p.prefix) || !trial.Old(key.Value[len(p.prefix):], doctor.Dir, before) {
					continue
				}
				n++
				if !dryRun {
					if err := p.remove(ctx, key.Value); err != nil {
						return n, err
					}
				}
			}
		}
	}
	return n, nil
}

// remove removes an item.
func (p *table) remove(ctx context.Context, key string) error {
	sum := sha256.Sum256([]byte(key))
	_, err := p.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &p.name, Key: map[string]types.AttributeValue{
		"part": &types.AttributeValueMemberS{Value: hex.EncodeToString(sum[:1])[:1]},
		"key":  &types.AttributeValueMemberS{Value: key},
	}})
	return err
}

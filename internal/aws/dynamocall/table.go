package dynamocall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/store"
)

// Description describes a table. Package dynamostore documents the fields.
type Description struct {
	Status             string
	KeysValid          bool
	Keys               string
	Replicas           []string
	StronglyConsistent bool
	TTL                string
	TTLErr             error
	DeletionProtection bool
}

// Raw returns what the server reports about the table, in one request.
func (t *Table) Raw(ctx context.Context) (*types.TableDescription, error) {
	out, err := Send(ctx, t.Repeat, t.Client.DescribeTable, &dynamodb.DescribeTableInput{TableName: &t.Name})
	if err == nil && out.Table == nil {
		// Something else listens there, which says yes to everything.
		err = t.wrong(": the reply does not describe a table; check the endpoint")
	}
	return out.Table, err
}

// Describe reads the properties of the table except TTL, in one request. A table with a stream of both images needs two
// requests: it can be a global table of the version 2017.11.29, whose replicas the description of the table does not
// show. Describe reads these replicas if the right dynamodb:DescribeGlobalTable allows it.
func (t *Table) Describe(ctx context.Context) (Description, error) {
	d, err := t.Raw(ctx)
	if err != nil {
		return Description{}, err
	}
	keys := KeysOf(d)
	found := Description{
		Status: string(d.TableStatus), KeysValid: slices.Equal(keys, t.Keys), Keys: keys.String(),
		DeletionProtection: aws.ToBool(d.DeletionProtectionEnabled),
	}
	replicas := d.Replicas
	if stream := d.StreamSpecification; len(replicas) == 0 && stream != nil && stream.StreamViewType == types.StreamViewTypeNewAndOldImages {
		old, err := Send(ctx, t.Repeat, t.Client.DescribeGlobalTable, &dynamodb.DescribeGlobalTableInput{GlobalTableName: d.TableName})
		if errors.Is(err, store.ErrUnavailable) {
			return Description{}, err
		}
		if g := old.GlobalTableDescription; g != nil && len(g.ReplicationGroup) > 1 {
			replicas = g.ReplicationGroup
		}
	}
	for _, r := range replicas {
		found.Replicas = append(found.Replicas, aws.ToString(r.RegionName))
	}
	found.StronglyConsistent = d.MultiRegionConsistency == types.MultiRegionConsistencyStrong
	return found, nil
}

// KeysOf returns the keys of a table.
func KeysOf(d *types.TableDescription) Keys {
	kind := make(map[string]types.ScalarAttributeType)
	for _, a := range d.AttributeDefinitions {
		kind[aws.ToString(a.AttributeName)] = a.AttributeType
	}
	var keys Keys
	for _, k := range d.KeySchema {
		name := aws.ToString(k.AttributeName)
		keys = append(keys, Key{name, kind[name]})
	}
	return keys
}

// TTL returns the attribute by which the table removes items. It is empty if the table removes no
// items.
func (t *Table) TTL(ctx context.Context) (string, error) {
	out, err := Send(ctx, t.Repeat, t.Client.DescribeTimeToLive, &dynamodb.DescribeTimeToLiveInput{TableName: &t.Name})
	if err != nil || out.TimeToLiveDescription == nil || out.TimeToLiveDescription.TimeToLiveStatus == types.TimeToLiveStatusDisabled {
		return "", err
	}
	return aws.ToString(out.TimeToLiveDescription.AttributeName), nil
}

// Create creates the table with on-demand billing, and waits until it is ready. If a table with
// this name already exists, it must have the right keys.
func (t *Table) Create(ctx context.Context) error {
	err := t.Repeat(ctx, func(ctx context.Context, opt func(*dynamodb.Options)) error {
		_, err := t.Client.CreateTable(ctx, t.input(), opt)
		var there *types.ResourceInUseException
		if errors.As(err, &there) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("creating the table: %w", err)
	}
	for try := 1; ; try++ {
		found, err := t.Describe(ctx)
		switch {
		case errors.Is(err, store.ErrMisconfigured) && try < 5: // not to be seen yet
		case err != nil:
			return fmt.Errorf("creating the table: %w", err)
		case !found.KeysValid:
			return t.wrong(" exists with the keys %v, but the keys must be %v; use another table", found.Keys, t.Keys)
		case found.Status == string(types.TableStatusActive), found.Status == string(types.TableStatusUpdating):
			return nil
		case found.Status != string(types.TableStatusCreating) && found.Status != string(types.TableStatusDeleting):
			return t.wrong(" cannot be used: its status is %s", found.Status)
		}
		if !awscall.Pause(ctx, 200*time.Millisecond, try) {
			return fmt.Errorf("creating the table: %w", store.Cause(ctx))
		}
	}
}

func (t *Table) input() *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{TableName: &t.Name, BillingMode: types.BillingModePayPerRequest}
	for i, key := range t.Keys {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &key.Name, AttributeType: key.Type})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: &key.Name, KeyType: kinds[i]})
	}
	return in
}

package doctor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

const (
	// Dir is the prefix of the registers and objects of all examinations.
	Dir = ".holdfast/doctor"

	// dirPrefix begins the names of the directories of all examinations.
	dirPrefix = ".holdfast-doctor-"
)

// Sweep removes the test data of killed examinations that began before the given time, and returns how
// many such items there were. Call [trial.Sweep] first: it removes the registers below [Dir] that the
// store can list.
func (t *Target) Sweep(ctx context.Context, before time.Time, dryRun bool) (n int, err error) {
	if t.sweep == nil {
		return 0, nil
	}
	return t.sweep(ctx, before, dryRun)
}

// sweeper does what [Target.Sweep] says.
type sweeper func(ctx context.Context, before time.Time, dryRun bool) (n int, err error)

// sweep removes the directories of killed examinations. Only what this user alone
// could enter is removed.
func (p *directory) sweep(_ context.Context, before time.Time, dryRun bool) (n int, err error) {
	root, err := os.OpenRoot(p.root)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer root.Close()
	const atMost = 1 << 20
	var names []string
	err = safefile.EachName(root, ".", atMost, func(name string) {
		if rest, ok := strings.CutPrefix(name, dirPrefix); ok && trial.Old(Dir+"/"+rest+"/", Dir, before) {
			names = append(names, name)
		}
	})
	for _, name := range names {
		own, openErr := safefile.OpenPrivate(root, name)
		if openErr != nil {
			continue // it is not ours, or another process has removed it
		}
		n++
		if !dryRun {
			err = errors.Join(err, removeAllIn(own), root.Remove(name))
		}
		own.Close()
	}
	return n, err
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
				":p": &types.AttributeValueMemberS{Value: string(part)}, ":k": &types.AttributeValueMemberS{Value: p.prefix + Dir + "/"},
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
				if key == nil || !strings.HasPrefix(key.Value, p.prefix) || !trial.Old(key.Value[len(p.prefix):], Dir, before) {
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

package dynamostore

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/internal/aws/dynamocall"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// The attributes of an item.
const (
	attrPart    = "part"
	attrKey     = "key"
	attrVersion = "version"
	attrAfter   = "after"
	attrValue   = "value"
	attrDeleted = "deleted"
)

// keys are the table's keys.
func keys() dynamocall.Keys { return dynamocall.Strings(attrPart, attrKey) }

// parts are the values of the partition key.
const parts = "0123456789abcdef"

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// itemKey is the primary key of a register's item. The part is the first digit of
// the SHA-256 of the key, which spreads names evenly that differ in a digit.
func (t *table) itemKey(key string) map[string]types.AttributeValue {
	full := t.prefix + key
	sum := sha256.Sum256([]byte(full))
	return map[string]types.AttributeValue{attrPart: str(string(parts[sum[0]>>4])), attrKey: str(full)}
}

func (t *table) encode(key string, e engine.Envelope) map[string]types.AttributeValue {
	attrs := t.itemKey(key)
	attrs[attrVersion] = str(e.ID())
	if len(e.Predecessors) > 0 {
		attrs[attrAfter] = str(e.PredecessorText())
	}
	switch {
	case e.Deleted:
		attrs[attrDeleted] = &types.AttributeValueMemberBOOL{Value: true}
	case utf8.Valid(e.Value):
		attrs[attrValue] = str(string(e.Value))
	default:
		attrs[attrValue] = &types.AttributeValueMemberB{Value: e.Value}
	}
	return attrs
}

// decodeItem is the inverse of encode; its errors match [store.ErrCorrupt].
func decodeItem(attrs map[string]types.AttributeValue) (engine.Stored, error) {
	corrupt := func(format string, args ...any) (engine.Stored, error) {
		return engine.Stored{}, fmt.Errorf("%w: %s", store.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	id, ok := attrs[attrVersion].(*types.AttributeValueMemberS)
	if !ok {
		return corrupt("the item has no version, so another program wrote the item")
	}
	after, ok := attrs[attrAfter].(*types.AttributeValueMemberS)
	if !ok {
		after = &types.AttributeValueMemberS{}
	}
	e, err := engine.ParseID(id.Value, after.Value)
	if err != nil {
		return engine.Stored{}, err
	}
	if e.Number == 0 {
		return corrupt("the version %.80q has no number", id.Value)
	}
	if deleted, ok := attrs[attrDeleted].(*types.AttributeValueMemberBOOL); ok && deleted.Value {
		e.Deleted = true
		return engine.Stored{Envelope: e}, nil
	}
	switch value := attrs[attrValue].(type) {
	case *types.AttributeValueMemberS:
		e.Value = []byte(value.Value)
	case *types.AttributeValueMemberB:
		e.Value = append([]byte{}, value.Value...)
	default:
		return corrupt("the item has no value")
	}
	if len(e.Value) > store.MaxValue {
		return corrupt("the value of the item has %d bytes; at most %d are allowed", len(e.Value), store.MaxValue)
	}
	return engine.Stored{Envelope: e}, nil
}

// readable returns an item as JSON, as the tools of DynamoDB print it.
func readable(item map[string]types.AttributeValue) ([]byte, error) {
	plain := make(map[string]any, len(item))
	for name, attr := range item {
		switch value := attr.(type) {
		case *types.AttributeValueMemberS:
			plain[name] = map[string]string{"S": value.Value}
		case *types.AttributeValueMemberN:
			plain[name] = map[string]string{"N": value.Value}
		case *types.AttributeValueMemberB:
			plain[name] = map[string][]byte{"B": value.Value}
		case *types.AttributeValueMemberBOOL:
			plain[name] = map[string]bool{"BOOL": value.Value}
		default:
			plain[name] = attr
		}
	}
	return json.MarshalIndent(plain, "", "  ")
}

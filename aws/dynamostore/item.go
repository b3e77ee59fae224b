package dynamostore

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/store"
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

// parts are the values of the partition key.
const parts = "0123456789abcdef"

const (
	maxAfter  = 7
	nonceSize = 12
)

// item is one state of a register.
type item struct {
	number  uint64 // counts the writes, behind deletes too
	nonce   string
	after   []string // the nonces of the states before it, newest first
	deleted bool
	value   []byte
}

func newNonce() string {
	b := make([]byte, nonceSize*6/8)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func isNonce(s string) bool { return len(s) == nonceSize && !strings.Contains(s, ".") }

// id is what the attribute version holds.
func (it item) id() string { return strconv.FormatUint(it.number, 10) + "-" + it.nonce }

// version is the version that users see: the id, and the nonces before it, which
// let a write say what it follows.
func (it item) version() store.Version {
	return store.Version(strings.Join(append([]string{it.id()}, it.after...), "."))
}

// parseVersion returns the state that a version names, without its value.
func parseVersion(v store.Version) (item, error) {
	if v == "" {
		return item{}, nil
	}
	id, rest, _ := strings.Cut(string(v), ".")
	it, err := parseItem(id, rest)
	if err != nil {
		return item{}, fmt.Errorf("%w: %q is none of a DynamoDB table", store.ErrVersion, v)
	}
	return it, nil
}

func parseItem(id, after string) (item, error) {
	number, nonce, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	it := item{number: n, nonce: nonce}
	if after != "" {
		it.after = strings.Split(after, ".")
	}
	// Only one text stands for a version: they are compared as texts.
	if err != nil || n == 0 || it.id() != id || !isNonce(nonce) || len(it.after) > maxAfter ||
		slices.ContainsFunc(it.after, func(n string) bool { return !isNonce(n) }) {
		return item{}, fmt.Errorf("the version %q after %q is damaged", id, after)
	}
	return it, nil
}

// absent reports whether it stands for no state.
func (it item) absent() bool { return it.number == 0 }

// follow makes it the successor of base.
func (it *item) follow(base item) {
	it.number = base.number + 1
	it.after = nil
	if !base.absent() {
		it.after = append([]string{base.nonce}, base.after[:min(len(base.after), maxAfter-1)]...)
	}
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// itemKey is the primary key of a register's item. The part is the first digit of
// the SHA-256 of the key, which spreads names evenly that differ in a digit.
func (s *Store) itemKey(key string) map[string]types.AttributeValue {
	full := s.prefix + key
	sum := sha256.Sum256([]byte(full))
	return map[string]types.AttributeValue{attrPart: str(string(parts[sum[0]>>4])), attrKey: str(full)}
}

func (s *Store) encode(key string, it item) map[string]types.AttributeValue {
	attrs := s.itemKey(key)
	attrs[attrVersion] = str(it.id())
	if len(it.after) > 0 {
		attrs[attrAfter] = str(strings.Join(it.after, "."))
	}
	switch {
	case it.deleted:
		attrs[attrDeleted] = &types.AttributeValueMemberBOOL{Value: true}
	case utf8.Valid(it.value):
		attrs[attrValue] = str(string(it.value))
	default:
		attrs[attrValue] = &types.AttributeValueMemberB{Value: it.value}
	}
	return attrs
}

// decodeItem is the inverse of encode; its errors match [store.ErrCorrupt].
func decodeItem(attrs map[string]types.AttributeValue) (item, error) {
	corrupt := func(format string, args ...any) (item, error) {
		return item{}, fmt.Errorf("%w: %s", store.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	id, ok := attrs[attrVersion].(*types.AttributeValueMemberS)
	if !ok {
		return corrupt("the item is none of Holdfast: it has no version")
	}
	after, ok := attrs[attrAfter].(*types.AttributeValueMemberS)
	if !ok {
		after = &types.AttributeValueMemberS{}
	}
	it, err := parseItem(id.Value, after.Value)
	if err != nil {
		return corrupt("%v", err)
	}
	if deleted, ok := attrs[attrDeleted].(*types.AttributeValueMemberBOOL); ok && deleted.Value {
		it.deleted = true
		return it, nil
	}
	switch value := attrs[attrValue].(type) {
	case *types.AttributeValueMemberS:
		it.value = []byte(value.Value)
	case *types.AttributeValueMemberB:
		it.value = append([]byte{}, value.Value...)
	default:
		return corrupt("the item has no value")
	}
	if len(it.value) > store.MaxValue {
		return corrupt("its value has %d bytes, at most %d are allowed", len(it.value), store.MaxValue)
	}
	return it, nil
}

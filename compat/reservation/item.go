package reservation

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// The attributes of an item.
const (
	attrPath       = "path"
	attrETag       = "etag"
	attrGeneration = "generation"
	attrTimeout    = "timeout"
	attrTTL        = "ttl"
	attrNonce      = "nonce" // object_store has none
)

// absent is the etag of "there is no object".
const absent = "*"

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number[T uint64 | int64](n T) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}

// isETag reports whether a version is an ETag as a server sends it.
func isETag(v object.Version) bool {
	s := strings.TrimPrefix(string(v), "W/")
	return len(s) > 2 && s[0] == '"' && strings.IndexByte(s[1:], '"') == len(s)-2
}

func encode(row reserve.Row) (map[string]types.AttributeValue, error) {
	etag := cmp.Or(string(row.Version), absent)
	switch {
	case etag != absent && !isETag(row.Version):
		return nil, fmt.Errorf("%w: the version %.80q is not an ETag in double quotes", store.ErrVersion, row.Version)
	case row.Version == absent || len(etag) > maxKey:
		return nil, fmt.Errorf("%w: the version of %q is * or has too many bytes, so it cannot be reserved", store.ErrVersion, row.Key)
	}
	return map[string]types.AttributeValue{
		attrPath:       text(row.Key),
		attrETag:       text(etag),
		attrGeneration: number(row.Generation),
		attrTimeout:    number(row.Timeout.Milliseconds()),
		attrTTL:        number(row.TTL),
		attrNonce:      text(row.Nonce),
	}, nil
}

// noTTL is the tag of a row that has no ttl. The tag of any other row is the ttl as the
// table has it.
const noTTL = "none"

// ttlOf returns the attribute ttl of a row, or nil where it has none.
func ttlOf(row reserve.Row) types.AttributeValue {
	switch row.Tag {
	case "": // the row of a write whose reply was lost
		return number(row.TTL)
	case noTTL:
		return nil
	}
	return &types.AttributeValueMemberN{Value: row.Tag}
}

// decode reads an item that this program or another one has written. Its errors match
// store.ErrCorrupt. It tolerates attributes that it does not know.
func decode(item map[string]types.AttributeValue) (reserve.Row, error) {
	var d decoder
	row := reserve.Row{Key: d.text(item, attrPath), Version: object.Version(d.text(item, attrETag))}
	if row.Version == absent {
		row.Version = ""
	}
	row.Generation = d.count(item, attrGeneration)
	const most = math.MaxInt64 / int64(time.Millisecond)
	row.Timeout = time.Duration(min(d.count(item, attrTimeout), uint64(most))) * time.Millisecond
	row.Tag = noTTL
	if item[attrTTL] != nil {
		row.Tag = d.number(item, attrTTL)
		row.TTL, _ = strconv.ParseInt(row.Tag, 10, 64)
	}
	if item[attrNonce] != nil {
		row.Nonce = d.text(item, attrNonce)
	}
	if d.err != nil {
		return reserve.Row{}, fmt.Errorf("%w: the item of %.200q is not a reservation: %w", store.ErrCorrupt, row.Key, d.err)
	}
	return row, nil
}

type decoder struct{ err error }

func (d *decoder) fail(name, what string) { d.err = cmp.Or(d.err, errors.New(name+" "+what)) }

func (d *decoder) text(item map[string]types.AttributeValue, name string) string {
	s, ok := item[name].(*types.AttributeValueMemberS)
	if !ok {
		d.fail(name, "is not a string (S)")
		return ""
	}
	return s.Value
}

func (d *decoder) number(item map[string]types.AttributeValue, name string) string {
	n, ok := item[name].(*types.AttributeValueMemberN)
	if !ok {
		d.fail(name, "is not a number (N)")
		return ""
	}
	return n.Value
}

func (d *decoder) count(item map[string]types.AttributeValue, name string) uint64 {
	s := d.number(item, name)
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && d.err == nil {
		d.fail(name, fmt.Sprintf("is %.40q, but must be a whole number from 0 to 2^64-1", s))
	}
	return n
}

// probes starts the paths of the rows of [Table.Verify].
const probes = ".holdfast-probe/"

// probe returns the row of [Table.Verify].
func probe() reserve.Row {
	return reserve.Row{
		Key: probes + rand.Text(), Generation: 1 << 32, Timeout: time.Second,
		TTL: time.Now().Add(time.Hour).Unix(), Nonce: rand.Text(),
	}
}

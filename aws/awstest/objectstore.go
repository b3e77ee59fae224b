package awstest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ObjectStore sends exactly the requests that object_store sends, and reads the answers as strictly
// as object_store does. object_store is a Rust library. Its releases 0.9 to 0.12 keep reservations
// in DynamoDB.
type ObjectStore struct {
	Client   *http.Client
	Endpoint string // endpoint of DynamoDB or of a stand-in
	Table    string
}

// Lease is a reservation in the form that object_store uses.
type Lease struct {
	Generation uint64
	Timeout    time.Duration
}

// ErrLeased: another writer has the reservation.
var ErrLeased = errors.New("conflict")

// Acquire inserts a reservation. If seen is not nil, Acquire takes over that reservation. For an
// object that does not exist, etag is *. With ErrLeased, Acquire also returns the reservation that
// it found. All other errors are failures of object_store, too.
func (o *ObjectStore) Acquire(ctx context.Context, path, etag string, timeout time.Duration, seen *Lease) (Lease, error) {
	condition, values, generation := `attribute_not_exists(#pk)`, `null`, uint64(0)
	if seen != nil {
		condition = `attribute_exists(#pk) AND generation = :g`
		values = fmt.Sprintf(`{":g":{"N":"%d"}}`, seen.Generation)
		if generation = seen.Generation + 1; generation == 0 {
			panic("object_store panics here: the generation is at its end")
		}
	}
	quote := func(s string) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			panic(err) // a string: it cannot fail
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	body := fmt.Sprintf(`{"TableName":%s,"ConditionExpression":"%s","ExpressionAttributeNames":{"#pk":"path"},"ExpressionAttributeValues":%s,`+
		`"Item":{"path":{"S":%s},"etag":{"S":%s},"generation":{"N":"%d"},"timeout":{"N":"%d"},"ttl":{"N":"%d"}},"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`,
		quote(o.Table), condition, values, quote(path), quote(etag), generation, timeout.Milliseconds(), time.Now().Add(time.Hour).Unix())
	status, answer, err := o.post(ctx, body)
	switch {
	case err != nil:
		return Lease{}, err
	case status == http.StatusOK:
		return Lease{generation, timeout}, nil
	case status != http.StatusBadRequest:
		return Lease{}, fmt.Errorf("status %d: %s", status, answer)
	}
	met, err := readConflict(answer)
	if err != nil {
		return Lease{}, fmt.Errorf("%w: %s", err, answer)
	}
	return met, ErrLeased
}

func (o *ObjectStore) post(ctx context.Context, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.Endpoint, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
	r.Header.Set("Content-Type", "application/json") // 0.11 does, 0.12 does not
	date := time.Now().UTC().Format("20060102T150405Z")
	r.Header.Set("X-Amz-Date", date)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=holdfast/"+date[:8]+"/us-east-1/dynamodb/aws4_request, "+
		"SignedHeaders=host;x-amz-date;x-amz-target, Signature="+strings.Repeat("0", 64))
	resp, err := o.Client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// readConflict reads the answer to a failed condition: every attribute of the item must
// be a string or an unsigned number of 64 bits.
func readConflict(answer []byte) (Lease, error) {
	var conflict struct {
		Type string `json:"__type"`
		Item map[string]map[string]string
	}
	if err := json.Unmarshal(answer, &conflict); err != nil {
		return Lease{}, fmt.Errorf("object_store cannot read it: %w", err)
	}
	if !strings.HasSuffix(conflict.Type, "ConditionalCheckFailedException") {
		return Lease{}, fmt.Errorf("another error")
	}
	numbers := make(map[string]uint64)
	for name, value := range conflict.Item {
		n, isNumber := value["N"]
		_, isString := value["S"]
		parsed, err := strconv.ParseUint(n, 10, 64)
		switch {
		case len(value) != 1 || !isNumber && !isString, isNumber && err != nil, strings.Contains(name, `"`):
			return Lease{}, fmt.Errorf("object_store cannot read the attribute %q", name)
		case isNumber:
			numbers[name] = parsed
		}
	}
	generation, ok1 := numbers["generation"]
	timeout, ok2 := numbers["timeout"]
	if !ok1 || !ok2 {
		return Lease{}, errors.New("object_store fails to extract the lease")
	}
	return Lease{generation, time.Duration(timeout) * time.Millisecond}, nil
}

package awstest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// DynamoDBBroken is what a server does wrong.
type DynamoDBBroken struct {
	IgnoreConditions bool // of writes
	IgnoreNotExists  bool // attribute_not_exists is always true
	IgnoreEqual      bool // a comparison for equality is always true
	RefuseAndWrite   bool // answers that the condition failed, and writes all the same
	NoOldItem        bool // does not return the item that a condition met
	StaleReads       bool // a read that asks to be consistent lags one write behind
}

// DynamoDB is a stand-in for Amazon DynamoDB: an [http.RoundTripper] that answers
// any host. It knows the requests and expressions that this module sends. A read
// that does not ask to be consistent lags one write behind.
type DynamoDB struct {
	server
	Broken DynamoDBBroken

	// PageSize bounds the pages of queries and scans; 0 means 1,000 items.
	PageSize int

	mu     sync.Mutex
	tables map[string]*dynamoTable
}

// avItem is an item as it goes over the wire: attributes by name, each with one
// type and its value.
type avItem map[string]map[string]any

type dynamoTable struct {
	description map[string]any
	hash, sort  string
	items       map[string]avItem
	before      map[string]avItem // the items before the last write of each
	ttl         string
	creating    int // requests for the description until it is active
}

// NewDynamoDB returns a server without tables.
func NewDynamoDB() *DynamoDB { return &DynamoDB{tables: make(map[string]*dynamoTable)} }

// Client returns a client of the SDK whose requests all go to d.
func (d *DynamoDB) Client(opts ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://dynamodb.test"),
		Credentials:  credentials.NewStaticCredentialsProvider("TESTACCESSKEY", "test-secret-key", ""),
		HTTPClient:   &http.Client{Transport: d},
	}, opts...)
}

// AddTable makes a table with these string keys; sort may be empty.
func (d *DynamoDB) AddTable(name, hash, sort string) {
	keys := []map[string]any{{"AttributeName": hash, "KeyType": "HASH"}}
	attrs := []map[string]any{{"AttributeName": hash, "AttributeType": "S"}}
	if sort != "" {
		keys = append(keys, map[string]any{"AttributeName": sort, "KeyType": "RANGE"})
		attrs = append(attrs, map[string]any{"AttributeName": sort, "AttributeType": "S"})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tables[name] = newTable(map[string]any{"TableName": name, "KeySchema": keys, "AttributeDefinitions": attrs}, hash, sort)
}

func newTable(description map[string]any, hash, sort string) *dynamoTable {
	return &dynamoTable{description: description, hash: hash, sort: sort, items: make(map[string]avItem), before: make(map[string]avItem)}
}

// SetReplicas makes a table a global one, whose regions share one order of writes
// or not.
func (d *DynamoDB) SetReplicas(table string, oneOrder bool, regions ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var replicas []map[string]any
	for _, r := range regions {
		replicas = append(replicas, map[string]any{"RegionName": r, "ReplicaStatus": "ACTIVE"})
	}
	d.tables[table].description["Replicas"] = replicas
	if oneOrder {
		d.tables[table].description["MultiRegionConsistency"] = "STRONG"
	}
}

// SetTTL makes an attribute remove items of a table.
func (d *DynamoDB) SetTTL(table, attribute string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tables[table].ttl = attribute
}

// Item returns an item as JSON has it: attributes by name, each a map from its type
// to its value. It is nil if there is none.
func (d *DynamoDB) Item(table, hash, sort string) map[string]map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tables[table].items[hash+"\x00"+sort]
}

// Items returns how many items a table has.
func (d *DynamoDB) Items(table string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.tables[table].items)
}

// Update changes or removes all items of a table, as another program would: f
// returns the item to keep, nil for none.
func (d *DynamoDB) Update(table string, f func(item map[string]map[string]any) map[string]map[string]any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tables[table]
	for id, item := range t.items {
		if changed := f(item); changed == nil {
			delete(t.items, id)
		} else {
			t.items[id] = changed
		}
	}
}

// dynamoRequest is the body of all requests.
type dynamoRequest struct {
	TableName                           string
	Key                                 avItem
	Item                                avItem
	ConsistentRead                      bool
	ConditionExpression                 string
	FilterExpression                    string
	KeyConditionExpression              string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           map[string]map[string]any
	ReturnValuesOnConditionCheckFailure string
	ExclusiveStartKey                   avItem
	Limit                               int
	KeySchema                           []struct{ AttributeName, KeyType string }
	AttributeDefinitions                []struct{ AttributeName, AttributeType string }
	TimeToLiveSpecification             struct {
		AttributeName string
		Enabled       bool
	}
}

// RoundTrip implements [http.RoundTripper].
func (d *DynamoDB) RoundTrip(r *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	seen := Request{Op: op}
	serve := func(body []byte, _ bool) (*http.Response, func()) {
		var q dynamoRequest
		if err := json.Unmarshal(body, &q); err != nil {
			return dynamoFail(http.StatusBadRequest, "SerializationException", err.Error(), nil), nil
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.serve(op, q), nil
	}
	fail := func(status int, code string) *http.Response { return dynamoFail(status, code, "this is a test", nil) }
	return d.carry(r, seen, service{serve, fail})
}

func dynamoFail(status int, code, message string, item avItem) *http.Response {
	answer := map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": message}
	if item != nil {
		answer["Item"] = item
	}
	resp := dynamoAnswer(answer)
	resp.StatusCode = status
	resp.Header.Set("X-Test-Code", code)
	return resp
}

func dynamoAnswer(v any) *http.Response {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps and texts: it cannot fail
	}
	return respond(http.StatusOK, http.Header{
		"Content-Type": {"application/x-amz-json-1.0"},
		"X-Amz-Crc32":  {strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)},
	}, body)
}

func (d *DynamoDB) serve(op string, q dynamoRequest) *http.Response {
	if op == "CreateTable" {
		return d.createTable(q)
	}
	t := d.tables[q.TableName]
	if t == nil {
		return dynamoFail(http.StatusBadRequest, "ResourceNotFoundException", "Requested resource not found", nil)
	}
	switch op {
	case "DescribeTable":
		return t.describe()
	case "DescribeTimeToLive":
		status := map[string]any{"TimeToLiveStatus": "DISABLED"}
		if t.ttl != "" {
			status = map[string]any{"TimeToLiveStatus": "ENABLED", "AttributeName": t.ttl}
		}
		return dynamoAnswer(map[string]any{"TimeToLiveDescription": status})
	case "UpdateTimeToLive":
		// As DynamoDB: a second attribute is refused, and so is the same one again.
		if q.TimeToLiveSpecification.Enabled && t.ttl != "" {
			what := "TimeToLive is already enabled"
			if t.ttl != q.TimeToLiveSpecification.AttributeName {
				what = "TimeToLive is active on a different AttributeName: current AttributeName is " + t.ttl
			}
			return dynamoFail(http.StatusBadRequest, "ValidationException", what, nil)
		}
		if q.TimeToLiveSpecification.Enabled {
			t.ttl = q.TimeToLiveSpecification.AttributeName
		}
		return dynamoAnswer(map[string]any{"TimeToLiveSpecification": q.TimeToLiveSpecification})
	case "GetItem":
		return d.getItem(t, q)
	case "PutItem", "DeleteItem":
		return d.write(t, op, q)
	case "Query", "Scan":
		return d.query(t, q)
	}
	return dynamoFail(http.StatusBadRequest, "UnknownOperationException", op, nil)
}

func (d *DynamoDB) createTable(q dynamoRequest) *http.Response {
	if d.tables[q.TableName] != nil {
		return dynamoFail(http.StatusBadRequest, "ResourceInUseException", "Table already exists: "+q.TableName, nil)
	}
	description := map[string]any{"TableName": q.TableName, "KeySchema": q.KeySchema, "AttributeDefinitions": q.AttributeDefinitions}
	t := newTable(description, "", "")
	for _, k := range q.KeySchema {
		if k.KeyType == "HASH" {
			t.hash = k.AttributeName
		} else {
			t.sort = k.AttributeName
		}
	}
	t.creating = 2
	d.tables[q.TableName] = t
	return dynamoAnswer(map[string]any{"TableDescription": description})
}

func (t *dynamoTable) describe() *http.Response {
	t.description["TableStatus"] = "ACTIVE"
	if t.creating > 0 {
		t.creating--
		t.description["TableStatus"] = "CREATING"
	}
	return dynamoAnswer(map[string]any{"Table": t.description})
}

// id returns what names the item of these attributes; not ok if they are no key of
// this table.
func (t *dynamoTable) id(attrs avItem) (id string, ok bool) {
	hash, ok1 := attrs[t.hash]["S"].(string)
	sort, ok2 := attrs[t.sort]["S"].(string)
	if hash == "" || !ok1 || t.sort != "" && (sort == "" || !ok2) {
		return "", false
	}
	return hash + "\x00" + sort, true
}

func (d *DynamoDB) getItem(t *dynamoTable, q dynamoRequest) *http.Response {
	id, ok := t.id(q.Key)
	if !ok || len(q.Key) > 2 || t.sort == "" && len(q.Key) > 1 {
		return dynamoFail(http.StatusBadRequest, "ValidationException", "The provided key element does not match the schema", nil)
	}
	item := t.items[id]
	if d.stale(q) {
		item = t.before[id]
	}
	answer := make(map[string]any)
	if item != nil {
		answer["Item"] = item
	}
	return dynamoAnswer(answer)
}

// stale reports whether a read sees what was there before the last write.
func (d *DynamoDB) stale(q dynamoRequest) bool { return d.Broken.StaleReads || !q.ConsistentRead }

func (d *DynamoDB) write(t *dynamoTable, op string, q dynamoRequest) *http.Response {
	attrs := q.Item
	if op == "DeleteItem" {
		attrs = q.Key
	}
	id, ok := t.id(attrs)
	if !ok {
		return dynamoFail(http.StatusBadRequest, "ValidationException", "One or more parameter values were invalid: Missing the key", nil)
	}
	current := t.items[id]
	holds := true
	if q.ConditionExpression != "" && !d.Broken.IgnoreConditions {
		e := expression{broken: d.Broken, names: q.ExpressionAttributeNames, values: q.ExpressionAttributeValues, item: current}
		var err error
		if holds, err = e.eval(q.ConditionExpression); err != nil {
			return dynamoFail(http.StatusBadRequest, "ValidationException", err.Error(), nil)
		}
	}
	if holds || d.Broken.RefuseAndWrite {
		t.before[id] = current
		if op == "PutItem" {
			t.items[id] = attrs
		} else {
			delete(t.items, id)
		}
	}
	if holds {
		return dynamoAnswer(map[string]any{})
	}
	if q.ReturnValuesOnConditionCheckFailure != "ALL_OLD" || d.Broken.NoOldItem {
		current = nil
	}
	return dynamoFail(http.StatusBadRequest, "ConditionalCheckFailedException", "The conditional request failed", current)
}

func (d *DynamoDB) query(t *dynamoTable, q dynamoRequest) *http.Response {
	start, _ := t.id(q.ExclusiveStartKey)
	limit := cmp.Or(q.Limit, d.PageSize, 1000)
	items := []avItem{}
	answer := make(map[string]any)
	seen := 0
	from := t.items
	if d.stale(q) {
		from = t.before
	}
	for _, id := range slices.Sorted(maps.Keys(from)) {
		if id <= start || from[id] == nil {
			continue
		}
		item := from[id]
		matches := true
		for _, text := range []string{q.KeyConditionExpression, q.FilterExpression} {
			if text == "" || !matches {
				continue
			}
			e := expression{names: q.ExpressionAttributeNames, values: q.ExpressionAttributeValues, item: item}
			var err error
			if matches, err = e.eval(text); err != nil {
				return dynamoFail(http.StatusBadRequest, "ValidationException", err.Error(), nil)
			}
			// What the key leaves out is not read; what the filter leaves out is.
			if text == q.KeyConditionExpression && matches {
				seen++
			}
		}
		if matches {
			items = append(items, item)
		}
		if seen == limit {
			last := avItem{t.hash: item[t.hash]}
			if t.sort != "" {
				last[t.sort] = item[t.sort]
			}
			answer["LastEvaluatedKey"] = last
			break
		}
	}
	answer["Items"] = items
	answer["Count"] = len(items)
	return dynamoAnswer(answer)
}

// String tells what is in a table, for the message of a test.
func (d *DynamoDB) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	for name, t := range d.tables {
		fmt.Fprintf(&b, "%s:\n", name)
		for _, id := range slices.Sorted(maps.Keys(t.items)) {
			fmt.Fprintf(&b, "  %v\n", t.items[id])
		}
	}
	return b.String()
}

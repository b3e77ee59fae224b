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

// DynamoDBBroken lists faults of a server. Each fault that is true is switched on.
type DynamoDBBroken struct {
	IgnoreConditions bool // ignores the conditions of writes
	IgnoreNotExists  bool // attribute_not_exists is always true
	IgnoreEqual      bool // a comparison for equality is always true
	RefuseAndWrite   bool // answers that the condition failed, but still writes
	NoOldItem        bool // does not return the item that a condition found
	StaleReads       bool // a consistent read does not return the newest write
}

// DynamoDB is a stand-in for Amazon DynamoDB: an [http.RoundTripper] that answers for any host. It
// knows the requests of this module, and the expressions of conditions and updates. An inconsistent
// read does not return the newest write.
type DynamoDB struct {
	server
	Broken DynamoDBBroken

	// PageSize bounds the pages of queries and scans; 0 means 1,000 items.
	PageSize int

	// BatchSize is the largest number of items that a BatchGetItem reads; it returns the other keys
	// as unprocessed. 0 means 100, and a negative value means no items.
	BatchSize int

	mu     sync.Mutex
	tables map[string]*dynamoTable
	made   int // tables, so that each has an id of its own
}

// avItem is an item as it goes over the wire: attributes by name, each with one
// type and its value.
type avItem map[string]map[string]any

type dynamoTable struct {
	description map[string]any
	hash, sort  string
	types       map[string]string // of the attributes of the key: S or N
	items       map[string]avItem
	before      map[string]avItem // the items before the last write of each
	ttl         string
	creating    int // requests for the description until it is active
}

// NewDynamoDB returns a server without tables.
func NewDynamoDB() *DynamoDB { return &DynamoDB{tables: make(map[string]*dynamoTable)} }

// Client returns a client of the SDK that sends all requests to d.
func (d *DynamoDB) Client(opts ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://dynamodb.test"),
		Credentials:  credentials.NewStaticCredentialsProvider("TESTACCESSKEY", "test-secret-key", ""),
		HTTPClient:   &http.Client{Transport: d},
	}, opts...)
}

// AddTable creates a table with the key attributes hash and sort; sort may be empty. The attributes
// whose names are in numbers are numbers. Other key attributes are strings.
func (d *DynamoDB) AddTable(name, hash, sort string, numbers ...string) {
	types := map[string]string{hash: "S", sort: "S"}
	for _, number := range numbers {
		types[number] = "N"
	}
	keys := []map[string]any{{"AttributeName": hash, "KeyType": "HASH"}}
	attrs := []map[string]any{{"AttributeName": hash, "AttributeType": types[hash]}}
	if sort != "" {
		keys = append(keys, map[string]any{"AttributeName": sort, "KeyType": "RANGE"})
		attrs = append(attrs, map[string]any{"AttributeName": sort, "AttributeType": types[sort]})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addTable(map[string]any{"TableName": name, "KeySchema": keys, "AttributeDefinitions": attrs}, hash, sort, types)
}

func (d *DynamoDB) addTable(description map[string]any, hash, sort string, types map[string]string) *dynamoTable {
	d.made++
	name := description["TableName"].(string)
	description["TableArn"] = "arn:aws:dynamodb:us-east-1:000000000000:table/" + name
	description["TableId"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", d.made)
	t := &dynamoTable{description: description, hash: hash, sort: sort, types: types, items: make(map[string]avItem), before: make(map[string]avItem)}
	d.tables[name] = t
	return t
}

// SetReplicas makes a table global, with replicas in these regions. If oneOrder is true, all
// regions share one order of writes.
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

// SetID sets the TableId of a table, and its creation time in seconds since 1970. An empty id
// removes the TableId, as on some DynamoDB-compatible servers.
func (d *DynamoDB) SetID(table, id string, created float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	description := d.tables[table].description
	description["CreationDateTime"] = created
	if description["TableId"] = id; id == "" {
		delete(description, "TableId")
	}
}

// SetTTL sets the attribute by which a table removes items.
func (d *DynamoDB) SetTTL(table, attribute string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tables[table].ttl = attribute
}

// Item returns an item in the form of JSON: attributes by name, each a map from its type to its
// value. If there is no item, it returns nil. A number in the key must be in the form in
// which the server writes it, such as 100, 0.5 or 1E+100.
func (d *DynamoDB) Item(table, hash, sort string) map[string]map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tables[table].items[hash+"\x00"+sort]
}

// Items returns the number of items in a table.
func (d *DynamoDB) Items(table string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.tables[table].items)
}

// Update changes or removes all items of a table, as another program would. f returns the new item,
// or nil to remove the item.
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
	UpdateExpression                    string
	ProjectionExpression                string
	FilterExpression                    string
	KeyConditionExpression              string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           avItem
	ReturnValues                        string
	ReturnValuesOnConditionCheckFailure string
	ExclusiveStartKey                   avItem
	Limit                               int
	Keys                                []avItem
	RequestItems                        map[string]dynamoRequest
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

func (d *DynamoDB) serve(op string, q dynamoRequest) (resp *http.Response) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case invalid:
			resp = dynamoFail(http.StatusBadRequest, "ValidationException", p.text, nil)
		default:
			panic(p)
		}
	}()
	return d.operate(op, q)
}

func (d *DynamoDB) operate(op string, q dynamoRequest) *http.Response {
	switch op {
	case "CreateTable":
		return d.createTable(q)
	case "BatchGetItem":
		return d.batchGet(q)
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
	case "PutItem", "UpdateItem", "DeleteItem":
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
	var hash, sort string
	for _, k := range q.KeySchema {
		if k.KeyType == "HASH" {
			hash = k.AttributeName
		} else {
			sort = k.AttributeName
		}
	}
	types := make(map[string]string)
	for _, a := range q.AttributeDefinitions {
		types[a.AttributeName] = a.AttributeType
	}
	d.addTable(description, hash, sort, types).creating = 2
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

// id returns what names the item of these attributes. It refuses them if they are no key
// of this table; alone says that they must be nothing else.
func (t *dynamoTable) id(attrs avItem, alone bool) string {
	want := 1
	id := t.part(attrs, t.hash, 2048) + "\x00"
	if t.sort != "" {
		want++
		id += t.part(attrs, t.sort, 1024)
	}
	if alone && len(attrs) != want {
		refuse("The provided key element does not match the schema")
	}
	return id
}

// part returns the text that stands for an attribute of the key.
func (t *dynamoTable) part(attrs avItem, name string, limit int) string {
	kind := t.types[name]
	text, ok := attrs[name][kind].(string)
	switch {
	case !ok:
		refuse("One or more parameter values were invalid: Missing the key %s in the item, or the provided key element does not match the schema", name)
	case kind == "N":
		text = canonicalNumber(text)
	case text == "":
		refuse("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", name)
	case len(text) > limit:
		refuse("One or more parameter values were invalid: Size of a key has exceeded the maximum size limit of %d bytes", limit)
	}
	return text
}

func (d *DynamoDB) getItem(t *dynamoTable, q dynamoRequest) *http.Response {
	answer := make(map[string]any)
	e := newExpressions(d.Broken, q, nil)
	e.projected(avItem{}, q.ProjectionExpression) // also of no item it must be valid
	e.allUsed()
	if item := e.projected(d.read(t, q.Key, q.ConsistentRead), q.ProjectionExpression); item != nil {
		answer["Item"] = item
	}
	return dynamoAnswer(answer)
}

// read returns an item, nil if there is none.
func (d *DynamoDB) read(t *dynamoTable, key avItem, consistent bool) avItem {
	id := t.id(key, true)
	if d.Broken.StaleReads || !consistent {
		return t.before[id]
	}
	return t.items[id]
}

// maxBatch is how many keys a BatchGetItem may have.
const maxBatch = 100

func (d *DynamoDB) batchGet(q dynamoRequest) *http.Response {
	found, later := make(map[string][]avItem), make(map[string]map[string]any)
	keys, read := 0, 0
	for name, r := range q.RequestItems {
		t := d.tables[name]
		if t == nil {
			return dynamoFail(http.StatusBadRequest, "ResourceNotFoundException", "Requested resource not found", nil)
		}
		e := newExpressions(d.Broken, r, nil)
		e.projected(avItem{}, r.ProjectionExpression)
		e.allUsed()
		seen := make(map[string]bool)
		found[name] = []avItem{}
		var rest []avItem
		for _, key := range r.Keys {
			id := t.id(key, true)
			if seen[id] {
				refuse("Provided list of item keys contains duplicates")
			}
			seen[id] = true
			if keys++; keys > maxBatch {
				refuse("Too many items requested for the BatchGetItem call")
			}
			if read == max(0, cmp.Or(d.BatchSize, maxBatch)) {
				rest = append(rest, key)
				continue
			}
			read++
			if item := e.projected(d.read(t, key, r.ConsistentRead), r.ProjectionExpression); item != nil {
				found[name] = append(found[name], item)
			}
		}
		if rest != nil {
			later[name] = map[string]any{"Keys": rest, "ConsistentRead": r.ConsistentRead}
		}
	}
	if keys == 0 {
		refuse("The list of keys in RequestItems for BatchGetItem is required")
	}
	return dynamoAnswer(map[string]any{"Responses": found, "UnprocessedKeys": later})
}

// maxItem is the largest item, in bytes.
const maxItem = 400 << 10

func (d *DynamoDB) write(t *dynamoTable, op string, q dynamoRequest) *http.Response {
	attrs := q.Item
	if op != "PutItem" {
		attrs = q.Key
	}
	id := t.id(attrs, op != "PutItem")
	current := t.items[id]
	e := newExpressions(d.Broken, q, current)
	holds := e.holds(q.ConditionExpression) || d.Broken.IgnoreConditions
	next := q.Item
	switch op {
	case "DeleteItem":
		next = nil
	case "UpdateItem":
		if holds || d.Broken.RefuseAndWrite {
			next = e.update(q.UpdateExpression, q.Key)
			maps.Copy(next, q.Key)
		} else if _, err := e.parser.Update(cmp.Or(q.UpdateExpression, "REMOVE a")); err != nil {
			refuse("Invalid UpdateExpression: %v", err)
		}
	}
	e.allUsed()
	if checkItem(next) > maxItem {
		refuse("Item size has exceeded the maximum allowed size")
	}
	if holds || d.Broken.RefuseAndWrite {
		t.before[id] = current
		if next != nil {
			t.items[id] = next
		} else {
			delete(t.items, id)
		}
	}
	if holds {
		answer := make(map[string]any)
		switch {
		case q.ReturnValues == "ALL_OLD" && current != nil:
			answer["Attributes"] = current
		case q.ReturnValues == "ALL_NEW":
			answer["Attributes"] = next
		}
		return dynamoAnswer(answer)
	}
	if q.ReturnValuesOnConditionCheckFailure != "ALL_OLD" || d.Broken.NoOldItem {
		current = nil
	}
	return dynamoFail(http.StatusBadRequest, "ConditionalCheckFailedException", "The conditional request failed", current)
}

func (d *DynamoDB) query(t *dynamoTable, q dynamoRequest) *http.Response {
	start := ""
	if q.ExclusiveStartKey != nil {
		start = t.id(q.ExclusiveStartKey, true)
	}
	limit := cmp.Or(q.Limit, d.PageSize, 1000)
	items := []avItem{}
	answer := make(map[string]any)
	seen := 0
	from := t.items
	if d.Broken.StaleReads || !q.ConsistentRead {
		from = t.before
	}
	e := newExpressions(DynamoDBBroken{}, q, nil)
	e.projected(avItem{}, q.ProjectionExpression)
	for _, id := range slices.Sorted(maps.Keys(from)) {
		if id <= start || from[id] == nil {
			continue
		}
		item := from[id]
		// What the key leaves out is not read; what the filter leaves out is.
		if e.item = item; !e.holds(q.KeyConditionExpression) {
			continue
		}
		seen++
		if e.holds(q.FilterExpression) {
			items = append(items, e.projected(item, q.ProjectionExpression))
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
	if seen > 0 {
		e.allUsed()
	}
	answer["Items"] = items
	answer["Count"] = len(items)
	return dynamoAnswer(answer)
}

// String describes the content of the tables, for the message of a test.
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

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// largeItems compares items with one large attribute of 64 KiB with bare requests of the SDK
// for the item and the object, in turns.
func largeItems(ctx context.Context, w io.Writer, dynamo servers.Dynamo, server servers.S3, r *run) error {
	bucket, name := servers.Unique("items"), servers.Unique("items")
	if err := server.CreateBucket(ctx, bucket, false); err != nil {
		return err
	}
	if err := dynamotable.CreateTable(ctx, dynamo.Client(), name, largeitem.KeyAttribute{Name: "pk"}, largeitem.KeyAttribute{}, nil); err != nil {
		return err
	}
	requests := &counter{}
	db := dynamo.Client(requests.countDynamo)
	s3 := server.Client(requests.countS3)
	items, err := dynamotable.New(db, name, nil)
	if err != nil {
		return err
	}
	b, err := s3bucket.New(s3, bucket, &s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		return err
	}
	s, err := largeitem.New(items, b, nil)
	if err != nil {
		return err
	}
	body := make([]byte, 64<<10)
	large := func() largeitem.Large { return largeitem.Large{"html": {Body: newBody(body)}} }
	str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	var id string // of the round
	var key largeitem.Key
	var base *largeitem.Item
	put := func(object string) error {
		_, err := s3.PutObject(ctx, &awss3.PutObjectInput{Bucket: &bucket, Key: aws.String("raw/" + object), Body: newBody(body)})
		return err
	}
	update := func(base *largeitem.Item) error {
		_, err := s.Update(ctx, key, largeitem.Change{}, large(), &largeitem.WriteOptions{Base: base})
		return err
	}
	steps := []struct {
		name, of string
		run      func() error
	}{
		{"SDK, `PutObject` and `PutItem`", "", func() error {
			if err := put(id + "/1"); err != nil {
				return err
			}
			_, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &name, Item: map[string]types.AttributeValue{"pk": str("raw " + id), "ref": str("raw/" + id + "/1")}, ConditionExpression: aws.String("attribute_not_exists(pk)")})
			return err
		}},
		{"`Create`", "SDK, `PutObject` and `PutItem`", func() error {
			result, err := s.Create(ctx, key, nil, large(), nil)
			if err == nil {
				base = result.Item
			}
			return err
		}},
		{"SDK, `PutObject` and `UpdateItem`", "", func() error {
			if err := put(id + "/2"); err != nil {
				return err
			}
			_, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: &name, Key: map[string]types.AttributeValue{"pk": str("raw " + id)}, UpdateExpression: aws.String("SET #r = :new"), ConditionExpression: aws.String("#r = :old"),
				ExpressionAttributeNames:  map[string]string{"#r": "ref"},
				ExpressionAttributeValues: map[string]types.AttributeValue{":new": str("raw/" + id + "/2"), ":old": str("raw/" + id + "/1")},
			})
			return err
		}},
		{"`Update` with `BaseURI`", "SDK, `PutObject` and `UpdateItem`", func() error { return update(base) }},
		{"`Update`", "SDK, `PutObject` and `UpdateItem`", func() error { return update(nil) }},
		{"SDK, `GetItem` and `GetObject`", "", func() error {
			item, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: &name, Key: map[string]types.AttributeValue{"pk": str("raw " + id)}, ConsistentRead: aws.Bool(true)})
			if err != nil {
				return err
			}
			ref := item.Item["ref"].(*types.AttributeValueMemberS).Value
			out, err := s3.GetObject(ctx, &awss3.GetObjectInput{Bucket: &bucket, Key: &ref})
			if err != nil {
				return err
			}
			defer out.Body.Close()
			return whole(out.Body, len(body))
		}},
		{"`Get`", "SDK, `GetItem` and `GetObject`", func() error {
			item, err := s.Get(ctx, key, nil)
			if err != nil {
				return err
			}
			defer item.Close()
			return whole(item.Body("html"), len(body))
		}},
	}
	got, sent := map[string]samples{}, map[string]int64{}
	for end, round := time.Now().Add(4*r.each), 0; time.Now().Before(end); round++ {
		id = rand.Text()
		if key, err = largeitem.NewKey(id); err != nil {
			return err
		}
		for _, step := range steps {
			before := requests.n.Load()
			took, err := timed(step.run)
			if err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			if round >= 5 { // the first ones open connections
				got[step.name], sent[step.name] = append(got[step.name], took), sent[step.name]+requests.n.Load()-before
			}
		}
	}
	fmt.Fprintf(w, "### Large items on DynamoDB Local and %s\n\n", server.Name)
	t := table{head: []string{"one large attribute of 64 KiB", "requests", "time, lower quartile", "median", "ratio of the quartiles"}}
	for _, step := range steps {
		mine := got[step.name]
		of := "1"
		if step.of != "" {
			of = ratio(mine.at(0.25), got[step.of].at(0.25))
		}
		t.row(step.name, fmt.Sprintf("%.3g", float64(sent[step.name])/float64(len(mine))), short(mine.at(0.25)), short(mine.median()), of)
	}
	t.print(w)
	return nil
}

// whole reads a body of n bytes to its end.
func whole(body io.Reader, n int) error {
	var text bytes.Buffer
	if _, err := io.Copy(&text, body); err != nil {
		return err
	}
	if text.Len() != n {
		return fmt.Errorf("%d bytes in place of %d", text.Len(), n)
	}
	return nil
}

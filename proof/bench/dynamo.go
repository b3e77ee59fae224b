package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"time"

	"cirello.io/dynamolock/v2"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// dynamo compares leases on DynamoDB.
func dynamo(ctx context.Context, w io.Writer, server servers.Dynamo, r *run) error {
	n, n2 := &counter{}, &counter{}
	c, c2 := server.Client(n.countDynamo), server.Client(n2.countDynamo)
	table := servers.Unique("peers")
	if err := dynamostore.CreateTable(ctx, c, table, nil); err != nil {
		return err
	}
	// Known to be right: the look at an unknown table is not what is counted here.
	st, err := dynamostore.New(c, table, &dynamostore.Options{Trusted: true})
	if err != nil {
		return err
	}
	uncounted, err := dynamostore.New(server.Client(), table, &dynamostore.Options{Trusted: true})
	if err != nil {
		return err
	}
	ours := &subject{name: "holdfast", claimant: newHoldfast(st, &lease.Options{ManualRenewal: true}), holder: newHoldfast(uncounted, nil), requests: n}

	peerTable := servers.Unique("dynamolock")
	newPeer := func(c *dynamodb.Client, opts ...dynamolock.ClientOption) func(lock string) (claimant, error) {
		return func(lock string) (claimant, error) {
			c, err := dynamolock.New(c, peerTable, opts...)
			return &dynamolockLease{c: c, name: lock}, err
		}
	}
	first, err := dynamolock.New(c2, peerTable)
	if err != nil {
		return err
	}
	if _, err := first.CreateTable(peerTable); err != nil {
		return err
	}
	peer := &subject{name: "dynamolock", claimant: newPeer(c2, dynamolock.DisableHeartbeat()), holder: newPeer(server.Client()), requests: n2}
	on := on{title: "DynamoDB Local", unit: "requests", raw: rawDynamo(server.Client(), table), spread: 5 * time.Second}
	return remoteAndWaiting(ctx, w, on, []*subject{ours, peer}, r)
}

// countDynamo is an option of a client whose requests the counter counts.
func (c *counter) countDynamo(o *dynamodb.Options) { o.HTTPClient = c }

// rawDynamo returns a function that overwrites one item on the condition that it is
// still what it was.
func rawDynamo(c *dynamodb.Client, table string) func(context.Context) error {
	version := ""
	return func(ctx context.Context) error {
		next := rand.Text()
		str := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
		in := &dynamodb.PutItemInput{
			TableName: &table,
			Item: map[string]types.AttributeValue{
				"part": str("raw"), "key": str("raw"), "version": str(next), "pad": str(strings.Repeat(next, 23)), // as long as a record
			},
			ConditionExpression: aws.String("attribute_not_exists(version)"),
		}
		if version != "" {
			in.ConditionExpression = aws.String("version = :v")
			in.ExpressionAttributeValues = map[string]types.AttributeValue{":v": str(version)}
		}
		_, err := c.PutItem(ctx, in)
		if err == nil {
			version = next
		}
		return err
	}
}

// dynamolockLease is a lock of dynamolock.
type dynamolockLease struct {
	c    *dynamolock.Client
	name string
	lock *dynamolock.Lock
}

func (c *dynamolockLease) try(ctx context.Context) (bool, error) {
	l, err := c.c.AcquireLockWithContext(ctx, c.name, dynamolock.FailIfLocked())
	c.lock = l
	return unlessRefused(errors.As(err, new(*dynamolock.LockNotGrantedError)), err)
}

func (c *dynamolockLease) wait(ctx context.Context) (err error) {
	// By default a waiter gives up after a lease's duration; how often it looks is the same.
	c.lock, err = c.c.AcquireLockWithContext(ctx, c.name, dynamolock.WithAdditionalTimeToWaitForLock(time.Hour))
	return err
}

func (c *dynamolockLease) renew(ctx context.Context) error {
	return c.c.SendHeartbeatWithContext(ctx, c.lock)
}

func (c *dynamolockLease) release(ctx context.Context) error {
	_, err := c.c.ReleaseLockWithContext(ctx, c.lock)
	return err
}

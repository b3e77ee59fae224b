package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	bloblease "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/holdfast-go/holdfast/azure/azblobbucket"
	"github.com/holdfast-go/holdfast/azure/azblobstore"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// The kinds of locks on Azure Blob Storage.
const (
	kindAzblob    = "holdfast, azblobstore"
	kindBlobLease = "blob lease of 15 s, polled each second"
)

const (
	blobLeaseTime = 15 // seconds: the shortest that Azure grants
	blobLeasePoll = time.Second
)

// azureContainer returns a client of a container, whose requests n counts.
func azureContainer(url string, n *counter) (*container.Client, error) {
	key, err := container.NewSharedKeyCredential(servers.AzuriteAccount, servers.AzuriteKey)
	if err != nil {
		return nil, err
	}
	return container.NewClientWithSharedKeyCredential(url, key, &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: n}})
}

// openAzure returns what makes claimants of a kind. Those that are to keep what they have renew it by themselves.
func openAzure(kind, url string, n *counter, keep bool) (func(lock string) (claimant, error), error) {
	c, err := azureContainer(url, n)
	if err != nil {
		return nil, err
	}
	if kind == kindBlobLease {
		return func(lock string) (claimant, error) { return &blobLease{c: c, name: lock, keep: keep}, nil }, nil
	}
	b, err := azblobbucket.New(c, nil)
	if err != nil {
		return nil, err
	}
	st, err := azblobstore.New(b, "", &azblobstore.Options{Trusted: true}) // as Azure is
	if err != nil {
		return nil, err
	}
	return newHoldfast(st, &lease.Options{ManualRenewal: !keep}), nil
}

// blobLease is Azure's own lease on an empty blob. Azure wakes no waiter, so a waiter polls.
type blobLease struct {
	c    *container.Client
	name string
	keep bool
	held *bloblease.BlobClient
	stop chan struct{}
}

func (c *blobLease) try(ctx context.Context) (bool, error) {
	l, err := bloblease.NewBlobClient(c.c.NewBlobClient(c.name), nil)
	if err != nil {
		return false, err
	}
	_, err = l.AcquireLease(ctx, blobLeaseTime, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		any := azcore.ETagAny
		_, err = c.c.NewBlockBlobClient(c.name).Upload(ctx, streaming.NopCloser(strings.NewReader("")), &blockblob.UploadOptions{
			AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &any}},
		})
		if err == nil || bloberror.HasCode(err, bloberror.BlobAlreadyExists) {
			_, err = l.AcquireLease(ctx, blobLeaseTime, nil)
		}
	}
	if bloberror.HasCode(err, bloberror.LeaseAlreadyPresent) {
		return false, nil
	}
	if err == nil {
		c.held = l
		if c.keep {
			c.stop = make(chan struct{})
			go c.renewals(c.stop)
		}
	}
	return err == nil, err
}

func (c *blobLease) renewals(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(blobLeaseTime * time.Second / 3):
			_ = c.renew(context.Background())
		}
	}
}

func (c *blobLease) wait(ctx context.Context) error {
	for {
		got, err := c.try(ctx)
		if got || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(blobLeasePoll):
		}
	}
}

func (c *blobLease) renew(ctx context.Context) error {
	_, err := c.held.RenewLease(ctx, nil)
	return err
}

func (c *blobLease) release(ctx context.Context) error {
	if c.stop != nil {
		close(c.stop)
		c.stop = nil
	}
	_, err := c.held.ReleaseLease(ctx, nil)
	return err
}

// azure compares locks on Azurite.
func azure(ctx context.Context, w io.Writer, server *servers.Azurite, r *run) error {
	url := "http://" + server.Address() + "/" + servers.AzuriteAccount + "/bench"
	c, err := azureContainer(url, &counter{})
	if err == nil {
		_, err = c.Create(ctx, nil)
	}
	if err != nil {
		return err
	}
	var subjects []*subject
	for _, kind := range azureKinds() {
		s := &subject{name: kind, requests: &counter{}}
		if s.claimant, err = openAzure(kind, url, s.requests, false); err != nil {
			return err
		}
		if s.holder, err = openAzure(kind, url, &counter{}, true); err != nil {
			return err
		}
		subjects = append(subjects, s)
	}
	on := on{title: "Azurite", unit: "requests", raw: rawAzure(c), spread: 10 * time.Second}
	if !r.waitOnly {
		if err := remote(ctx, w, on, subjects, r); err != nil {
			return err
		}
	}
	r.later(func(w io.Writer) error { return waiting(ctx, w, on, subjects, r) })
	r.later(func(w io.Writer) error { return dead(w, "Azurite", url, azureKinds()) })
	r.later(func(w io.Writer) error { return lateOnAzure(ctx, w, url) })
	return nil
}

func azureKinds() []string { return []string{kindAzblob, kindBlobLease} }

// rawAzure returns a function that overwrites one blob on the condition that it is still what it was.
func rawAzure(c *container.Client) func(context.Context) error {
	any := azcore.ETagAny
	on := &blob.ModifiedAccessConditions{IfNoneMatch: &any}
	return func(ctx context.Context) error {
		text := strings.Repeat(rand.Text(), 19) // as long as a record
		out, err := c.NewBlockBlobClient("raw").Upload(ctx, streaming.NopCloser(strings.NewReader(text)), &blockblob.UploadOptions{
			AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: on},
		})
		if err == nil {
			on = &blob.ModifiedAccessConditions{IfMatch: out.ETag}
		}
		return err
	}
}

// lateOnAzure counts the writes of holders that were stopped past their lease, after the next holder has written: with
// Azure's lease, which does not protect another blob, and with a fence of Holdfast.
func lateOnAzure(ctx context.Context, w io.Writer, url string) error {
	const holders = 10
	c, err := azureContainer(url, &counter{})
	if err != nil {
		return err
	}
	b, err := azblobbucket.New(c, &azblobbucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		return err
	}
	st, err := azblobstore.New(b, "late", &azblobstore.Options{Trusted: true})
	if err != nil {
		return err
	}
	objects, err := object.New(b, &object.Options{DistinctBodies: true})
	if err != nil {
		return err
	}
	ours := newHoldfast(st, &lease.Options{TTL: 6 * time.Second, ManualRenewal: true})
	var theirs, fenced atomic.Int64 // late writes that were applied
	errs := make([]error, 2*holders)
	var wg sync.WaitGroup
	for i := range holders {
		wg.Go(func() {
			key := fmt.Sprint("late/theirs", i)
			late, next := &blobLease{c: c, name: key + ".lock"}, &blobLease{c: c, name: key + ".lock"}
			errs[i] = errors.Join(must(late.try(ctx)), next.wait(ctx), put(ctx, c, key, "next"))
			if errs[i] == nil && put(ctx, c, key, "late") == nil {
				theirs.Add(1)
			}
		})
		wg.Go(func() {
			key := fmt.Sprint("late/ours", i)
			one, err1 := ours(key)
			two, err2 := ours(key)
			err := errors.Join(err1, err2)
			if err == nil {
				err = errors.Join(must(one.try(ctx)), two.wait(ctx))
			}
			fence := func(c claimant) *object.Fence {
				return &object.Fence{Lock: key, Token: c.(*holdfast).guard.Token()}
			}
			if err == nil {
				_, err = objects.Put(ctx, key, strings.NewReader("next "+rand.Text()), &object.WriteOptions{Fence: fence(two)})
			}
			if err == nil {
				switch _, late := objects.Put(ctx, key, strings.NewReader("late "+rand.Text()), &object.WriteOptions{Fence: fence(one)}); {
				case late == nil:
					fenced.Add(1)
				case !errors.Is(late, object.ErrFenced):
					err = late
				}
			}
			errs[holders+i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(w, "On Azurite, %d holders were stopped past their lease, and wrote after the next holder had written. With a blob lease, %d of the late writes were applied. With a fence of holdfast, %d were applied.\n\n",
		holders, theirs.Load(), fenced.Load())
	return nil
}

func put(ctx context.Context, c *container.Client, key, text string) error {
	_, err := c.NewBlockBlobClient(key).Upload(ctx, streaming.NopCloser(strings.NewReader(text)), nil)
	return err
}

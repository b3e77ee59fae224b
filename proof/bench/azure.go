package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strconv"
	"strings"
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

const blobLeaseTime = 15 // seconds: the shortest that Azure grants

// azureContainer returns a client of a container, whose requests n counts.
func azureContainer(url string, n *counter) (*container.Client, error) {
	key, err := container.NewSharedKeyCredential(servers.AzuriteAccount, servers.AzuriteKey)
	if err != nil {
		return nil, err
	}
	return container.NewClientWithSharedKeyCredential(url, key, &container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: n}})
}

// openAzure returns what makes claimants of a kind. Those that are to keep what they have renew it by themselves.
func openAzure(kind, url string, n *counter, keep bool) (claimants, error) {
	c, err := azureContainer(url, n)
	if err != nil {
		return nil, err
	}
	if kind == kindBlobLease {
		return writers(func(lock string) (claimant, error) {
			return renewed(&blobLease{c: c, name: lock}, keep, blobLeaseTime*time.Second/3), nil
		}, func(ctx context.Context, _ claimant, lock string, n uint64) (bool, error) { // the lease protects no other blob
			_, err := c.NewBlockBlobClient(lock+".data").Upload(ctx, streaming.NopCloser(dataOf(n)), nil)
			return unlessRefused(false, err)
		}), nil
	}
	b, err := azblobbucket.New(c, &azblobbucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		return nil, err
	}
	st, err := azblobstore.New(b, "", &azblobstore.Options{Trusted: true}) // as Azure is
	if err != nil {
		return nil, err
	}
	objects, err := object.New(b, &object.Options{DistinctBodies: true})
	if err != nil {
		return nil, err
	}
	return writers(newHoldfast(st, &lease.Options{ManualRenewal: !keep}), func(ctx context.Context, c claimant, lock string, n uint64) (bool, error) {
		fence := &object.Fence{Lock: lock, Token: c.(*holdfast).guard.Token()}
		_, err := objects.Put(ctx, lock+".data", dataOf(n), &object.WriteOptions{Fence: fence})
		return unlessRefused(errors.Is(err, object.ErrFenced), err)
	}), nil
}

// dataOf returns a text that begins with n and differs from all others.
func dataOf(n uint64) io.ReadSeeker {
	return strings.NewReader(strconv.FormatUint(n, 10) + " " + rand.Text())
}

// blobLease is Azure's own lease on an empty blob.
type blobLease struct {
	c    *container.Client
	name string
	held *bloblease.BlobClient
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
	c.held = l
	return unlessRefused(bloberror.HasCode(err, bloberror.LeaseAlreadyPresent), err)
}

func (c *blobLease) wait(ctx context.Context) error { return poll(ctx, c.try) }

func (c *blobLease) renew(ctx context.Context) error {
	_, err := c.held.RenewLease(ctx, nil)
	return err
}

func (c *blobLease) release(ctx context.Context) error {
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
	on := on{title: "Azurite", unit: "requests", raw: rawAzure(c), spread: 10 * time.Second, lateLocks: 10}
	return onServer(ctx, w, on, url, r, kindAzblob, kindBlobLease)
}

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

package main

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// holdfast is a handle of ours.
type holdfast struct {
	h     *lease.Handle
	guard *lease.Guard
}

// newHoldfast makes claimants that are clients of their own, as in two processes: those
// of one client would tell each other.
func newHoldfast(st store.Store, o *lease.Options) func(lock string) (claimant, error) {
	return func(lock string) (claimant, error) {
		c, err := lease.New(st, o)
		if err != nil {
			return nil, err
		}
		h, err := c.Handle(lock, nil)
		return &holdfast{h: h}, err
	}
}

func (c *holdfast) try(ctx context.Context) (bool, error) {
	g, err := c.h.TryAcquire(ctx)
	c.guard = g
	return unlessRefused(errors.Is(err, lease.ErrHeld), err)
}

func (c *holdfast) wait(ctx context.Context) (err error) {
	c.guard, err = c.h.Acquire(ctx)
	return err
}

func (c *holdfast) renew(ctx context.Context) error   { return c.guard.Renew(ctx) }
func (c *holdfast) release(ctx context.Context) error { return c.guard.Release(ctx) }

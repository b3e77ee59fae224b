package main

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/lease"
)

// holdfast is a handle of ours.
type holdfast struct {
	h     *lease.Handle
	guard *lease.Guard
}

func newHoldfast(c *lease.Client) func(lock string) (claimant, error) {
	return func(lock string) (claimant, error) {
		h, err := c.Handle(lock)
		return &holdfast{h: h}, err
	}
}

func (c *holdfast) try(ctx context.Context) (bool, error) {
	g, err := c.h.TryAcquire(ctx)
	if errors.Is(err, lease.ErrHeld) {
		return false, nil
	}
	c.guard = g
	return err == nil, err
}

func (c *holdfast) wait(ctx context.Context) (err error) {
	c.guard, err = c.h.Acquire(ctx)
	return err
}

func (c *holdfast) renew(ctx context.Context) error   { return c.guard.Renew(ctx) }
func (c *holdfast) release(ctx context.Context) error { return c.guard.Release(ctx) }

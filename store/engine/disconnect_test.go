package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// carried is a driver whose requests pass through a function that may break the connection.
type carried struct {
	*driver
	carry func(request func() error) error
}

// send sends a request as a driver does: if the connection breaks, the server is unavailable.
func (c carried) send(request func() error) error {
	err := c.carry(request)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

func (c carried) Read(ctx context.Context, key string, seen engine.Tag) (found engine.Stored, err error) {
	var answer engine.Stored
	err = c.send(func() (err error) { answer, err = c.driver.Read(ctx, key, seen); return err })
	if err == nil {
		found = answer
	}
	return found, err
}

func (c carried) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (tag engine.Tag, err error) {
	var answer engine.Tag
	err = c.send(func() (err error) { answer, err = c.driver.Write(ctx, key, on, e); return err })
	if err == nil {
		tag = answer
	}
	return tag, err
}

// TestCuts: the engine reports the true outcome, whichever request loses its connection,
// before or after it took effect.
func TestCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d *driver
		open := func(t *testing.T, from engine.Driver) store.Store {
			s, err := engine.New(from, &engine.Options{Traits: store.Traits{Name: "map:cuts"}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		o := &storetest.Options{Intercept: func(t *testing.T, _ store.Store, carry func(func() error) error) store.Store {
			return open(t, carried{d, carry})
		}}
		for _, failure := range storetest.Check(t, func(t *testing.T) store.Store {
			d = &driver{rows: make(map[string][]byte)}
			return open(t, d)
		}, o, "DisconnectWrites", "DisconnectReads", "DisconnectUnavailable") {
			t.Error(failure)
		}
	})
}

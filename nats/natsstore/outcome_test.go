package natsstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// driverOf returns the driver of a server that calls a function for each message, and answers none.
func driverOf(t *testing.T, message func()) *driver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, `INFO {"server_id":"x","version":"2.12.0","headers":true,"max_payload":1048576}`+"\r\n")
		for in := bufio.NewScanner(c); in.Scan(); {
			switch verb, _, _ := strings.Cut(in.Text(), " "); verb {
			case "PING":
				_, _ = io.WriteString(c, "PONG\r\n")
			case "HPUB":
				message()
			}
		}
	}()
	conn, err := nats.Connect("nats://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	d, err := newDriver(conn, "b", nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestCauseOfContext: if the context of a write ends before the answer, the outcome is unknown. This is so for
// each cause, also for one that says of something else that it was not applied.
func TestCauseOfContext(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{store.ErrConflict, store.ErrDenied, engine.ErrBusy, nil} {
		ctx, cancel := context.WithCancelCause(t.Context())
		d := driverOf(t, func() { cancel(cause) })
		if _, err := d.Write(ctx, "k", engine.Stored{}, engine.Envelope{}); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("the cause %v: %v (%v)", cause, err, store.OutcomeOf(err))
		}
	}
}

// TestDeniedSubject: if the server denies a subject, this says nothing about the write of another key, whose
// subject is a beginning of the denied one.
func TestDeniedSubject(t *testing.T) {
	t.Parallel()
	c := newCalls()
	begin := func(subject string) context.Context {
		ctx, end := c.begin(t.Context(), subject)
		t.Cleanup(end)
		return ctx
	}
	short, exact, family := begin("$KV.b.a"), begin("$KV.b.ab"), begin("$KV.")
	c.refused(fmt.Errorf(`nats: Permissions Violation for Publish to "$KV.b.ab"`))
	if err := context.Cause(short); err != nil {
		t.Errorf("the write of another key ended with %v", err)
	}
	for _, ctx := range []context.Context{exact, family} {
		if err := context.Cause(ctx); !errors.Is(err, store.ErrDenied) {
			t.Errorf("the denied request: %v", err)
		}
	}
}

package natsstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// server is a server of NATS with one client.
type server struct {
	out  io.Writer
	sids map[string]string // by the subject that the client has subscribed, without a * at its end
}

// send sends a message to the subscription of an inbox. The headers begin with a status, or with the end of a line.
func (s *server) send(inbox, subject, reply, headers, body string) {
	for to, sid := range s.sids {
		if strings.HasPrefix(inbox, to) {
			head := "NATS/1.0" + headers + "\r\n\r\n"
			fmt.Fprintf(s.out, "HMSG %s %s %s %d %d\r\n%s%s\r\n", subject, sid, reply, len(head), len(head)+len(body), head, body)
		}
	}
}

// driverOf returns the driver of a server that calls a function for each message of the client.
func driverOf(t *testing.T, message func(s *server, subject, reply string)) *driver {
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
		s := &server{c, map[string]string{}}
		_, _ = io.WriteString(c, `INFO {"server_id":"x","version":"2.12.0","headers":true,"max_payload":1048576}`+"\r\n")
		for in := bufio.NewReader(c); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			switch words := strings.Fields(line); words[0] {
			case "PING":
				_, _ = io.WriteString(c, "PONG\r\n")
			case "SUB":
				s.sids[strings.TrimSuffix(words[1], "*")] = words[2]
			case "PUB", "HPUB":
				size, _ := strconv.Atoi(words[len(words)-1])
				_, _ = in.Discard(size + len("\r\n"))
				message(s, words[1], words[2])
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
		d := driverOf(t, func(*server, string, string) { cancel(cause) })
		if _, err := d.Write(ctx, "k", engine.Stored{}, engine.Envelope{}); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("the cause %v: %v (%v)", cause, err, store.OutcomeOf(err))
		}
	}
}

// TestCloseDuringWrite: if the connection is closed before the answer to a write, the outcome is unknown. A write on a
// closed connection is not sent.
func TestCloseDuringWrite(t *testing.T) {
	t.Parallel()
	var conn *nats.Conn
	d := driverOf(t, func(*server, string, string) { conn.Close() })
	conn = d.conn
	for _, want := range []store.Outcome{store.Unknown, store.NotApplied} {
		if _, err := d.Write(t.Context(), "k", engine.Stored{}, engine.Envelope{}); !errors.Is(err, store.ErrClosed) || store.OutcomeOf(err) != want {
			t.Errorf("%v (%v), want %v", err, store.OutcomeOf(err), want)
		}
	}
}

// TestLostPart: the server sends each message of a listing once. If one of them is lost, the listing fails.
func TestLostPart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		arrive []int // of three
		want   error
	}{{[]int{1, 2, 3}, nil}, {[]int{1, 3}, store.ErrUnavailable}, {[]int{1, 2}, store.ErrUnavailable}, {nil, store.ErrUnavailable}} {
		sent := false
		d := driverOf(t, func(s *server, subject, reply string) {
			switch {
			case !strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT."):
				pending, delivered := 3, 0
				if sent {
					pending, delivered = 0, 3
				}
				s.send(reply, reply, "", "", fmt.Sprintf(`{"stream_name":"KV_b","name":"c","config":{},"num_pending":%d,"delivered":{"consumer_seq":%d}}`, pending, delivered))
				return
			case !sent:
				for _, n := range tt.arrive {
					s.send(reply, fmt.Sprint("$KV.b.k", n), fmt.Sprintf("$JS.ACK.KV_b.c.1.%d.%[1]d.1.%d", n, 3-n), "\r\nNats-Msg-Size: 9", "")
				}
				sent = true
			}
			s.send(reply, reply, "", " 408 Request Timeout", "")
		})
		var keys []string
		var err error
		for key, failed := range d.List(t.Context(), "") {
			if err = failed; err == nil {
				keys = append(keys, key)
			}
		}
		if !errors.Is(err, tt.want) || tt.want == nil && len(keys) != 3 {
			t.Errorf("of three keys %v arrived: the listing yielded %q, %v", tt.arrive, keys, err)
		}
	}
}

// TestListingFromLeader: a listing reads from the server that leads the bucket, and removes the consumers on others.
func TestListingFromLeader(t *testing.T) {
	t.Parallel()
	var created, removed int
	d := driverOf(t, func(s *server, subject, reply string) {
		leader := "n0"
		switch {
		case strings.Contains(subject, ".CONSUMER.CREATE."):
			created++
			leader = []string{"n1", "n2", "n0", "n0"}[min(created, 4)-1]
		case strings.Contains(subject, ".CONSUMER.DELETE."):
			removed++
		}
		s.send(reply, reply, "", "", `{"name":"c","config":{},"success":true,"cluster":{"leader":"`+leader+`"}}`)
	})
	for _, err := range d.List(t.Context(), "") {
		t.Error(err)
	}
	if created != 3 || removed != 3 {
		t.Errorf("the listing created %d consumers and removed %d, want 3 and 3", created, removed)
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

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
	"time"

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
	d, err := newDriver(conn, "b", &Options{Timeout: time.Second})
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

// bucket is a bucket with the registers k1 to k3, whose listings go wrong.
type bucket struct {
	leaders []string // of the consumers, in the order in which they are created
	arrive  [][]int  // which registers arrive as the answer to each request
	removed string   // a register that is removed after the listing has begun

	consumers int
	begun     bool
}

func (b *bucket) serve(s *server, subject, reply string) {
	answer := `{"config":{},"success":true}`
	switch {
	case strings.Contains(subject, ".STREAM.INFO."):
		names := `"$KV.b.k1":1,"$KV.b.k2":1,"$KV.b.k3":1`
		if b.begun && b.removed != "" {
			names = strings.ReplaceAll(names, b.removed, "other")
		}
		answer = `{"config":{},"cluster":{"leader":"n0"},"total":3,"state":{"subjects":{` + names + `}}}`
		b.begun = true
	case strings.Contains(subject, ".CONSUMER.CREATE."):
		answer = `{"name":"c","config":{},"cluster":{"leader":"` + b.leaders[b.consumers] + `"}}`
		b.consumers++
	case strings.Contains(subject, ".CONSUMER.DELETE."):
		b.leaders = b.leaders[1:]
		b.consumers--
	case strings.Contains(subject, ".CONSUMER.MSG.NEXT."):
		if len(b.arrive) > 0 {
			for _, n := range b.arrive[0] {
				s.send(reply, fmt.Sprint("$KV.b.k", n), fmt.Sprintf("$JS.ACK.KV_b.c.1.%d.1.1.0", n), "\r\nNats-Msg-Size: 9", "")
			}
			b.arrive = b.arrive[1:]
		} else {
			time.Sleep(10 * time.Millisecond)
		}
		s.send(reply, reply, "", " 408 Request Timeout", "")
		return
	}
	s.send(reply, reply, "", "", answer)
}

// TestListing: a listing ends only when each register has arrived that was there when it began. It reads from the
// server that leads the bucket, and removes its consumers.
func TestListing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		b    bucket
		keys string
		want error
	}{
		"all at once":           {bucket{arrive: [][]int{{1, 2, 3}}}, "k1 k2 k3", nil},
		"one again":             {bucket{arrive: [][]int{{1, 1}, {2, 1}, {3}}}, "k1 k2 k3", nil},
		"one is replaced":       {bucket{arrive: [][]int{{1, 3}, {}, {2}}}, "k1 k3 k2", nil},
		"one is lost":           {bucket{arrive: [][]int{{1, 3}}}, "k1 k3", store.ErrUnavailable},
		"all are lost":          {bucket{}, "", store.ErrUnavailable},
		"one is removed":        {bucket{arrive: [][]int{{1, 3}}, removed: "k2"}, "k1 k3", nil},
		"consumers on replicas": {bucket{arrive: [][]int{{1, 2, 3}}, leaders: []string{"n1", "n2"}}, "k1 k2 k3", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := tt.b
			b.leaders = append(b.leaders, "n0")
			d := driverOf(t, b.serve)
			var keys []string
			var err error
			for key, failed := range d.List(t.Context(), "") {
				if err = failed; err == nil {
					keys = append(keys, key)
				}
			}
			if got := strings.Join(keys, " "); got != tt.keys || !errors.Is(err, tt.want) {
				t.Errorf("%q, %v; want %q, %v", got, err, tt.keys, tt.want)
			}
			if b.consumers != 0 || len(b.leaders) != 0 {
				t.Errorf("%d consumers remain, and %q was not the leader", b.consumers, b.leaders)
			}
		})
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

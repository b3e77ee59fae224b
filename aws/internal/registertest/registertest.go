// Package registertest has the tests that all stores of registers on AWS share. They check the outcome of
// a write when the network loses, delays or repeats requests. The server is a stand-in from package
// awstest.
package registertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/store"
)

// Server is a stand-in from package awstest for a service of AWS.
type Server interface {
	Add(op string, skip, count int, fault awstest.Fault)
	AddWhen(when func(awstest.Request) bool, skip, count int, fault awstest.Fault)
	Clear()
	Ops() []string
	Requests() []awstest.Request
	Reset()
}

// Put writes a value. If the write fails, Put ends the test.
func Put(t *testing.T, s store.Store, key string, prev store.Version, value string) store.Version {
	t.Helper()
	v, err := s.Put(t.Context(), key, prev, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// LostReply is a case of [LostReplies]: the fault of one write. Ops are the requests of the store, until
// it knows the outcome of the write.
type LostReply struct {
	Name  string
	Fault awstest.Fault
	Ops   string
}

// LostReplies checks that a write succeeds although its request has a fault, and that the value stays in
// the store. The parameter op is the name of a write in the API of the service. The function serve starts
// a server. The function open opens a store on this server, without a check of the server.
func LostReplies[S Server, R store.Store](t *testing.T, op string, cases []LostReply, serve func() S, open func(*testing.T, S) R) {
	for _, c := range cases {
		for _, create := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/create=%v", c.Name, create), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := serve()
					s := open(t, server)
					var v store.Version
					if !create {
						v = Put(t, s, "k", "", "0")
					}
					server.Reset()
					server.Add(op, 0, 1, c.Fault)
					v = Put(t, s, "k", v, "1")
					if got := strings.Join(server.Ops(), " "); got != c.Ops {
						t.Errorf("requests %q, want %q", got, c.Ops)
					}
					time.Sleep(time.Minute) // what is late has arrived
					if value, now, err := s.Get(t.Context(), "k"); err != nil || now != v || string(value) != "1" {
						t.Errorf("got %s %q %v, put returned %q", value, now, err, v)
					}
					Put(t, s, "k", v, "2")
				})
			})
		}
	}
}

// Deadline checks that a caller with a deadline of 2.5 seconds can write although the first request gets
// no answer. The store must keep enough time for a second request. The parameters are the same as in
// LostReplies.
func Deadline[S Server, R store.Store](t *testing.T, op string, serve func() S, open func(*testing.T, S) R) {
	synctest.Test(t, func(t *testing.T) {
		server := serve()
		s := open(t, server)
		v := Put(t, s, "k", "", "0")
		for _, fault := range []awstest.Fault{{Hang: true}, {Before: time.Minute}} {
			server.Add(op, 0, 1, fault)
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			next, err := s.Put(ctx, "k", v, []byte("1"))
			cancel()
			if err != nil {
				t.Fatalf("%+v: %v", fault, err)
			}
			v = next
		}
	})
}

// FaultyCounter checks a counter that several goroutines increment through a network with these faults.
// No acknowledged increment is lost, and none counts twice.
func FaultyCounter[S Server, R store.Store](t *testing.T, faults []awstest.Fault, serve func() S, open func(*testing.T, S) R) {
	synctest.Test(t, func(t *testing.T) {
		server := serve()
		var n, applied, unknown atomic.Int64
		for i, fault := range faults {
			server.AddWhen(func(awstest.Request) bool { return n.Add(1)%int64(len(faults)*4) == int64(i*3) }, 0, -1, fault)
		}
		var racers sync.WaitGroup
		for range 6 {
			racers.Go(func() {
				s := open(t, server)
				for range 40 {
					_, err := store.Update(t.Context(), s, "k", func(value []byte) ([]byte, error) {
						var count int
						_, _ = fmt.Sscan(string(value), &count)
						return fmt.Append(nil, count+1), nil
					})
					switch store.OutcomeOf(err) {
					case store.Applied:
						applied.Add(1)
					case store.Unknown:
						unknown.Add(1)
					}
				}
			})
		}
		racers.Wait()
		time.Sleep(time.Hour)
		server.Clear()
		value, _, err := open(t, server).Get(t.Context(), "k")
		var count int64
		_, _ = fmt.Sscan(string(value), &count)
		if err != nil || count < applied.Load() || count > applied.Load()+unknown.Load() {
			t.Errorf("the counter is %s, %v; %d were applied, %d are unknown", value, err, applied.Load(), unknown.Load())
		}
		t.Logf("applied %d, unknown %d, counter %d, requests %d", applied.Load(), unknown.Load(), count, len(server.Requests()))
	})
}

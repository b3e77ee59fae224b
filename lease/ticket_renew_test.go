package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

var errStopped = errors.New("stopped here")

// A step that dies between the announcement and the next ticket loses nothing, wherever
// it dies and whatever the outcome of its write is.
func TestTicketRenewalThatDiesLosesNothing(t *testing.T) {
	for name, what := range map[string]fault{"not sent": hang, "applied": lose, "applied late": hangLate, "failed": drop} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				a, b := client(t, st, pipeline(time.Minute)), client(t, st, pipeline(time.Minute))
				ticket := mustDetach(t, mustTry(t, a, "job"))
				time.Sleep(20 * time.Second)
				w := newWire(st)
				dying := client(t, w, pipeline(time.Minute))
				file := ticket
				ctx, cancel := context.WithCancel(t.Context())
				w.set(func(op *store.Op) fault {
					switch {
					case op.Kind.Write():
						return what
					case file.PendingWrites != nil:
						return hang
					}
					return pass
				})
				if _, err := dying.RenewTicket(ctx, ticket, func(next lease.Ticket) error {
					file = next
					time.AfterFunc(time.Millisecond, cancel)
					return nil
				}); err == nil {
					t.Fatal("it did not die")
				}
				next, err := b.RenewTicket(t.Context(), file, nil)
				if err != nil {
					t.Fatalf("the next step: %v", err)
				}
				if len(next.PendingWrites) != 0 || next.Token != ticket.Token {
					t.Errorf("the next ticket is %+v", next)
				}
				time.Sleep(10 * time.Second)
				w.after.Wait()
				// All that were before are void, and change nothing.
				for _, old := range []lease.Ticket{ticket, file} {
					if _, err := a.Attach(t.Context(), old); !errors.Is(err, lease.ErrTicketUsed) {
						t.Errorf("Attach of an old ticket = %v", err)
					}
					if err := a.ReleaseTicket(t.Context(), old); !errors.Is(err, lease.ErrTicketUsed) {
						t.Errorf("ReleaseTicket of an old ticket = %v", err)
					}
					time.Sleep(30 * time.Second)
					if next, err = b.RenewTicket(t.Context(), next, nil); err != nil {
						t.Fatal(err)
					}
				}
				mustRelease(t, mustAttach(t, a, next))
			})
		})
	}
}

// What was announced is counted from its own sending: a step that died late loses
// nothing of the time that its write gave.
func TestTicketRenewalCountsFromTheAnnouncedWrite(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		a, b := client(t, w, pipeline(time.Minute)), client(t, st, pipeline(time.Minute))
		file := mustDetach(t, mustTry(t, b, "job"))
		time.Sleep(40 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		w.set(nth(1, lose))
		_, err := a.RenewTicket(ctx, file, func(next lease.Ticket) error {
			file = next
			w.set(func(op *store.Op) fault {
				if op.Kind.Write() {
					return lose
				}
				return hang
			})
			return nil
		})
		var unresolved *lease.TicketError
		if !errors.As(err, &unresolved) || !errors.Is(err, lease.ErrUnresolved) || len(unresolved.Ticket.PendingWrites) == 0 {
			t.Fatalf("RenewTicket = %v", err)
		}
		time.Sleep(40 * time.Second) // 82 s after the grant, and 42 s after that write
		mustRelease(t, mustAttach(t, b, file))
	})
}

// A renewal that cannot be announced is not sent.
func TestTicketRenewalIsAnnouncedFirst(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		a := client(t, w, pipeline(time.Minute))
		ticket := mustDetach(t, mustTry(t, a, "job"))
		w.requests()
		if _, err := a.RenewTicket(t.Context(), ticket, func(lease.Ticket) error { return errStopped }); !errors.Is(err, errStopped) {
			t.Errorf("RenewTicket = %v", err)
		}
		if n := w.requests(); n != 1 {
			t.Errorf("%d requests, want the read alone", n)
		}
		next, err := a.RenewTicket(t.Context(), ticket, nil)
		must(t, err)
		if n := w.requests(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		report(t, a.ReleaseTicket(t.Context(), next))
		if n := w.requests(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		wantState(t, a, "job", lease.Free)
		if err := a.ReleaseTicket(t.Context(), next); !errors.Is(err, lease.ErrReleased) {
			t.Errorf("a second release = %v", err)
		}
	})
}

// A write that failed for certain is no more announced; one that was sent twice is, when
// only the second sending failed for certain. A ticket announces at most 64 writes, however many
// calls have an unknown outcome.
func TestTicketAnnouncesWhatMayLand(t *testing.T) {
	for unknown, want := range map[int]int{0: 0, 5: 5, 70: 64} {
		bubble(t, func(t *testing.T, st store.Store) {
			w := newWire(st)
			a := client(t, w, pipeline(24*time.Hour))
			ticket := mustDetach(t, mustTry(t, a, "job"))
			writes := 0
			w.set(func(op *store.Op) fault {
				if !op.Kind.Write() {
					return pass
				}
				if writes++; writes <= unknown {
					return drop
				}
				return fail
			})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
			defer cancel()
			_, err := a.RenewTicket(ctx, ticket, nil)
			var unresolved *lease.TicketError
			if errors.As(err, &unresolved) {
				ticket = unresolved.Ticket
			}
			if n := len(ticket.PendingWrites); err == nil || n != want || writes <= unknown {
				t.Errorf("%d writes, %d announced, want %d; %v", writes, n, want, err)
			}
			if want == 64 {
				_, err = a.RenewTicket(t.Context(), ticket, nil)
				if !errors.As(err, &unresolved) || !errors.Is(err, lease.ErrUnresolved) || len(unresolved.Ticket.PendingWrites) != want {
					t.Errorf("with as many as there may be: %v", err)
				}
			}
			w.set(nil)
			report(t, a.ReleaseTicket(t.Context(), ticket))
		})
	}
}

// An Attach whose outcome is not known hands on the ticket to try again with; no guard
// of it believes.
func TestTicketUnresolvedAttach(t *testing.T) {
	for name, what := range map[string]fault{"applied": lose, "late": hangLate, "not applied": drop} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				a, b := client(t, w, pipeline(time.Minute)), client(t, st, pipeline(time.Minute))
				ticket := mustDetach(t, mustTry(t, b, "job"))
				reads := 0
				w.set(func(op *store.Op) fault {
					if op.Kind.Write() {
						return what
					}
					if reads++; reads == 1 {
						return pass
					}
					return hang
				})
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				g, err := a.Attach(ctx, ticket)
				var unresolved *lease.TicketError
				if g != nil || !errors.As(err, &unresolved) {
					t.Fatalf("Attach = %v, %v", g, err)
				}
				w.after.Wait()
				if err := a.Close(t.Context()); err != nil {
					t.Errorf("Close = %v", err)
				}
				mustRelease(t, mustAttach(t, b, unresolved.Ticket))
			})
		})
	}
}

// A release with a ticket frees the lock, whatever happens to replies, and nothing but
// what the ticket names.
func TestTicketRelease(t *testing.T) {
	for i, what := range []fault{pass, drop, fail, lose, repeat} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				a, b := client(t, w, pipeline(time.Minute)), client(t, st, pipeline(time.Minute))
				ticket := mustDetach(t, mustTry(t, b, "job"))
				w.set(nth(1, what))
				if err := a.ReleaseTicket(t.Context(), ticket); err != nil {
					t.Errorf("ReleaseTicket = %v", err)
				}
				wantState(t, b, "job", lease.Free)
				g := mustTry(t, b, "job")
				if err := a.ReleaseTicket(t.Context(), ticket); !errors.Is(err, lease.ErrTakenOver) {
					t.Errorf("a second release = %v", err)
				}
				// Too late: freed, and reported.
				ticket = mustDetach(t, g)
				time.Sleep(58 * time.Second)
				w.set(nth(1, what))
				if err := a.ReleaseTicket(t.Context(), ticket); !errors.Is(err, lease.ErrExpired) {
					t.Errorf("a late release = %v", err)
				}
				wantState(t, b, "job", lease.Free)
			})
		})
	}
}

// A release frees what was broken, so that others need not wait for a holder that has
// stopped; a stale copy does not.
func TestTicketReleaseOfABrokenLock(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		a, b := client(t, st, pipeline(time.Hour)), client(t, st, pipeline(time.Hour))
		stale := mustDetach(t, mustTry(t, a, "job"))
		ticket, err := a.RenewTicket(t.Context(), stale, nil)
		must(t, err)
		must(t, errOf(b.Break(t.Context(), "job", ticket.Token, nil)))
		for _, release := range []func(lease.Ticket) error{
			func(ticket lease.Ticket) error { return a.ReleaseTicket(t.Context(), ticket) },
			func(ticket lease.Ticket) error { _, err := a.Attach(t.Context(), ticket); return err },
		} {
			if err := release(stale); !errors.Is(err, lease.ErrBroken) {
				t.Errorf("with a stale copy: %v", err)
			}
		}
		wantHeld(t, b, "job")
		if err := a.ReleaseTicket(t.Context(), ticket); !errors.Is(err, lease.ErrBroken) {
			t.Errorf("ReleaseTicket = %v", err)
		}
		g := mustTry(t, b, "job")
		if g.Token() <= ticket.Token+1 {
			t.Errorf("token %d after the break of %d", g.Token(), ticket.Token)
		}
		mustRelease(t, g)
	})
}

// A client that is closed under an Attach leaves the lease to the ticket.
func TestTicketAttachOfAClosedClient(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		a, b := client(t, w, pipeline(time.Minute)), client(t, st, pipeline(time.Minute))
		ticket := mustDetach(t, mustTry(t, b, "job"))
		slow := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			if op.Kind.Write() {
				time.Sleep(time.Second) // it does not heed ctx
			}
			return err
		})
		closing := client(t, slow, pipeline(time.Minute))
		time.AfterFunc(500*time.Millisecond, func() { _ = closing.Close(context.Background()) })
		_, err := closing.Attach(t.Context(), ticket)
		var unresolved *lease.TicketError
		if !errors.Is(err, lease.ErrClosed) || !errors.As(err, &unresolved) {
			t.Fatalf("Attach = %v", err)
		}
		if _, err := closing.Attach(t.Context(), unresolved.Ticket); !errors.Is(err, lease.ErrClosed) {
			t.Errorf("Attach of a closed client = %v", err)
		}
		mustRelease(t, mustAttach(t, a, unresolved.Ticket))
	})
}

// An error that contains the loss of another lease says nothing about the lease of the ticket: the cause of the
// caller's context, while a write hangs, and the error of announce.
func TestTicketUseThatAnotherLeaseEnds(t *testing.T) {
	for what, cause := range map[string]error{"expired": &lease.LostError{Name: "another", Reason: lease.ErrExpired}, "released": lease.ErrReleased} {
		for call, use := range map[string]func(ctx context.Context, c *lease.Client, ticket lease.Ticket) error{
			"renew": func(ctx context.Context, c *lease.Client, ticket lease.Ticket) error {
				return errOf(c.RenewTicket(ctx, ticket, nil))
			},
			"attach": func(ctx context.Context, c *lease.Client, ticket lease.Ticket) error {
				return errOf(c.Attach(ctx, ticket))
			},
		} {
			t.Run(call+" "+what, func(t *testing.T) {
				bubble(t, func(t *testing.T, st store.Store) {
					w := newWire(st)
					a, b := client(t, w, pipeline(time.Minute)), client(t, st, pipeline(time.Minute))
					ticket := mustDetach(t, mustTry(t, b, "job"))
					if _, err := a.RenewTicket(t.Context(), ticket, func(lease.Ticket) error { return cause }); !errors.Is(err, cause) {
						t.Errorf("RenewTicket that was not announced = %v", err)
					}
					wantState(t, b, "job", lease.Held)
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(2*time.Second, func() { cancel(cause) })
					w.set(nth(1, hang))
					var unresolved *lease.TicketError
					if err := use(ctx, a, ticket); !errors.As(err, &unresolved) || len(unresolved.Ticket.PendingWrites) != 1 {
						t.Fatalf("got %v, want a ticket with one pending write", err)
					}
					mustRelease(t, mustAttach(t, b, unresolved.Ticket))
				})
			})
		}
	}
}

// The cause of the caller's context, while a read or a write hangs, is no answer about the lease of the ticket.
func TestTicketCallThatAnotherLeaseEnds(t *testing.T) {
	for _, cause := range []error{&lease.LostError{Name: "another", Reason: lease.ErrExpired}, lease.ErrReleased} {
		for call, use := range map[string]func(ctx context.Context, c *lease.Client, ticket lease.Ticket) error{
			"renew": func(ctx context.Context, c *lease.Client, ticket lease.Ticket) error {
				return errOf(c.RenewTicket(ctx, ticket, nil))
			},
			"attach": func(ctx context.Context, c *lease.Client, ticket lease.Ticket) error {
				return errOf(c.Attach(ctx, ticket))
			},
			"release": func(ctx context.Context, c *lease.Client, ticket lease.Ticket) error {
				return c.ReleaseTicket(ctx, ticket)
			},
		} {
			for _, writes := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %v, write %t", call, cause, writes), func(t *testing.T) {
					bubble(t, func(t *testing.T, st store.Store) {
						w := newWire(st)
						a, b := client(t, w, pipeline(time.Minute)), client(t, st, pipeline(time.Minute))
						ticket := mustDetach(t, mustTry(t, b, "job"))
						ctx, cancel := context.WithCancelCause(t.Context())
						time.AfterFunc(2*time.Second, func() { cancel(cause) })
						w.set(func(op *store.Op) fault {
							if op.Kind.Write() == writes {
								return hang
							}
							return pass
						})
						err := use(ctx, a, ticket)
						var lost *lease.LostError
						for _, not := range []error{lease.ErrLost, lease.ErrReleased, lease.ErrExpired, cause} {
							if errors.Is(err, not) || errors.As(err, &lost) {
								t.Errorf("%v matches %v", err, not)
							}
						}
						if err == nil || !strings.Contains(err.Error(), cause.Error()) {
							t.Errorf("got %v, want an error with the text of the cause", err)
						}
						mustRelease(t, mustAttach(t, b, ticket))
					})
				})
			}
		}
	}
}

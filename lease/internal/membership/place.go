package membership

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/waiting"
)

// Place is what a handle knows of its wait for a lock, above all of its entry in the lock's own queue.
type Place struct {
	cell   *cell.Cell
	queues *waiting.Queues

	mu      sync.Mutex
	waiting int // goroutines that wait
	*waited
}

// waited is what a handle knows of its wait that has had to wait.
type waited struct {
	entry   string    // the grant under which the handle is in the lock's queue
	endWake func()    // ends that the store wakes the handle for that entry; nil: it does not
	woken   bool      // the store has woken it
	joined  time.Time // when it came there, behind as many
	behind  int
	turn    time.Duration        // in which the queue came forward by one when it was there before
	timedAt time.Time            // when that was
	readAt  map[string]time.Time // when the sessions of those it waits for are due for a read
	shown   *cell.Seen           // what another handle of the client has seen of that; see Shows
	suited  bool                 // the lock had the slots that the handle names when they looked

	pace time.Duration // in which the queue came forward by one, as the goroutine knows that has the turn
}

// hasNotWaited is shared by all handles that have not had to wait, since most never have. It is never
// changed.
var hasNotWaited waited

// Init makes p the place of a handle with that cell.
func (p *Place) Init(c *cell.Cell, queues *waiting.Queues) {
	p.cell, p.queues, p.waited = c, queues, &hasNotWaited
}

// hasToWait gives the handle a waited of its own. The caller holds p.mu.
func (p *Place) hasToWait() {
	if p.waited == &hasNotWaited {
		p.waited = &waited{}
	}
}

// HasWaited reports whether the handle has had to wait.
func (p *Place) HasWaited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waited != &hasNotWaited
}

// Cell implements waiting.Party.
func (p *Place) Cell() *cell.Cell { return p.cell }

// Enter notes that the handle enters the queue of r with that grant. From then on, so before it is in
// the record, the store wakes it.
func (p *Place) Enter(ctx context.Context, grant string, r *lockrec.Record, waits bool) {
	p.mu.Lock()
	p.hasToWait()
	p.entry, p.shown, p.joined, p.behind = grant, nil, time.Now(), max(len(r.Queue)-1, 0)
	p.mu.Unlock()
	if !waits {
		return
	}
	end := p.cell.ExpectWake(ctx, lockrec.SessionOf(grant), func() {
		p.mu.Lock()
		p.woken = p.entry == grant
		p.mu.Unlock()
		p.queues.Wake(p)
	})
	p.mu.Lock()
	if p.entry == grant {
		p.endWake, end = end, nil
	}
	p.mu.Unlock()
	if end != nil { // the handle has left meanwhile
		end()
	}
}

// Forget notes that a grant is not in the queue any more, or never was, and reports whether it was
// the entry.
func (p *Place) Forget(entry string) bool {
	p.mu.Lock()
	if entry == "" || p.entry != entry {
		p.mu.Unlock()
		return false
	}
	end := p.endWake
	p.entry, p.shown, p.endWake, p.woken = "", nil, nil, false
	p.mu.Unlock()
	if end != nil {
		end()
	}
	return true
}

// IsDue reports whether TakeShown would return a state, or the store has woken the handle.
func (p *Place) IsDue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown != nil || p.woken
}

// Look is what the handle's last read means for the pause that follows it.
func (p *Place) Look(wait time.Duration) waiting.Look {
	s := p.cell.Known()
	p.mu.Lock()
	p.hasToWait()
	look := waiting.Look{Seen: s, Wait: wait, Pace: &p.pace, Turn: p.turn, IsWoken: p.endWake != nil && !p.woken}
	p.mu.Unlock()
	look.Due = p.nextRead()
	if p.Entry() != "" && s != nil && s.Rec != nil {
		look.Entries = p.Entries(s)
	}
	return look
}

// Entry returns the grant of the handle's entry in the lock's queue, empty if there is none.
func (p *Place) Entry() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.entry
}

// Shows stores s for a handle that waits in the queue and has become a holder, and reports whether
// that is so.
func (p *Place) Shows(s *cell.Seen) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, _ := s.Find(p.entry); at != lockrec.Holding {
		return false // a state older than the entry does not name it
	}
	p.shown = s
	return true
}

// TakeShown returns, once, the state in which another handle of the client has seen this one's
// entry.
func (p *Place) TakeShown() *cell.Seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shown
	if s != nil {
		p.shown = nil
	}
	return s
}

// Entries returns the entries in the lock's queue of all that wait through this client: the handle
// reads for all of them. A handle without an entry waits for the holders.
func (p *Place) Entries(s *cell.Seen) []string {
	all := []string{p.Entry()}
	for _, entry := range p.queues.Entries(p.cell.Key) {
		if !slices.Contains(all, entry) {
			if at, _ := lockrec.Find(s.Rec, entry); at == lockrec.Waiting {
				all = append(all, entry)
			}
		}
	}
	return all
}

// Waits counts the goroutines that wait through the handle.
func (p *Place) Waits(n int) (left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting += n; p.suited && p.waiting == 0 {
		p.suited = false
	}
	return p.waiting
}

// Suits notes that the handle has to wait for the holders of r. The handle names the number of
// slots that r has.
func (p *Place) Suits(r *lockrec.Record, slots int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slots > 0 && r.Slots == slots {
		p.hasToWait()
		p.suited = true
	}
}

// KeepsWaiting reports whether a wait of the handle continues although r has another number of
// slots than the handle names: the number was changed during the wait.
func (p *Place) KeepsWaiting(r *lockrec.Record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.Slots > 0 && p.suited
}

// spareTurns is how many more turns than there are waiters must fit in before the deadline of a newcomer. A
// waiter whose turn comes as its wait ends takes a turn from the others and does not use it.
const spareTurns = 2

// timedFor is how old the estimate of a waiter's turn must be, as a multiple of the time until that
// turn, before a waiter enters the queue although its turn would come after its deadline. So few of
// the members are waiters that try in vain.
const timedFor = 16

// HasTurn reports whether a newcomer to the queue of r may have its turn before ctx ends, as far as
// the handle knows from earlier. A newcomer in vain writes the record twice, and delays the turns
// of those that write it meanwhile. It reads the lock until the queue is short enough.
func (p *Place) HasTurn(ctx context.Context, r *lockrec.Record) bool {
	deadline, ok := ctx.Deadline()
	p.mu.Lock()
	defer p.mu.Unlock()
	turns := len(r.Queue)
	if turns > 0 {
		turns += spareTurns
	}
	return !ok || time.Duration(turns)*p.turn < max(time.Until(deadline), time.Since(p.timedAt)/timedFor)
}

// Timed notes how fast the queue moves: the entry is now at that place; -1 means that it had its
// turn.
func (p *Place) Timed(place int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hasToWait()
	p.timedAt = time.Now()
	p.turn = p.timedAt.Sub(p.joined) / time.Duration(max(p.behind-place, 1))
}

// queueReadsPerTTL bounds how often a handle reads the session of a waiter ahead of it.
const queueReadsPerTTL = 3

// DueReads returns the members of ahead whose sessions are due for a read, and how long it takes at
// most until the others are over. A handle that has read the lock before delays its read of two
// sessions for a moment: that of a new holder that was handed the lock, and that of a new waiter
// directly ahead. Most of these have left by then, so that a moving queue does not cost a read of
// each session. A waiter ahead delays no other before it holds the lock; so the handle reads its
// session rarely.
func (p *Place) DueReads(s *cell.Seen, ahead []lockrec.Member) (due []lockrec.Member, wait time.Duration) {
	now := p.cell.Space.Clock.Monotonic()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hasToWait()
	next := make(map[string]time.Time, len(ahead))
	for _, m := range ahead {
		at, met := p.readAt[m.Grant]
		soon := now.Add(p.cell.Space.Set.RereadDelay(m.TTL))
		stands, _ := lockrec.Find(s.Rec, m.Grant)
		handed := s.Rec.State == lockrec.Held && m.Session != "" && s.Rec.Presence == ""
		switch {
		case stands != lockrec.Waiting && !handed:
			at = now
		case !met && p.readAt != nil, stands != lockrec.Waiting && at.After(soon):
			at = soon
		}
		if now.Before(at) {
			wait = max(wait, p.cell.Space.Set.Expiry(m.TTL))
		} else {
			due = append(due, m)
			if stands == lockrec.Waiting {
				at = now.Add(m.TTL / queueReadsPerTTL)
			}
		}
		next[m.Grant] = at
	}
	p.readAt = next
	return due, wait
}

// ReadDue makes the reads of the sessions of members due after wait at the latest, when these may
// be over.
func (p *Place) ReadDue(members []lockrec.Member, wait time.Duration) {
	by := p.cell.Space.Clock.Monotonic().Add(wait)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range members {
		if p.readAt[m.Grant].After(by) {
			p.readAt[m.Grant] = by
		}
	}
}

// nextRead returns the time until the next read of a session that is not due now; 0 if there is
// none.
func (p *Place) nextRead() (next time.Duration) {
	now := p.cell.Space.Clock.Monotonic()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.readAt {
		if left := at.Sub(now); left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	return next
}

// ReadDueIn is how long the session of a grant is not due for a read; see dueReads.
func (p *Place) ReadDueIn(grant string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, met := p.readAt[grant]; met {
		return at.Sub(p.cell.Space.Clock.Monotonic())
	}
	return 0
}

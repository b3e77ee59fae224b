package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// mark is what the reader keeps of a checkpoint.
type mark struct {
	exists   bool
	sequence uint64
	event    string
	epoch    uint64
	token    uint64
	written  int64
	who      string  // the holder of the lock with the same name, if the lock has the token of the checkpoint
	rate     float64 // positions per second between the last two writes that the reader saw; negative if it is not known
}

func (r *reader) readMark(ctx context.Context, key string, before entry[mark]) (mark, error) {
	c, err := r.checkpoints.Get(ctx, key, nil)
	if errors.Is(err, store.ErrNotFound) && c.Epoch > 0 {
		err = nil // it was deleted: its epoch and its token remain
	}
	if err != nil {
		return mark{}, err
	}
	m := mark{exists: c.Exists, sequence: c.Sequence, event: c.EventID, epoch: c.Epoch, token: c.Token, written: milliseconds(c.Written), rate: -1}
	old := before.value
	switch {
	case before.read == 0 || m.epoch != old.epoch:
	case m.written == old.written:
		m.rate = old.rate
	case m.written > old.written && m.sequence >= old.sequence:
		m.rate = float64(m.sequence-old.sequence) * 1000 / float64(m.written-old.written)
	}
	switch {
	case m.token == 0:
	case m.token == old.token && old.who != "":
		m.who = old.who
	default:
		r.budget.spend(1)
		if info, err := r.locksOf.Inspect(ctx, key); err == nil && info.Record.State != lease.Free && info.Record.Token == m.token {
			m.who = info.Record.Holder
		}
	}
	return m, nil
}

// logState is what the reader knows of a commit log.
type logState struct {
	read      time.Time
	latest    object.LogEntry
	entries   []logEntry // the newest one first
	followers []follower
	problem   string
}

type logEntry struct {
	Number   uint64
	ID       string
	Modified time.Time
	Bytes    int
	Begins   string // the first bytes of the body
}

type follower struct {
	Key      string
	Sequence uint64
	Lag      uint64
	Problem  string
}

// lastEntries is how many entries of a log the page shows, and mostBegins how many bytes of each.
const (
	lastEntries = 5
	mostBegins  = 200
)

func (r *reader) readLogs() {
	for i, l := range r.p.o.Logs {
		r.mu.Lock()
		old := r.logs[i]
		r.mu.Unlock()
		if time.Since(old.read) < detailEvery || !r.budget.take(r.ctx, 4) {
			continue
		}
		ctx, cancel := context.WithTimeout(r.ctx, readTimeout)
		s := r.readLog(ctx, l, old)
		cancel()
		r.mu.Lock()
		r.logs[i] = s
		r.mu.Unlock()
	}
}

func (r *reader) readLog(ctx context.Context, l Log, old logState) logState {
	s := logState{read: time.Now(), entries: old.entries, latest: old.latest, followers: old.followers}
	latest, err := l.Log.Latest(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.problem = problemOf(err)
		return s
	}
	if latest.Number != old.latest.Number || latest.ID != old.latest.ID {
		s.latest, s.entries = latest, nil
		from := max(1, latest.Number-min(latest.Number, lastEntries-1))
		r.budget.spend(int(latest.Number - from + 2))
		for attempt := 0; attempt < 2 && latest.Number > 0; attempt++ {
			s.entries = nil
			for e, err := range l.Log.Read(ctx, from) {
				var trimmed *object.TrimmedError
				if errors.As(err, &trimmed) {
					from = trimmed.First
				} else if err != nil {
					s.problem = problemOf(err)
				}
				if err != nil {
					break
				}
				s.entries = append(s.entries, logEntry{e.Number, visible(e.ID), e.Modified, len(e.Body), visible(string(e.Body[:min(len(e.Body), mostBegins)]))})
				if len(s.entries) == 2*lastEntries {
					break
				}
			}
			if len(s.entries) > 0 || s.problem != "" {
				break
			}
		}
		slices.Reverse(s.entries)
	}
	s.followers = nil
	for _, key := range l.Followers {
		r.budget.spend(1)
		f := follower{Key: visible(key)}
		switch c, err := r.checkpoints.Get(ctx, key, nil); {
		case errors.Is(err, store.ErrNotFound):
			f.Problem, f.Lag = "no position is saved", s.latest.Number
		case err != nil:
			f.Problem = problemOf(err)
		default:
			f.Sequence = c.Sequence
			f.Lag = s.latest.Number - min(c.Sequence, s.latest.Number)
		}
		s.followers = append(s.followers, f)
	}
	return s
}

// panelState is the last content of a panel.
type panelState struct {
	read    time.Time
	table   PanelTable
	problem string
}

const (
	panelTimeout  = 10 * time.Second // of one read
	mostPanelRows = 1000
)

func (r *reader) readPanels() {
	for i, panel := range r.p.o.Panels {
		r.mu.Lock()
		due := time.Since(r.panels[i].read) >= panelEvery
		r.mu.Unlock()
		if !due {
			continue
		}
		ctx, cancel := context.WithTimeout(r.ctx, panelTimeout)
		table, err := panel.Read(ctx)
		s := panelState{read: time.Now()}
		switch {
		case err != nil && ctx.Err() != nil:
			s.problem = fmt.Sprintf("The table was not read within %v.", panelTimeout)
		case err != nil:
			s.problem = problemOf(err)
		}
		cancel()
		s.table.Note = visible(table.Note)
		for _, h := range table.Head {
			s.table.Head = append(s.table.Head, visible(h))
		}
		for _, row := range table.Rows[:min(len(table.Rows), mostPanelRows)] {
			cells := make([]string, len(row))
			for i, cell := range row {
				cells[i] = visible(cell)
			}
			s.table.Rows = append(s.table.Rows, cells)
		}
		r.mu.Lock()
		r.panels[i] = s
		r.mu.Unlock()
	}
}

// probe reads a register that does not exist, so that the page of the store knows whether it answers.
func (r *reader) probe() {
	r.mu.Lock()
	due := time.Since(r.health.answered) >= detailEvery
	r.mu.Unlock()
	if !due || !r.budget.take(r.ctx, 1) {
		return
	}
	ctx, cancel := context.WithTimeout(r.ctx, readTimeout)
	defer cancel()
	begun := time.Now()
	_, _, err := r.p.st.Get(ctx, r.p.o.KeyPrefix+"/.holdfast")
	r.answered(begun, err)
}

// doctorTimeout bounds the examination of the store.
const doctorTimeout = 5 * time.Minute

// examine begins the examination of the store, once.
func (r *reader) examine() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.p.o.Doctor == nil || r.doctor.running || !r.doctor.at.IsZero() {
		return
	}
	r.doctor.running = true
	r.working.Go(func() {
		ctx, cancel := context.WithTimeout(r.ctx, doctorTimeout)
		defer cancel()
		text, err := r.p.o.Doctor(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.doctor = doctorState{at: time.Now(), text: visibleLines(text)}
		if err != nil {
			r.doctor.problem = problemOf(err)
		}
	})
}

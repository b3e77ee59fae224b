//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

// modelKey is what the model has for a key.
type modelKey struct {
	there    bool
	sequence uint64
	event    string
	token    uint64
	epoch    uint64
}

// modelSight is what the model's handle was shown.
type modelSight struct {
	known, there bool
	sequence     uint64
	epoch        uint64
}

// model is the file as its users see it, with a sight for each handle and key.
type model struct {
	keys   map[string]*modelKey
	sights map[string]*modelSight
}

func (m *model) key(key string) *modelKey {
	if m.keys[key] == nil {
		m.keys[key] = &modelKey{epoch: 1}
	}
	return m.keys[key]
}

func (m *model) sight(handle int, key string) *modelSight {
	id := fmt.Sprint(handle, key)
	if m.sights[id] == nil {
		m.sights[id] = &modelSight{}
	}
	return m.sights[id]
}

// see notes that a handle was shown a key.
func (m *model) see(handle int, key string) {
	k := m.key(key)
	*m.sight(handle, key) = modelSight{true, k.there, k.sequence, k.epoch}
}

func (m *model) advance(handle int, key string, p checkpoint.Position, o checkpoint.AdvanceOptions) checkpoint.Status {
	k, s := m.key(key), m.sight(handle, key)
	var status checkpoint.Status
	epoch := o.Epoch
	if epoch == 0 && s.known {
		epoch = s.epoch
	}
	switch {
	case o.Token < k.token && !(o.Token == 0 && o.Force):
		status = checkpoint.Fenced
	case epoch != 0 && epoch != k.epoch:
		return checkpoint.RolledBack
	case s.known && s.epoch == k.epoch && s.there && (!k.there || k.sequence < s.sequence):
		return checkpoint.RolledBack
	case k.there && p.Sequence < k.sequence:
		status = checkpoint.Behind
	case k.there && p.Sequence == k.sequence && p.EventID != "" && p.EventID != k.event:
		status = checkpoint.Mismatch
	case k.there && p.Sequence == k.sequence:
		status = checkpoint.Unchanged
	default:
		status = checkpoint.Advanced
		k.there, k.sequence, k.event = true, p.Sequence, p.EventID
		k.token = max(k.token, o.Token)
	}
	if !s.known || s.epoch == k.epoch && k.there && (!s.there || k.sequence > s.sequence) {
		m.see(handle, key)
	}
	return status
}

// change is a reset to p, or a delete if p is nil.
func (m *model) change(handle int, key string, p *checkpoint.Position, o checkpoint.ChangeOptions) error {
	k, s := m.key(key), m.sight(handle, key)
	switch {
	case o.Token < k.token && !(o.Token == 0 && o.Force):
		return checkpoint.ErrFenced
	case !k.there && (p == nil || o.ExpectedSequence != nil):
		return store.ErrNotFound
	case o.ExpectedSequence != nil && *o.ExpectedSequence != k.sequence:
		return checkpoint.ErrUnexpectedSequence
	case p == nil && o.ExpectedSequence == nil && s.known && s.epoch == k.epoch && s.there && k.sequence > s.sequence:
		return checkpoint.ErrUnexpectedSequence
	}
	k.there = p != nil
	if p != nil {
		k.sequence, k.event = p.Sequence, p.EventID
	} else {
		k.sequence, k.event = 0, ""
	}
	k.token = max(k.token, o.Token)
	k.epoch++
	m.see(handle, key)
	return nil
}

func (m *model) fence(handle int, key string, token uint64) error {
	k := m.key(key)
	if token < k.token {
		return checkpoint.ErrFenced
	}
	k.token = token
	m.see(handle, key)
	return nil
}

// foreign is a write of a program that knows no tokens and epochs.
func (m *model) foreign(key string, mark *mark) {
	k := m.key(key)
	k.there, k.sequence, k.event = mark != nil, 0, ""
	if mark != nil {
		k.sequence = mark.Sequence
	}
}

// TestModel carries out random calls through several handles, in this process and
// in others, and compares every answer and the file with a model.
func TestModel(t *testing.T) {
	steps := 600
	if torture() {
		steps = 15000
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, seed, steps/3) })
	}
}

func torture() bool { return os.Getenv("HOLDFAST_TORTURE") != "" }

// modelRun is a run of the model next to the real store.
type modelRun struct {
	t         *testing.T
	r         *rand.Rand
	path      string
	model     *model
	handles   []*avisofile.Store // numbers 0, 1, ...
	processes []*process         // the numbers behind
	peer      *peer
}

func runModel(t *testing.T, seed uint64, steps int) {
	run := &modelRun{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), path: statePath(t),
		model: &model{keys: map[string]*modelKey{}, sights: map[string]*modelSight{}},
	}
	for range 3 {
		run.handles = append(run.handles, open(t, run.path, nil))
	}
	for range 2 {
		p := start(t, command(t, "store", nil))
		p.want("ok", "open %s", run.path)
		run.processes = append(run.processes, p)
	}
	run.peer = mustPeer(t, run.path)
	for range steps {
		name := fmt.Sprint("m", run.r.IntN(4))
		switch n := run.r.IntN(100); {
		case n < 70:
			run.call(run.r.IntN(len(run.handles)), name)
		case n < 90:
			run.line(run.r.IntN(len(run.processes)), name)
		case n < 97:
			run.foreign(name)
		default: // a handle is closed, and another opened
			i := run.r.IntN(len(run.handles))
			closeStore(t, run.handles[i])
			run.handles[i] = open(t, run.path, nil)
			for id := range run.model.sights {
				if strings.HasPrefix(id, fmt.Sprint(i)) {
					delete(run.model.sights, id)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	run.compareFile()
}

// near returns a number near n.
func (run *modelRun) near(n uint64) uint64 {
	return uint64(max(0, int64(n)+run.r.Int64N(5)-2))
}

func (run *modelRun) token(key string) uint64 {
	if run.r.IntN(2) == 0 {
		return 0
	}
	return run.near(run.model.key(key).token)
}

// call makes a random call through a handle of this process.
func (run *modelRun) call(handle int, name string) {
	t, ctx, r := run.t, run.t.Context(), run.r
	key := resumeKey(name)
	s, k := run.handles[handle], run.model.key(key)
	p := at(run.near(k.sequence))
	p.EventID = []string{"", "a", "b"}[r.IntN(3)]
	change := checkpoint.ChangeOptions{Token: run.token(key), Force: r.IntN(2) == 0}
	if r.IntN(4) == 0 {
		expect := run.near(k.sequence)
		change.ExpectedSequence = &expect
	}
	var c checkpoint.Checkpoint
	var err, want error
	what := ""
	switch n := r.IntN(20); {
	case n < 10:
		o := checkpoint.AdvanceOptions{Token: run.token(key), Force: r.IntN(2) == 0}
		if r.IntN(4) == 0 {
			o.Epoch = run.near(k.epoch)
		}
		var result checkpoint.Result
		result, err = s.Advance(ctx, key, p, &o)
		status := run.model.advance(handle, key, p, o)
		want = status.Err()
		what = fmt.Sprintf("advance to %+v with %+v", p, o)
		if result.Status != status {
			t.Errorf("handle %d, %s: got %v, want %v: %+v", handle, what, result.Status, status, result.Current)
		}
		c = result.Current
	case n < 12:
		token := 1 + run.token(key)
		c, err = s.Fence(ctx, key, token)
		want = run.model.fence(handle, key, token)
		what = fmt.Sprint("fence ", token)
	case n < 14:
		c, err = s.Reset(ctx, key, p, &change)
		want = run.model.change(handle, key, &p, change)
		what = fmt.Sprintf("reset to %+v with %+v", p, change)
	case n < 16:
		c, err = s.Delete(ctx, key, &change)
		want = run.model.change(handle, key, nil, change)
		what = fmt.Sprintf("delete with %+v", change)
	default:
		c, err = s.Get(ctx, key, nil)
		run.model.see(handle, key)
		what = "get"
		if !k.there {
			want = store.ErrNotFound
		}
	}
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		t.Errorf("handle %d, %s: got %v, want %v", handle, what, err, want)
	}
	got := modelKey{c.Exists, c.Sequence, c.EventID, c.Token, c.Epoch}
	if got != *k || c.Key != key {
		t.Errorf("handle %d, %s: got %+v, want %+v", handle, what, c, *k)
	}
}

// line makes a random call through another process.
func (run *modelRun) line(i int, name string) {
	key := resumeKey(name)
	handle := len(run.handles) + i
	p, k := run.processes[i], run.model.key(key)
	seq := run.near(k.sequence)
	switch run.r.IntN(4) {
	case 0:
		token := run.near(k.token)
		if token == 0 {
			return
		}
		want := "ok"
		if run.model.fence(handle, key, token) != nil {
			want = "err not applied"
		}
		run.wantLine(p, want, "fence %s %d", name, token)
	case 1:
		pos := at(seq)
		want := "ok"
		if run.model.change(handle, key, &pos, checkpoint.ChangeOptions{Force: true}) != nil {
			want = "err not applied"
		}
		run.wantLine(p, want, "reset %s %d", name, seq)
	case 2:
		status := run.model.advance(handle, key, at(seq), checkpoint.AdvanceOptions{})
		run.wantLine(p, status.String(), "put %s %d null", name, seq)
	default:
		run.model.see(handle, key)
		want := "none"
		if k.there {
			want = fmt.Sprintf("%d epoch %d token %d", k.sequence, k.epoch, k.token)
		}
		run.wantLine(p, want, "read %s", name)
	}
}

func (run *modelRun) wantLine(p *process, want, format string, args ...any) {
	if got := p.ask(format, args...); !strings.HasPrefix(got, want) {
		run.t.Errorf("%s: got %q, want %q", fmt.Sprintf(format, args...), got, want)
	}
}

// foreign writes as a program of the other kind that was just started.
func (run *modelRun) foreign(name string) {
	key := resumeKey(name)
	p := mustPeer(run.t, run.path)
	k := run.model.key(key)
	if run.r.IntN(3) == 0 {
		do(run.t, p.delete(key))
		run.model.foreign(key, nil)
		return
	}
	m := mark{Sequence: run.near(k.sequence)}
	do(run.t, p.put(key, m))
	if !k.there || m.Sequence > k.sequence {
		run.model.foreign(key, &m)
	}
}

// compareFile compares the file with the model.
func (run *modelRun) compareFile() {
	got, err := loadPeer(run.path)
	do(run.t, err)
	n := 0
	for key, k := range run.model.keys {
		if !k.there {
			continue
		}
		n++
		m := got[key]
		event := ""
		if m.Event != nil {
			event = *m.Event
		}
		if m.Sequence != k.sequence || event != k.event {
			run.t.Errorf("%s: the file has %+v, the model %+v", key, m, k)
		}
	}
	if n != len(got) {
		run.t.Errorf("the file has %d keys, the model %d", len(got), n)
	}
}

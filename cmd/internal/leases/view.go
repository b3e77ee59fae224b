package leases

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/lockstate"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// YieldRequestView is a request to give way.
type YieldRequestView struct {
	By           string     `json:"requested_by"`
	Reason       string     `json:"reason,omitempty"`
	At           *time.Time `json:"requested_at"`      // by the asker's clock
	Acknowledged bool       `json:"acknowledged"`      // the holder has written that it read the request
	Refusal      string     `json:"refusal,omitempty"` // why the holder does not yield
}

// ViewOfRequest returns the view of a request; nil if there is none.
func ViewOfRequest(ask *lease.YieldRequest) *YieldRequestView {
	if ask == nil {
		return nil
	}
	return &YieldRequestView{By: ask.By, Reason: ask.Reason, At: printable.Time(ask.At), Acknowledged: ask.Acknowledged, Refusal: ask.RefusalReason}
}

// TextOrBytes returns data as JSON has it: as text where it is text.
func TextOrBytes(data []byte) (*string, []byte) {
	if text := string(data); data != nil && utf8.ValidString(text) {
		return &text, nil
	}
	return nil, data
}

// LockView is a lock as ls and show print it with --json. Its fields are stable.
type LockView struct {
	Name     string           `json:"name"`
	State    string           `json:"state"` // held, shared, free, broken, or unreadable
	Token    uint64           `json:"token"`
	Holder   string           `json:"holder"`
	Liveness string           `json:"liveness"` // of the holder's process: alive, dead, orphans or unknown
	Granted  *time.Time       `json:"granted"`  // by the holder's clock
	Renewed  *time.Time       `json:"renewed"`  // by the holder's clock
	TTL      int64            `json:"ttl_ms"`
	After    *time.Time       `json:"not_before,omitempty"` // no waiter takes it earlier; by the holder's clock
	Expires  *time.Time       `json:"expires"`              // by the holder's clock, if it is held or broken
	LastRun  *RunView         `json:"last_run,omitempty"`   // of run --once-per
	Data     *string          `json:"data,omitempty"`
	Base64   []byte           `json:"data_base64,omitempty"`
	Expired  lockstate.Expiry `json:"expired,omitempty"` // held, but not renewed in time: certain, or likely by two clocks
	Orphans  []int            `json:"orphans,omitempty"` // processes that the dead holder has left running
	Store    string           `json:"store"`
	Error    string           `json:"error,omitempty"` // why it is unreadable

	Session string            `json:"session,omitempty"` // that its holder is under; the times of renewal are the session's
	Slots   int               `json:"slots,omitempty"`   // of a semaphore
	Holders []MemberView      `json:"holders,omitempty"` // readers, or those that hold slots
	Queue   []MemberView      `json:"queue,omitempty"`   // those that wait in order
	Asked   *YieldRequestView `json:"yield_request,omitempty"`
	Linger  int64             `json:"linger_ms,omitempty"` // for how long its holder keeps it after its work

	watched time.Duration // for which a waiter watches it before it takes it

	over bool // its session was closed or revoked
	now  bool // it was broken so that others may take it at once

	version store.Version // of its record
}

// IsOf reports whether two views are of the same version of the record.
func (v *LockView) IsOf(other *LockView) bool { return v.version == other.version }

// NamesDead reports whether a session that the record of the lock names has ended, or its process is dead.
func (v *LockView) NamesDead() bool {
	isDead := func(m MemberView) bool { return m.Liveness == store.Dead.String() }
	return v.over || v.Session != "" && v.Liveness == store.Dead.String() || slices.ContainsFunc(v.Holders, isDead) || slices.ContainsFunc(v.Queue, isDead)
}

// MemberView is one of several holders of a lock, or of those that wait for it.
type MemberView struct {
	Mode     string           `json:"mode"`            // shared, slot, exclusive or candidate
	Slot     int              `json:"slot,omitempty"`  // its number
	Token    uint64           `json:"token,omitempty"` // of a holder
	Since    *time.Time       `json:"since"`           // by its own clock
	Session  string           `json:"session"`
	Holder   string           `json:"holder,omitempty"`   // of the session
	Liveness string           `json:"liveness,omitempty"` // of its process: alive, dead or unknown
	Expired  lockstate.Expiry `json:"expired,omitempty"`  // of the session: certain or likely
}

func viewsOf(members []lease.Member) []MemberView {
	var views []MemberView
	for _, m := range members {
		views = append(views, MemberView{Mode: string(m.Mode), Slot: m.Slot, Token: m.Token, Session: m.Session, Since: printable.Time(m.Since)})
	}
	return views
}

// InParallel is how many records a listing reads at the same time.
const InParallel = 16

// sessionsOf reads the records of sessions, each once, a few at the same time. A session without
// a record that can be read is not in the result.
func sessionsOf(ctx context.Context, client *lease.Client, ids map[string]bool) (map[string]lease.Info, error) {
	var mu sync.Mutex
	read := map[string]lease.Info{}
	readers := workerpool.New(ctx, InParallel, 0)
	for id := range ids {
		if !readers.WaitRoom(0) {
			break
		}
		readers.Go(0, func(ctx context.Context) error {
			info, err := client.InspectSession(ctx, id)
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrKey) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			read[id] = info
			return err
		})
	}
	return read, readers.Wait()
}

// lived returns what is known of the process of a session.
func lived(info lease.Info) string {
	if info.Record.State == lease.Free || info.Record.State == lease.Revoked {
		return store.Dead.String()
	}
	return info.Liveness.String()
}

// sessions adds the sessions that a lock names to ids.
func (v *LockView) sessions(ids map[string]bool) {
	for _, id := range []string{v.Session, v.handedTo()} {
		if id != "" {
			ids[id] = true
		}
	}
	for _, m := range slices.Concat(v.Holders, v.Queue) {
		ids[m.Session] = true
	}
}

// handedTo returns the session that a lock was handed over to, if the lock's record says no more
// of its holder: the session that hands a lock over knows no more.
func (v *LockView) handedTo() string {
	id, _ := strings.CutPrefix(v.Holder, lockstate.HandedOver)
	if lockstate.HandedOver+id != v.Holder {
		return ""
	}
	return id
}

// under adds what the records of sessions say of their lock.
func (v *LockView) under(client *lease.Client, read map[string]lease.Info) {
	info := read[v.Session]
	switch r := info.Record; {
	case r.Name == "":
	case v.State == string(lease.Held):
		v.Liveness, v.over = lived(info), r.State != lease.Held
		v.Renewed, v.Expires, v.Expired = renewal(client, info)
	case v.State == string(lease.Broken) && !v.now:
		v.over = r.State != lease.Held
		_, v.Expires, _ = renewal(client, info)
	}
	if info, known := read[v.handedTo()]; known {
		v.Holder = info.Record.Holder
	}
	for _, members := range [][]MemberView{v.Holders, v.Queue} {
		for i := range members {
			m := &members[i]
			info = read[m.Session]
			m.Holder, m.Liveness = info.Record.Holder, lived(info)
			_, _, m.Expired = renewal(client, info)
		}
	}
}

// UnderAll adds what the records of sessions say of their locks.
func UnderAll(ctx context.Context, client *lease.Client, views ...*LockView) error {
	ids := map[string]bool{}
	for _, v := range views {
		v.sessions(ids)
	}
	read, err := sessionsOf(ctx, client, ids)
	for _, v := range views {
		v.under(client, read)
	}
	return err
}

// renewal returns when a lease was renewed, when it ends unless it is renewed again, and what
// is known of its having expired.
func renewal(client *lease.Client, info lease.Info) (renewed, expires *time.Time, expired lockstate.Expiry) {
	r := info.Record
	if r.Renewed.IsZero() {
		return nil, nil, ""
	}
	renewed = &r.Renewed
	end := r.Renewed.Add(r.TTL)
	if (r.State == lease.Held || r.State == lease.Broken && !r.Immediate) && end.Year() <= 9999 { // JSON has no later time
		expires = &end
	}
	if r.State == lease.Held {
		expired = lockstate.ExpiryOf(r.Renewed, time.Now(), info.Age, r.TTL, driftOf(client), info.Liveness)
	}
	return renewed, expires, expired
}

// driftOf returns the largest clock drift that the client allows for. A nil client has the default.
func driftOf(client *lease.Client) float64 {
	if client == nil {
		return lease.DefaultMaxClockDrift
	}
	return client.Options().MaxClockDrift
}

// ViewOf returns the view of a lock, by what the client has seen of it.
func ViewOf(client *lease.Client, info lease.Info, url string) LockView {
	r := info.Record
	v := LockView{
		Name: r.Name, State: string(r.State), Token: r.Token, Holder: r.Holder,
		Liveness: info.Liveness.String(), TTL: r.TTL.Milliseconds(), Store: url,
		Granted: printable.Time(r.Granted), After: printable.Time(r.NotBefore), version: info.Version,
	}
	v.now = r.State == lease.Broken && r.Immediate
	v.Renewed, v.Expires, v.Expired = renewal(client, info)
	v.watched = lockstate.WatchTime(r.TTL, driftOf(client))
	if r.Session != "" { // its session is renewed, and this record is not
		v.Session, v.Expires, v.Expired = r.Session, nil, ""
	}
	if r.State == lease.Shared { // Holder names only the member that entered last
		v.Holder = ""
	}
	v.Slots, v.Holders, v.Queue = r.Slots, viewsOf(r.Holders), viewsOf(r.Queue)
	v.Asked, v.Linger = ViewOfRequest(r.YieldRequest), r.Linger.Milliseconds()
	v.LastRun = viewOfRun(r.Run)
	v.Data, v.Base64 = TextOrBytes(r.Data)
	return v
}

// orphanFinder is a store that knows the processes which a dead holder has left running.
type orphanFinder interface {
	OrphanedChildren(ctx context.Context, announcement string) (pids []int, any bool)
}

var _ orphanFinder = (*filestore.Store)(nil)

// OrphansOf reports whether the holder of a lock is dead while processes that it started still run,
// and which these are, as far as the store can tell.
func OrphansOf(ctx context.Context, st store.Store, r lease.Record) (pids []int, any bool) {
	files, ok := store.As[orphanFinder](st)
	if !ok {
		return nil, false
	}
	return files.OrphanedChildren(ctx, r.Presence)
}

// RunView is the last run of a job as ls and show print it with --json. Its fields are
// stable. All times are by the clock of the machine that ran it.
type RunView struct {
	Period string     `json:"period"`
	Began  time.Time  `json:"began"`
	Ended  *time.Time `json:"ended"` // null if it is running or died
	Until  time.Time  `json:"period_end"`
	Result string     `json:"result"` // running, succeeded, failed or died
	Error  string     `json:"error,omitempty"`
	Holder string     `json:"holder"`
	Tries  int        `json:"attempts"`
	Again  bool       `json:"rerun_allowed,omitempty"` // a user has allowed another run in the period
}

func viewOfRun(r *lease.Run) *RunView {
	if r == nil {
		return nil
	}
	return &RunView{
		Period: r.Period, Began: r.Began, Ended: printable.Time(r.Ended), Until: r.PeriodEnd, Result: lockstate.RunResult(r.Outcome),
		Error: r.Error, Holder: r.Holder, Tries: r.Attempts, Again: r.RerunAllowed,
	}
}

// Short returns the result of the run, and how long ago that was.
func (v *RunView) Short() string {
	if v == nil {
		return "-"
	}
	at := v.Began
	if v.Ended != nil {
		at = *v.Ended
	}
	return v.Result + ", " + output.Away(time.Until(at))
}

// Lines prints the run, one line for each fact.
func (v *RunView) Lines(line func(label, format string, args ...any)) {
	if v == nil {
		return
	}
	again := ""
	if v.Again {
		again = "; a user broke the lock: the job may run again"
	}
	line("last run", "%s (attempt %d)%s", v.Result, v.Tries, again)
	line("  began", "%s (%s)", v.Began.Local().Format(time.RFC3339), output.Away(time.Until(v.Began)))
	if v.Ended != nil {
		line("  ended", "%s (after %s)", v.Ended.Local().Format(time.RFC3339), output.Ago(max(0, v.Ended.Sub(v.Began))))
	}
	if v.Error != "" {
		line("  error", "%s", v.Error)
	}
	line("  by", "%s", v.Holder)
	line("  period", "%s, until %s", v.Period, v.Until.Local().Format(time.RFC3339))
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// lockView is a lock as ls and show print it with --json. Its fields are stable.
type lockView struct {
	Name     string     `json:"name"`
	State    string     `json:"state"` // held, shared, free, broken, or unreadable
	Token    uint64     `json:"token"`
	Holder   string     `json:"holder"`
	Liveness string     `json:"liveness"` // of the holder's process: alive, dead, orphans or unknown
	Granted  *time.Time `json:"granted"`  // by the holder's clock
	Renewed  *time.Time `json:"renewed"`  // by the holder's clock
	TTL      int64      `json:"ttl_ms"`
	After    *time.Time `json:"not_before,omitempty"` // no waiter takes it earlier; by the holder's clock
	Expires  *time.Time `json:"expires"`              // by the holder's clock, if it is held or broken
	LastRun  *runView   `json:"last_run,omitempty"`   // of run --once-per
	Data     *string    `json:"data,omitempty"`
	Base64   []byte     `json:"data_base64,omitempty"`
	Expired  string     `json:"expired,omitempty"` // held, but not renewed in time: certain, or likely by two clocks
	Orphans  []int      `json:"orphans,omitempty"` // processes that the dead holder has left running
	Store    string     `json:"store"`
	Error    string     `json:"error,omitempty"` // why it is unreadable

	Session string            `json:"session,omitempty"` // that its holder is under; the times of renewal are the session's
	Slots   int               `json:"slots,omitempty"`   // of a semaphore
	Holders []memberView      `json:"holders,omitempty"` // readers, or those that hold slots
	Queue   []memberView      `json:"queue,omitempty"`   // those that wait in order
	Asked   *yieldRequestView `json:"yield_request,omitempty"`
	Linger  int64             `json:"linger_ms,omitempty"` // for how long its holder keeps it after its work

	watched time.Duration // for which a waiter watches it before it takes it

	over bool // its session was closed or revoked
	now  bool // it was broken so that others may take it at once
}

// memberView is one of several holders of a lock, or of those that wait for it.
type memberView struct {
	Mode     string     `json:"mode"`            // shared, slot, exclusive or candidate
	Slot     int        `json:"slot,omitempty"`  // its number
	Token    uint64     `json:"token,omitempty"` // of a holder
	Since    *time.Time `json:"since"`           // by its own clock
	Session  string     `json:"session"`
	Holder   string     `json:"holder,omitempty"`   // of the session
	Liveness string     `json:"liveness,omitempty"` // of its process: alive, dead or unknown
	Expired  string     `json:"expired,omitempty"`  // of the session: certain or likely
}

func viewsOf(members []lease.Member) []memberView {
	var views []memberView
	for _, m := range members {
		v := memberView{Mode: string(m.Mode), Slot: m.Slot, Token: m.Token, Session: m.Session}
		if !m.Since.IsZero() {
			v.Since = &m.Since
		}
		views = append(views, v)
	}
	return views
}

// inParallel is how many records a listing reads at the same time.
const inParallel = 16

// sessionsOf reads the records of sessions, each once, a few at the same time. A session without
// a record that can be read is not in the result.
func sessionsOf(ctx context.Context, client *lease.Client, ids map[string]bool) (map[string]lease.Info, error) {
	var mu sync.Mutex
	read := map[string]lease.Info{}
	readers := workerpool.New(ctx, inParallel, 0)
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
func (v *lockView) sessions(ids map[string]bool) {
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
func (v *lockView) handedTo() string {
	id, _ := strings.CutPrefix(v.Holder, handedOver)
	if handedOver+id != v.Holder {
		return ""
	}
	return id
}

// handedOver is how the record of a lock names the holder that it was handed over to.
const handedOver = "session "

// under adds what the records of sessions say of their lock.
func (v *lockView) under(client *lease.Client, read map[string]lease.Info) {
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
	for _, members := range [][]memberView{v.Holders, v.Queue} {
		for i := range members {
			m := &members[i]
			info = read[m.Session]
			m.Holder, m.Liveness = info.Record.Holder, lived(info)
			_, _, m.Expired = renewal(client, info)
		}
	}
}

// underAll adds what the records of sessions say of their locks.
func underAll(ctx context.Context, client *lease.Client, views ...*lockView) error {
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
func renewal(client *lease.Client, info lease.Info) (renewed, expires *time.Time, expired string) {
	r := info.Record
	if r.Renewed.IsZero() {
		return nil, nil, ""
	}
	renewed = &r.Renewed
	if r.State == lease.Held || r.State == lease.Broken && !r.Immediate {
		end := r.Renewed.Add(r.TTL)
		expires = &end
	}
	over := watched(client, r.TTL)
	switch {
	case r.State != lease.Held || info.Liveness != store.LivenessUnknown:
	case info.Age >= over:
		expired = "certain"
	case time.Since(r.Renewed) >= over:
		expired = "likely"
	}
	return renewed, expires, expired
}

// watched returns for how long a waiter with the options of the client watches a lock of that TTL
// before it takes it: an allowance for clocks is added. A nil client has the defaults.
func watched(client *lease.Client, ttl time.Duration) time.Duration {
	drift := lease.DefaultMaxClockDrift
	if client != nil {
		drift = client.Options().MaxClockDrift
	}
	return time.Duration(float64(ttl) * (1 + drift) / (1 - drift))
}

func viewOf(client *lease.Client, info lease.Info, url string) lockView {
	r := info.Record
	v := lockView{
		Name: r.Name, State: string(r.State), Token: r.Token, Holder: r.Holder,
		Liveness: info.Liveness.String(), TTL: r.TTL.Milliseconds(), Store: url,
	}
	if !r.Granted.IsZero() {
		v.Granted = &r.Granted
	}
	v.now = r.State == lease.Broken && r.Immediate
	v.Renewed, v.Expires, v.Expired = renewal(client, info)
	v.watched = watched(client, r.TTL)
	if r.Session != "" { // its session is renewed, and this record is not
		v.Session, v.Expires, v.Expired = r.Session, nil, ""
	}
	if r.State == lease.Shared { // Holder names only the member that entered last
		v.Holder = ""
	}
	v.Slots, v.Holders, v.Queue = r.Slots, viewsOf(r.Holders), viewsOf(r.Queue)
	v.Asked, v.Linger = viewOfRequest(r.YieldRequest), r.Linger.Milliseconds()
	if !r.NotBefore.IsZero() {
		v.After = &r.NotBefore
	}
	v.LastRun = viewOfRun(r.Run)
	v.Data, v.Base64 = textOrBytes(r.Data)
	return v
}

// inspect reads one lock, without the sessions that its record names. For a lock that cannot be
// read it returns a view, too.
func inspect(ctx context.Context, client *lease.Client, st store.Store, name, url string) (lockView, error) {
	info, err := client.Inspect(ctx, name)
	if errors.Is(err, store.ErrCorrupt) {
		return lockView{Name: name, State: "unreadable", Liveness: store.LivenessUnknown.String(), Store: url, Error: output.OneLine(err)}, nil
	}
	if err != nil {
		return lockView{}, err
	}
	v := viewOf(client, info, url)
	if info.Liveness == store.Alive {
		if pids, any := orphansOf(ctx, st, info.Record); any {
			v.Liveness, v.Orphans = "orphans", pids
		}
	}
	return v, nil
}

// orphanFinder is a store that knows the processes which a dead holder has left running.
type orphanFinder interface {
	OrphanedChildren(ctx context.Context, announcement string) (pids []int, any bool)
}

var _ orphanFinder = (*filestore.Store)(nil)

// orphansOf reports whether the holder of a lock is dead while processes that it started still run,
// and which these are, as far as the store can tell.
func orphansOf(ctx context.Context, st store.Store, r lease.Record) (pids []int, any bool) {
	files, ok := store.As[orphanFinder](st)
	if !ok {
		return nil, false
	}
	return files.OrphanedChildren(ctx, r.Presence)
}

func (a *app) lsCommand() *cobra.Command {
	var state string
	var all bool
	f := &leaseFlags{}
	cmd := &cobra.Command{
		Use:     "ls [PREFIX]",
		Short:   "List locks with their states, tokens and holders",
		GroupID: cmdline.GroupLocks,
		Long: `List locks with their states, tokens and holders. PREFIX selects the lock with that name and all
locks below it: jobs selects jobs and jobs/a, but not jobs-old.

By default ls lists only some free locks: locks for which clients wait, locks that --min-interval
still blocks, and locks with a last run (--once-per). --all, --state free and --json list all free
locks.

On a terminal ls cuts lines to the width of the terminal. "holdfast help leases" explains the
states, such as "held (dead)" and "expired?". "holdfast object ls" lists objects.`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteStored(a.lockNames)),
		Args:              cobra.MaximumNArgs(1),
		Example: `  holdfast ls
  holdfast ls jobs --state held
  holdfast ls --json | jq '.[] | select(.liveness == "dead")'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := ""
			if len(args) > 0 {
				if isURL(args[0]) {
					return exit.Usagef("ls lists locks: for objects use holdfast object ls URL")
				}
				prefix = strings.TrimSuffix(args[0], "/")
			}
			switch state {
			case "", "held", "shared", "free", "broken", "unreadable":
			default:
				return exit.Usagef("--state must be held, shared, free, broken or unreadable, not %q", state)
			}
			return a.ls(cmd.Context(), f, prefix, state, all || state != "")
		},
	}
	f.addClockDrift(cmd.Flags())
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also list all free locks")
	cmd.Flags().StringVar(&state, "state", "", "list only locks in this state: held, shared, free, broken or unreadable")
	cmdline.CompleteFlag(cmd, "state", "held", "shared", "free", "broken", "unreadable")
	return cmd
}

func (a *app) ls(ctx context.Context, f *leaseFlags, prefix, state string, all bool) error {
	client, st, err := a.client(ctx, a.StoreURL, f)
	if err != nil {
		return err
	}
	defer clients{{client, st}}.close(ctx)
	views, err := list(ctx, client, st.Store, prefix, state, st.URL)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	// A lock whose name cannot even be shown does not hide the others.
	if a.JSON {
		return errors.Join(a.PrintJSON(views), err)
	}
	free := 0
	if !all {
		listed := len(views)
		views = slices.DeleteFunc(views, (*lockView).idle)
		free = listed - len(views)
	}
	if len(views) == 0 {
		if err != nil {
			return err
		}
		if free > 0 {
			a.Notef("no locks are in use on %s; --all lists the free locks (%d)", st.URL, free)
			return nil
		}
		below, that := "", ""
		if prefix != "" {
			below = fmt.Sprintf(" at or below %q", prefix)
		}
		if state != "" {
			that = " that are " + state
		}
		a.Notef("no locks%s on %s%s", below, st.URL, that)
		return nil
	}
	out := a.Table()
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	runs := slices.ContainsFunc(views, func(v *lockView) bool { return v.LastRun != nil })
	// The column of runs is there only if one of the locks has a run.
	run := func(text string) string {
		if !runs {
			return ""
		}
		return text + "\t"
	}
	fmt.Fprintf(w, "NAME\tSTATE\tTOKEN\tSINCE\t%sHOLDER\n", run("LAST RUN"))
	for _, v := range views {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s%s\n", out.Name(printable.Text(v.Name)), v.shortState(), v.Token, v.since(time.Now()), run(v.LastRun.short()), printable.Text(v.whose()))
	}
	return errors.Join(w.Flush(), out.Close(), err)
}

// list reads the lock with the name prefix, and those below it, a few at the same time, in the
// order of their names. With an error that matches [store.ErrCorrupt] it also returns the locks
// that could be read.
func list(ctx context.Context, client *lease.Client, st store.Store, prefix, state, url string) ([]*lockView, error) {
	var mu sync.Mutex
	views, bad := []*lockView{}, []error(nil)
	readers := workerpool.New(ctx, inParallel, 0)
	look := func(name string) bool { // false after an error
		if !readers.WaitRoom(0) {
			return false
		}
		readers.Go(0, func(ctx context.Context) error {
			view, err := inspect(ctx, client, st, name, url)
			if errors.Is(err, store.ErrNotFound) {
				return nil // it never existed, or another process has deleted it
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil && (state == "" || view.State == state) {
				views = append(views, &view)
			}
			return err
		})
		return true
	}
	if prefix != "" {
		look(prefix)
	}
	for name, err := range client.List(ctx, prefix) {
		if errors.Is(err, store.ErrCorrupt) {
			bad = append(bad, err)
			continue
		}
		if err != nil {
			readers.Stop(err, true)
			break
		}
		if name != prefix && !look(name) {
			break
		}
	}
	if err := readers.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(views, func(a, b *lockView) int { return cmp.Compare(a.Name, b.Name) })
	if err := underAll(ctx, client, views...); err != nil {
		return nil, err
	}
	return views, errors.Join(bad...)
}

// shortState returns the state, what is known of the holder's process, and who wants the lock.
func (v *lockView) shortState() string {
	state := v.plainState()
	if v.Asked != nil && v.State != "free" {
		state += ", asked"
	}
	switch n := len(v.Queue); n {
	case 0:
	case 1:
		state += ", 1 waits"
	default:
		state += fmt.Sprintf(", %d wait", n)
	}
	return state
}

// whose returns who holds the lock, or held it last.
func (v *lockView) whose() string {
	if len(v.Holders) == 0 {
		return v.Holder
	}
	var names []string
	for _, m := range v.Holders[:min(mostNamed, len(v.Holders))] {
		names = append(names, cmp.Or(m.Holder, handedOver+m.Session))
	}
	if more := len(v.Holders) - mostNamed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// idle reports whether no client uses the lock, and there is nothing to tell of it but its token.
func (v *lockView) idle() bool {
	return v.State == string(lease.Free) && len(v.Queue) == 0 && v.LastRun == nil && (v.After == nil || v.After.Before(time.Now()))
}

// plainState returns the state, and what is known of the holder's process.
func (v *lockView) plainState() string {
	switch {
	case v.State == string(lease.Shared) && v.Slots > 0:
		return fmt.Sprintf("%d of %d slots", len(v.Holders), v.Slots)
	case v.State == string(lease.Free) && v.Slots > 0: // it cannot be taken as a lock
		return fmt.Sprintf("free (%d slots)", v.Slots)
	case v.State == string(lease.Shared):
		return fmt.Sprintf("shared by %d", len(v.Holders))
	case v.Expired == "certain":
		return "expired"
	case v.Expired != "":
		return "expired?"
	case v.State == "held" && v.Liveness != store.LivenessUnknown.String():
		return v.State + " (" + v.Liveness + ")"
	}
	if v.State == "free" && v.After != nil && v.After.After(time.Now()) {
		return "free after " + output.ShortTime(*v.After)
	}
	return v.State
}

// explained explains a state that is not plain.
func (v *lockView) explained() string {
	waited := v.watched.Round(time.Millisecond)
	switch {
	case v.Expired == "certain":
		return fmt.Sprintf("by the store's clock, the lease has expired: the next client takes the lock at once, or after it has watched the lock for %v", waited)
	case v.Expired != "":
		return fmt.Sprintf("if the clocks of the holder and of this machine agree, the lease has expired: other clients take the lock after they have watched it for %v", waited)
	case v.Liveness == "orphans" && len(v.Orphans) > 0:
		return fmt.Sprintf("the holder is dead, but processes that it started still run: %s", strings.Trim(fmt.Sprint(v.Orphans), "[]"))
	case v.Liveness == "orphans":
		return "the holder is dead, but processes that it started still run"
	case v.State == "broken" && (v.now || v.over):
		return "the lock was broken: the next client can take it"
	case v.State == "broken" && len(v.Holders) > 0:
		return "the lock was broken: other clients can take it when all holders have stopped, or their sessions have ended"
	case v.State == "broken" && v.Session != "":
		return "the lock was broken: the holder stops at the next renewal of its session, and frees the lock; without a renewal, other clients take the lock when the session has expired"
	case v.State == "broken":
		return fmt.Sprintf("the lock was broken: other clients can take it when the holder has stopped, at the latest after they have watched it for %v", waited)
	case v.State == "held" && v.over:
		return "the session of the holder has ended: the next client can take the lock"
	case v.State == "held" && v.Liveness == "dead":
		return "the holder is dead: the next client can take the lock"
	}
	return ""
}

// holdersOf names the holders of the lock of a record, as far as their sessions tell it soon.
func holdersOf(ctx context.Context, client *lease.Client, r lease.Record) string {
	if client == nil || len(r.Holders) == 0 && !strings.HasPrefix(r.Holder, handedOver) {
		return r.Holder
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), namesWithin)
	defer cancel()
	r.Queue = nil
	v := viewOf(client, lease.Info{Record: r}, "")
	all := v.Holders
	v.Holders = all[:min(mostNamed, len(all))]
	_ = underAll(ctx, client, &v) // else they are named by their sessions
	v.Holders = all
	return v.whose()
}

// namesWithin is how long a message waits for the names of holders, and mostNamed how many it
// names.
const (
	namesWithin = 2 * time.Second
	mostNamed   = 3
)

// since returns how long a lock has been in its state, by the clocks of its holder and of
// this machine.
func (v *lockView) since(now time.Time) string {
	at := v.Granted
	if v.State != "held" {
		at = v.Renewed
	}
	if len(v.Holders) > 0 && v.Holders[0].Since != nil {
		at = v.Holders[0].Since
	}
	if at == nil {
		return "-"
	}
	return output.Ago(now.Sub(*at))
}

func (a *app) showCommand() *cobra.Command {
	f := &leaseFlags{}
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show one lock",
		GroupID: cmdline.GroupLocks,
		Long: `Show one lock: its state, its token, and its present or last holder. show also computes when
other clients can take the lock. For this, show needs the same --max-clock-drift as the programs
that use the lock.

If no holder has ever taken the lock, or if "sweep" has removed its record, the status is 66.`,
		Example: `  holdfast show nightly
  holdfast show nightly --json | jq .token`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteStored(a.lockNames)),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), f, args[0])
		},
	}
	f.addClockDrift(cmd.Flags())
	return cmd
}

// areOf returns "1 is", or "2 are" with another number.
func areOf(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", max(0, n))
}

// line describes a member.
func (m *memberView) line() string {
	text := cmp.Or(m.Holder, "session "+m.Session)
	if m.Token == 0 {
		text += map[string]string{string(lease.ModeShared): ", wants to read", string(lease.ModeExclusive): ", wants the lock alone", string(lease.ModeCandidate): ", wants to lead"}[m.Mode]
	} else {
		text += fmt.Sprintf(", token %d", m.Token)
	}
	if m.Since != nil {
		text += ", for " + output.Ago(time.Since(*m.Since))
	}
	switch {
	case m.Expired != "":
		text += ", not renewed in time"
	case m.Liveness != "" && m.Liveness != store.LivenessUnknown.String():
		text += ", " + m.Liveness
	}
	return text
}

// line describes a request to yield. A holder under a session does not write that it has read it.
func (v *yieldRequestView) line(plain bool) string {
	text := "by " + v.By
	if v.At != nil {
		text += ", " + output.Ago(time.Since(*v.At)) + " ago"
	}
	switch {
	case v.Refusal != "":
		text += ", refused (" + v.Refusal + ")"
	case plain && !v.Acknowledged:
		text += ", the holder has not read it yet"
	}
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	return text
}

func (a *app) show(ctx context.Context, f *leaseFlags, name string) error {
	client, st, err := a.client(ctx, a.StoreURL, f)
	if err != nil {
		return err
	}
	defer clients{{client, st}}.close(ctx)
	v, err := inspect(ctx, client, st.Store, name, st.URL)
	if err != nil {
		return err
	}
	if err := underAll(ctx, client, &v); err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(v)
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 8, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", label, printable.Text(fmt.Sprintf(format, args...)))
	}
	line("name", "%s", v.Name)
	line("store", "%s", v.Store)
	line("state", "%s", v.shortState())
	if v.Error != "" {
		line("error", "%s", v.Error)
		return w.Flush()
	}
	if what := v.explained(); what != "" {
		line("", "%s", what)
	}
	line("token", "%d", v.Token)
	if len(v.Holders) == 0 {
		line("holder", "%s", v.Holder)
	}
	if v.Session != "" {
		line("session", "%s", v.Session)
	}
	if v.Slots > 0 {
		line("slots", "%d, of which %s free", v.Slots, areOf(v.Slots-len(v.Holders)))
	}
	for _, m := range v.Holders {
		label := "reader"
		if m.Mode == string(lease.ModeSlot) {
			label = fmt.Sprintf("slot %d", m.Slot)
		}
		line(label, "%s", m.line())
	}
	for i, m := range v.Queue {
		line(fmt.Sprintf("waits, %d.", i+1), "%s", m.line())
	}
	if v.Asked != nil && v.State != "free" {
		line("asked", "%s", v.Asked.line(v.Session == "" && len(v.Holders) == 0))
	}
	if v.Linger > 0 {
		line("kept", "the holder keeps the lock for %v after its work, unless a client asks for the lock", time.Duration(v.Linger)*time.Millisecond)
	}
	if v.Granted != nil {
		line("granted", "%s (%s ago)", v.Granted.Local().Format(time.RFC3339), output.Ago(time.Since(*v.Granted)))
	}
	if v.Renewed != nil {
		line("renewed", "%s (%s ago)", v.Renewed.Local().Format(time.RFC3339), output.Ago(time.Since(*v.Renewed)))
	}
	line("ttl", "%v", time.Duration(v.TTL)*time.Millisecond)
	if v.Expires != nil {
		unless := ", unless it is renewed"
		if v.State == "broken" && v.Session == "" {
			unless = ""
		}
		line("expires", "%s (%s)"+unless, v.Expires.Local().Format(time.RFC3339), output.Away(time.Until(*v.Expires)))
	}
	if v.After != nil {
		line("not before", "%s (%s)", v.After.Local().Format(time.RFC3339), output.Away(time.Until(*v.After)))
	}
	v.LastRun.lines(line)
	if v.Data != nil {
		line("data", "%s", *v.Data)
	}
	return w.Flush()
}

package leases

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/lockstate"
	"github.com/holdfast-go/holdfast/store"
)

// ShortState returns the state, what is known of the holder's process, and who wants the lock.
func (v *LockView) ShortState() string {
	state := v.PlainState()
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

// Whose returns who holds the lock, or held it last.
func (v *LockView) Whose() string {
	if len(v.Holders) == 0 {
		return v.Holder
	}
	var names []string
	for _, m := range v.Holders[:min(mostNamed, len(v.Holders))] {
		names = append(names, cmp.Or(m.Holder, lockstate.HandedOver+m.Session))
	}
	if more := len(v.Holders) - mostNamed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// Idle reports whether no client uses the lock, and there is nothing to tell of it but its token.
func (v *LockView) Idle() bool {
	return v.State == string(lease.Free) && len(v.Queue) == 0 && v.LastRun == nil && (v.After == nil || v.After.Before(time.Now()))
}

// PlainState returns the state, and what is known of the holder's process.
func (v *LockView) PlainState() string {
	if v.State == "free" && v.Slots == 0 && v.After != nil && v.After.After(time.Now()) {
		return "free after " + output.ShortTime(*v.After)
	}
	return lockstate.Facts{State: lease.State(v.State), Slots: v.Slots, Holders: len(v.Holders), Expired: v.Expired, Liveness: v.Liveness}.Words()
}

// Explained explains a state that is not plain.
func (v *LockView) Explained() string {
	waited := v.watched.Round(time.Millisecond)
	switch {
	case v.Expired == lockstate.Certain:
		return fmt.Sprintf("by the store's clock, the lease has expired: the next client takes the lock at once, or after it has watched the lock for %v", waited)
	case v.Expired != "":
		return fmt.Sprintf("if the clocks of the holder and of this machine agree, the lease has expired: other clients take the lock after they have watched it for %v", waited)
	case v.Liveness == "orphans" && len(v.Orphans) > 0:
		return fmt.Sprintf("the holder is dead, but processes that it started still run: %s", strings.Trim(fmt.Sprint(v.Orphans), "[]"))
	case v.Liveness == "orphans":
		return "the holder is dead, but processes that it started still run"
	case v.State == "broken":
		return "the lock was broken: " + v.afterBreak()
	case v.State == "held" && v.over:
		return "the session of the holder has ended: the next client can take the lock"
	case v.State == "held" && v.Liveness == "dead":
		return "the holder is dead: the next client can take the lock"
	}
	return ""
}

// AfterBreak says when other clients can take the lock of a record that is broken, or that a user may break.
func AfterBreak(client *lease.Client, r lease.Record) string {
	v := ViewOf(client, lease.Info{Record: r}, "")
	return v.afterBreak()
}

func (v *LockView) afterBreak() string {
	switch {
	case v.now || v.over:
		return "the next client can take it"
	case len(v.Holders) > 0:
		return "other clients can take it when all holders have stopped, or their sessions have ended"
	case v.Session != "":
		return "the holder stops at the next renewal of its session, and frees the lock; without a renewal, other clients take the lock when the session has expired"
	}
	return fmt.Sprintf("other clients can take it when the holder has stopped, at the latest after they have watched it for %v", v.watched.Round(time.Millisecond))
}

// HoldersOf names the holders of the lock of a record, as far as their sessions tell it soon.
func HoldersOf(ctx context.Context, client *lease.Client, r lease.Record) string {
	if client == nil || len(r.Holders) == 0 && !strings.HasPrefix(r.Holder, lockstate.HandedOver) {
		return r.Holder
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), namesWithin)
	defer cancel()
	r.Queue = nil
	v := ViewOf(client, lease.Info{Record: r}, "")
	all := v.Holders
	v.Holders = all[:min(mostNamed, len(all))]
	_ = UnderAll(ctx, client, &v) // else they are named by their sessions
	v.Holders = all
	return v.Whose()
}

// HolderOfSession names the holder of a session; empty if the record of the session does not tell it soon.
func HolderOfSession(ctx context.Context, client *lease.Client, id string) string {
	ctx, cancel := context.WithTimeout(ctx, namesWithin)
	defer cancel()
	info, _ := client.InspectSession(ctx, id) // after an error it is empty
	return info.Record.Holder
}

// namesWithin is how long a message waits for the names of holders, and mostNamed how many it
// names.
const (
	namesWithin = 2 * time.Second
	mostNamed   = 3
)

// Since returns how long a lock has been in its state, by the clocks of its holder and of
// this machine.
func (v *LockView) Since(now time.Time) string {
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

// AreOf returns "1 is", or "2 are" with another number.
func AreOf(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", max(0, n))
}

// Line describes a member.
func (m *MemberView) Line() string {
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

// Line describes a request to yield. A holder under a session does not write that it has read it.
func (v *YieldRequestView) Line(plain bool) string {
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

// StateText returns the state of a lock as it is in the record, for people.
func (v *LockView) StateText() string {
	state := v.State
	switch {
	case v.State == string(lease.Shared):
		state = v.PlainState()
	case v.Slots > 0:
		state += fmt.Sprintf(" (%d slots)", v.Slots)
	}
	if v.Asked != nil && v.State != "free" {
		state += ", asked by " + printable.Text(v.Asked.By)
		if v.Asked.Refusal != "" {
			state += " (refused)"
		}
	}
	if n := len(v.Queue); n > 0 {
		state += fmt.Sprintf(", queue of %d", n)
	}
	return state
}

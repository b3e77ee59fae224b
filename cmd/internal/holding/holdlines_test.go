package holding

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// TestLinesLostBeforeReported: a lock that is given up while it is being taken, and is lost before
// it was ever reported as held, ends as a lost one.
func TestLinesLostBeforeReported(t *testing.T) {
	t.Parallel()
	client, err := lease.New(memstore.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.OpenSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(t.Context())
	guard, err := session.TryAcquire(t.Context(), "job", nil)
	if err == nil {
		_, err = client.Break(t.Context(), "job", guard.Token(), &lease.BreakOptions{Immediate: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	<-guard.Context().Done()
	var out bytes.Buffer
	h := &lineHolder{ctx: t.Context(), session: session, out: output.NewQueue(&out, maxUnread), claims: map[string]*claim{}}
	c := &claim{id: "a", lock: "job", command: "acquire", releasing: true, cancel: func(error) {}}
	h.free(c, guard)
	if err := h.out.Flush(time.Minute); err != nil {
		t.Fatal(err)
	}
	var line holdLine
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Event != "lost" || line.ID != "a" || line.Kind != exit.Kinds[exit.Lost] {
		t.Errorf("it is told: %s (%v)", out.Bytes(), err)
	}
}

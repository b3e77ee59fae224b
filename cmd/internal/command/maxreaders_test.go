package command

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestReadersAboveTheBound: a lock has 500 readers. One more gets an error at once, by hold --commands,
// run and hold, whether it waits or not, and has not entered; neither has a writer in line. When a
// reader has left, another one enters.
func TestReadersAboveTheBound(t *testing.T) {
	dir := t.TempDir()
	ownState(t, dir)
	path := filepath.Join(dir, "store")
	t.Setenv("HOLDFAST_STORE", "file:"+path)
	st, err := filestore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	client, err := lease.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(t.Context())
	session, err := client.OpenSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reader, err := session.TryAcquire(t.Context(), "doc", &lease.LockOptions{Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, st, "lock/doc")
	const full = `no room for another holder: the lock has 500 holders and waiters`
	h := holdLines(t, dir)
	h.next()
	for i, line := range []string{`"command":"try","shared":true`, `"command":"acquire","shared":true`, `"command":"acquire","shared":true,"wait_ms":60000`, `"command":"acquire","fair":true`} {
		h.say(fmt.Sprintf(`{"id":"%d","lock":"doc",%s}`, i, line))
		h.want(holdLine{Event: "failed", ID: fmt.Sprint(i), Error: full})
	}
	for _, line := range []string{"run doc --shared -- true", "run doc --shared -n -- true", "run doc --fair -- true", "lead doc --fair -- true"} {
		if said, status := executed(strings.Fields(line)); status != exit.Busy || !strings.Contains(said, full) {
			t.Errorf("%s: status %d: %s", line, status, said)
		}
	}
	if info, err := client.Inspect(t.Context(), "doc"); err != nil || len(info.Record.Holders) != lease.MaxMembers || len(info.Record.Queue) != 0 {
		t.Errorf("%d holders, %d in line (%v)", len(info.Record.Holders), len(info.Record.Queue), err)
	}
	if err := reader.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.say(`{"command":"try","id":"last","lock":"doc","shared":true}`)
	h.want(holdLine{Event: "held", ID: "last"})
	h.in.Close()
	h.want(holdLine{Event: "released", ID: "last"}, holdLine{Event: "closed"})
	h.end(exit.OK)
	if err := session.Close(t.Context()); err != nil {
		t.Error(err)
	}
	allFree(t, dir, "doc")
}

// fill adds holders to the record of a lock, which has one, until it has as many as it can have.
// They are under the session of that one.
func fill(t *testing.T, st store.Store, key string) {
	t.Helper()
	value, version, err := st.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var record struct{ Holders []json.RawMessage }
	if err := json.Unmarshal(value, &record); err != nil || len(record.Holders) != 1 {
		t.Fatalf("%s (%v)", value, err)
	}
	one := string(record.Holders[0]) // ["SESSION.NUMBER","r",...
	session, rest, _ := strings.Cut(one, ".")
	_, rest, found := strings.Cut(rest, `"`)
	if !found {
		t.Fatal(one)
	}
	all := one
	for i := range lease.MaxMembers - 1 {
		all += fmt.Sprintf(`,%s.%x"%s`, session, 1000+i, rest)
	}
	if _, err := st.Put(t.Context(), key, version, []byte(strings.Replace(string(value), one, all, 1))); err != nil {
		t.Fatal(err)
	}
}

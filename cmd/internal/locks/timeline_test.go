package locks

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/picture"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// rows returns the bars of a picture, by lock: without spaces at their ends.
func rows(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, bars, found := strings.Cut(line, "│"); found {
			all[strings.TrimSpace(name)] += strings.TrimSpace(bars)
		}
	}
	return all
}

// A holder that dies, its successor, a release, a break and a damaged record are in the picture, and in the file.
func TestTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		st := &memstore.Store{}
		client := func(holder string) *lease.Client {
			c, err := lease.New(st, &lease.Options{Holder: holder, TTL: ttl, Tuning: lease.Tuning{RenewInterval: 3 * time.Second}, ManualRenewal: holder == "dead"})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		watcher, dead, bob := client("watcher"), client("dead"), client("bob\x1b[2J")
		path := filepath.Join(t.TempDir(), "out.svg")
		file, err := cmdline.OpenReplaced("--svg", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a check has made the file: %v", err)
		}
		c := &canvas{since: 10 * time.Minute, began: time.Now(), notes: map[string]string{}, file: file, title: "title"}
		a := &access{}
		ctx, stop := context.WithCancel(t.Context())
		if _, err := dead.TryAcquire(ctx, "job", nil); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- a.live(ctx, watcher, "", time.Second, c) }()
		time.Sleep(time.Second)

		guard, err := bob.Acquire(ctx, "job", nil)
		if err != nil {
			t.Fatal(err)
		}
		other, err := bob.TryAcquire(ctx, "other", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := guard.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := watcher.Break(ctx, "other", other.Token(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Put(ctx, "lock/damaged", "", []byte("no record")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		text := c.text(0)
		got := rows(text)
		if !strings.HasPrefix(got["job"], "A━") || !strings.Contains(got["job"], "!B━") || strings.HasSuffix(got["job"], "B━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━") {
			t.Errorf("job is %q", got["job"])
		}
		if !strings.HasPrefix(got["other"], "B━") || !strings.HasSuffix(got["other"], "#") {
			t.Errorf("other is %q", got["other"])
		}
		for _, want := range []string{"A dead", `B bob\x1b[2J`, "! taken over", "# broken", `lock "damaged"`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		svg, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(svg, []byte(`bob\x1b[2J`)) || !bytes.Contains(svg, []byte("broken")) {
			t.Errorf("the file has %d bytes (%v)", len(svg), err)
		}
		file.Close()
		for _, c := range []*lease.Client{watcher, dead, bob} {
			_ = c.Close(t.Context())
		}
	})
}

// With --from-history, watch draws the history of each lock, and names the locks whose history it cannot read.
func TestTimelineOfHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := lease.New(&memstore.Store{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"jobs/a", "jobs/b", "jobs/bad", "other"} {
			guard, err := client.TryAcquire(t.Context(), name, nil)
			if err == nil {
				err = guard.Release(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		now := time.Now()
		a := &access{readHistory: func(_ context.Context, _ *lease.Client, name string) ([]entry, error) {
			ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
			entries := []entry{
				{Time: ago(120), Kind: "begun"},
				{Time: ago(120), Kind: "granted", Token: 1, Holder: "long ago"},
				{Time: ago(50), Kind: "released", Token: 1, Holder: "long ago"},
				{Time: ago(30), Kind: "granted", Token: 4, Holder: "ada", Missing: 2},
				{Time: ago(20), Kind: "yield requested", Token: 4, By: "eve"},
				{Time: ago(10), Kind: "taken over", Token: 4, Holder: "ada", By: "bob", Reason: "dead"},
				{Time: ago(10), Kind: "granted", Token: 5, Holder: "bob"},
			}
			if name == "jobs/bad" {
				return entries[:2], errors.New("the history of jobs/bad is damaged")
			}
			return entries, nil
		}}
		c := &canvas{since: time.Hour, began: now.Add(-time.Hour), notes: map[string]string{}}
		if err := a.past(t.Context(), client, "jobs", c); err != nil {
			t.Fatal(err)
		}
		text := c.text(0)
		got := rows(text)
		if len(got) != 3 || got["jobs/a"] != got["jobs/b"] || !strings.HasPrefix(got["jobs/a"], "A━") || !strings.Contains(got["jobs/a"], "~") || !strings.Contains(got["jobs/a"], "B━") || !strings.Contains(got["jobs/a"], "!C━") || !strings.Contains(got["jobs/a"], "?") || !strings.HasPrefix(got["jobs/bad"], "A━━━━") {
			t.Errorf("got\n%s", text)
		}
		if !strings.Contains(text, "the history of jobs/bad is damaged") {
			t.Errorf("no note in\n%s", text)
		}

		// What a watch did not see is in the history.
		events := []picture.Event{{Lock: "jobs/a", Kind: picture.Changed, Token: 5}, {Lock: "jobs/a", Kind: picture.Changed, Token: 4}, {Lock: "jobs/a", Kind: picture.Changed, Token: 77}}
		a.explain(t.Context(), client, events)
		if events[0].Kind != picture.TakenOver || events[0].Reason != "dead" || events[1].Kind != picture.Granted || events[2].Kind != picture.Changed {
			t.Errorf("got %+v", events)
		}
		_ = client.Close(t.Context())
	})
}

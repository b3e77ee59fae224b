package locks

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
		st := &memstore.Store{}
		client := func(holder string) *lease.Client {
			c, err := lease.New(st, &lease.Options{Holder: holder, TTL: 10 * time.Minute, History: true, ManualRenewal: holder == "dead"})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		ada, dead, bob := client("ada"), client("dead"), client("bob")
		guard, err := ada.TryAcquire(t.Context(), "jobs/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if err := guard.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if _, err := dead.TryAcquire(t.Context(), "jobs/a", nil); err != nil {
			t.Fatal(err)
		}
		taken, err := bob.Acquire(t.Context(), "jobs/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Put(t.Context(), "lock/jobs/bad", "", []byte("no record")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		c := &canvas{since: time.Hour, began: time.Now().Add(-time.Hour), notes: map[string]string{}}
		if err := past(t.Context(), ada, "jobs", c); err != nil {
			t.Fatal(err)
		}
		text := c.text(0)
		got := rows(text)
		if len(got) != 1 || !strings.HasPrefix(got["jobs/a"], "A━━━━━━━━━━━━━") || !strings.Contains(got["jobs/a"], " B━━━━━━━━━━━") || !strings.Contains(got["jobs/a"], "━!C━") {
			t.Errorf("got\n%s", text)
		}
		if !strings.Contains(text, `lock "jobs/bad"`) {
			t.Errorf("no note in\n%s", text)
		}

		// What a watch did not see is in the history.
		events := []picture.Event{{Lock: "jobs/a", Kind: picture.Changed, Token: taken.Token()}, {Lock: "jobs/a", Kind: picture.Changed, Token: guard.Token()}, {Lock: "jobs/a", Kind: picture.Changed, Token: 77}}
		explain(t.Context(), ada, events)
		if events[0].Kind != picture.TakenOver || events[0].Reason == "" || events[1].Kind != picture.Granted || events[2].Kind != picture.Changed {
			t.Errorf("got %+v", events)
		}
		for _, c := range []*lease.Client{ada, dead, bob} {
			_ = c.Close(t.Context())
		}
	})
}

// Each kind of entry has its event. Entries that are missing are events, too.
func TestEventsOfHistory(t *testing.T) {
	var got []string
	for _, e := range eventsOf("job", []lease.HistoryEntry{
		{Kind: lease.HistoryBegun},
		{Kind: lease.HistoryGranted, Token: 1, Holder: "a"},
		{Kind: lease.HistoryTakenOver, Token: 1, Holder: "a", By: "b", Reason: "dead"},
		{Kind: lease.HistoryGranted, Token: 2, Holder: "b"},
		{Kind: lease.HistoryYieldRequested, Token: 2, Holder: "b", By: "c"},
		{Kind: lease.HistoryYieldRefused, Token: 2},
		{Kind: lease.HistoryBroken, Token: 2, By: "c"},
		{Kind: lease.HistoryEntered, Token: 3, Slot: 1, Holder: "d", Missing: 4},
		{Kind: lease.HistoryEntered, Token: 3, Slot: 2, Holder: "e"},
		{Kind: lease.HistoryLeft, Token: 3, Slot: 1, Holder: "d"},
		{Kind: lease.HistoryLost, Token: 3, Slot: 2, Holder: "e"},
		{Kind: lease.HistoryResized, Slot: 5},
		{Kind: lease.HistoryUnrecorded},
		{Kind: lease.HistoryTakenOver, Token: 9, Holder: "f", By: "g"},
		{Kind: lease.HistoryEntered, Token: 9, Holder: "g"},
		{Kind: lease.HistoryTakenOver, Token: 9, Holder: "g", By: "h"},
	}) {
		got = append(got, strings.TrimRight(strings.Join([]string{string(e.Kind), e.Grant, e.By, e.Reason}, ","), ","))
	}
	want := []string{
		"granted,1 0 a", "taken over,2 0 b,,dead", "asked,2 0 b,c", "broken,2 0 ,c", "missing", "entered,3 1 d", "entered,3 2 e",
		"released,3 1 d", "lost,3 2 e", "missing", "lost,9 0 f,g", "entered,9 0 g", "lost,9 0 g,h",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

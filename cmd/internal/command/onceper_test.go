package command

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// A run by a clock that was ahead is reported with status 78, by whom and how to take it back, and
// that line works.
func TestRunOfAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	path := filepath.Join(p.dir, "store")
	store := "file:" + path
	p.must(t, store, "run", "job", "--once-per", "day", "--holder", "machine 1", "--", "true")
	st, err := filestore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	value, version, err := st.Get(t.Context(), "lock/job")
	if err != nil {
		t.Fatal(err)
	}
	ahead := regexp.MustCompile(`"(began|until)":"20`).ReplaceAll(value, []byte(`"$1":"21`))
	if _, err := st.Put(t.Context(), "lock/job", version, ahead); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := p.run(t, store, "run", "job", "--once-per", "day", "--", "false")
	_, line, found := strings.Cut(strings.TrimSpace(stderr), "to let the job run now: holdfast ")
	if status != exit.Unsafe || !strings.Contains(stderr, "machine 1") || !found {
		t.Fatalf("status %d, %s", status, stderr)
	}
	if out := p.must(t, store, "show", "job"); !strings.Contains(out, "in 36") {
		t.Errorf("show says %s", out)
	}
	if out := p.must(t, store, "ls"); !strings.Contains(out, "succeeded, ") {
		t.Errorf("ls says %s", out)
	}
	p.must(t, store, strings.Fields(line)...)
	p.must(t, store, "run", "job", "--once-per", "day", "--", "true")
}

// A period that there is not gets an error that says what to write.
func TestWrongPeriod(t *testing.T) {
	p := newPlace(t)
	for text, want := range map[string]string{"1d": `Did you mean "day"?`, "day Zurich": `Did you mean "day Europe/Zurich"?`, "day Local": "another zone on each machine"} {
		_, stderr, status := p.run(t, "file:"+filepath.Join(p.dir, "store"), "run", "job", "--once-per", text, "--", "true")
		if status != exit.Usage || !strings.Contains(stderr, want) {
			t.Errorf("--once-per %q: status %d, %s", text, status, stderr)
		}
	}
}

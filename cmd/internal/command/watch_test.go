package command

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// A name that watch refuses is an error on stderr, and never a line on stdout as well,
// whichever of its goroutines comes first. A watch whose goroutines race prints that line in
// one of some thousand runs.
func TestWatchOfAWrongName(t *testing.T) {
	dir := t.TempDir()
	ownState(t, dir)
	dir = filepath.Join(dir, "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 16 { // at the same time, so that threads get their turns in all orders
		wg.Go(func() {
			for range 200 {
				var out, errs strings.Builder
				status := execute([]string{"--store", "file:" + dir, "watch", strings.Repeat("x", 4096)}, strings.NewReader(""), &out, &errs)
				if status != exit.Usage || out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 {
					t.Errorf("status %d, stdout %.80q, stderr %.80q", status, out.String(), errs.String())
					return
				}
			}
		})
	}
	wg.Wait()
}

package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/internal/safefile"
)

const (
	// Dir is the prefix of the registers and objects of all examinations.
	Dir = ".holdfast/doctor"

	// dirPrefix begins the names of the directories of all examinations.
	dirPrefix = ".holdfast-doctor-"
)

// Sweeper removes the test data of killed examinations that began before the given time, and returns how
// many such items there were. Call [trial.Sweep] first: it removes the registers below [Dir] that the
// store can list.
type Sweeper func(ctx context.Context, before time.Time, dryRun bool) (n int, err error)

// sweep removes the directories of killed examinations. Only what this user alone
// could enter is removed.
func (p *directory) sweep(_ context.Context, before time.Time, dryRun bool) (n int, err error) {
	root, err := os.OpenRoot(p.root)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer root.Close()
	const atMost = 1 << 20
	var names []string
	err = safefile.EachName(root, ".", atMost, func(name string) {
		if rest, ok := strings.CutPrefix(name, dirPrefix); ok && trial.Old(Dir+"/"+rest+"/", Dir, before) {
			names = append(names, name)
		}
	})
	for _, name := range names {
		own, openErr := safefile.OpenPrivate(root, name)
		if openErr != nil {
			continue // it is not ours, or another process has removed it
		}
		n++
		if !dryRun {
			err = errors.Join(err, removeAllIn(own), root.Remove(name))
		}
		own.Close()
	}
	return n, err
}

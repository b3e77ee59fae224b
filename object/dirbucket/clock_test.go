package dirbucket_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// TestClock: a bucket that one machine uses returns the time, so that the age of an object is
// known; one that other machines may use does not, since each has its own clock.
func TestClock(t *testing.T) {
	local, err := dirbucket.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	network, err := dirbucket.Open(t.TempDir(), &dirbucket.Options{AllowNetwork: true})
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	shared, err := dirbucket.New(t.TempDir(), memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		b    object.Bucket
		told bool
	}{{"local", local, true}, {"network", network, false}, {"own index", shared, false}} {
		put, err := c.b.Put(t.Context(), "a", strings.NewReader("x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		stat, err := c.b.Stat(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		infos := []object.Info{put, stat}
		for info, err := range c.b.List(t.Context(), "", nil) {
			if err != nil {
				t.Fatal(err)
			}
			infos = append(infos, info)
		}
		for i, info := range infos {
			age := info.Now.Sub(info.Modified)
			if told := !info.Now.IsZero(); told != c.told || told && (age < 0 || age > time.Minute) {
				t.Errorf("%s %d: modified %v, now %v", c.name, i, info.Modified, info.Now)
			}
		}
	}
}

package s3verstore_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/compat/s3verstore"
)

// TestGolden: entries that were written once are read for ever.
func TestGolden(t *testing.T) {
	write, err := s3verstore.Written("app/lock/nightly", "DEF567", "ABC234", 17, "ABC234", 16, 42, 5*time.Second, []byte(`{"state":"held","token":42}`))
	if err != nil {
		t.Fatal(err)
	}
	deletion, err := s3verstore.Written("k", "GHI", "", 1, "", 0, 0, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	confirmation, err := s3verstore.Confirmed("app/lock/nightly", "JKL", "DEF567", 17, 42, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{"write": write, "deletion": deletion, "confirmation": confirmation} {
		want, err := os.ReadFile("testdata/" + name + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: wrote\n%s\nwant\n%s", name, got, want)
		}
		again, err := s3verstore.Recode(want)
		if err != nil || !bytes.Equal(again, want) {
			t.Errorf("%s: read as\n%s, %v\nwant\n%s", name, again, err, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := s3verstore.Written("k", "DEF", "ABC", 3, "ABC", 2, 0, time.Second, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"nothing":            "",
		"foreign":            "hello\n",
		"cut":                string(good[:len(good)-3]),
		"changed":            strings.Replace(string(good), "ABC", "ABD", 1),
		"twice":              string(good) + string(good),
		"with more":          string(good) + "more\n",
		"the other's":        "job-6b8b4567-327b-43c6-9b9e-0d8e3f0e1a2b",
		"only the second":    string(good[bytes.LastIndex(good, []byte("\nV")):]),
		"a body of megabyte": strings.Repeat("x", 1<<20),
	} {
		if got, err := s3verstore.Recode([]byte(body)); err == nil {
			t.Errorf("%s was read as\n%s", name, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"write", "deletion", "confirmation"} {
		body, err := os.ReadFile("testdata/" + name + ".golden")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		once, err := s3verstore.Recode(body)
		if err != nil {
			return
		}
		twice, err := s3verstore.Recode(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%q becomes %q, which becomes %q, %v", body, once, twice, err)
		}
	})
}

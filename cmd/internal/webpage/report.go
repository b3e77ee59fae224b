package webpage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/observe/dashboard"
)

// maxReport is the largest report that is read, in bytes.
const maxReport = 4 << 20

// report is what item sweep and item verify print with --json.
type report struct {
	DryRun   *bool    `json:"dry_run"` // only of sweep
	Complete bool     `json:"complete"`
	Seen     int64    `json:"scanned"`
	Removed  int64    `json:"removed"`
	Failed   int64    `json:"failed"`
	Failures []string `json:"failures"`

	Items      *int64 `json:"items"` // only of verify
	References int64  `json:"references"`
	Missing    int64  `json:"missing"`
	Damaged    int64  `json:"damaged"`
	Foreign    int64  `json:"foreign"`
	Unreadable int64  `json:"unreadable"`
	Problems   []struct {
		Kind  string          `json:"kind"`
		Key   json.RawMessage `json:"key"`
		Attr  string          `json:"attr"`
		URI   string          `json:"uri"`
		Error string          `json:"error"`
	} `json:"problems"`
}

func readReport(path string) (t dashboard.PanelTable, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return t, err
	}
	if !info.Mode().IsRegular() {
		return t, errors.New("the report is not an ordinary file")
	}
	f, err := os.Open(path)
	if err != nil {
		return t, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxReport))
	if err != nil {
		return t, err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return t, fmt.Errorf("the report is not the output of --json: %w", err)
	}
	state := "complete"
	if !r.Complete {
		state = "interrupted"
	}
	at := info.ModTime().UTC().Format(time.DateTime) + " UTC"
	switch {
	case r.DryRun != nil:
		verb := "removed"
		if *r.DryRun {
			verb = "would be removed"
		}
		t.Note = fmt.Sprintf("Sweep of %s, %s: %d of %d objects %s, %d failed.", at, state, r.Removed, r.Seen, verb, r.Failed)
		t.Head = []string{"Failure"}
		for _, failure := range r.Failures {
			t.Rows = append(t.Rows, []string{failure})
		}
	case r.Items != nil:
		t.Note = fmt.Sprintf("Verification of %s, %s: %d references of %d items; %d objects are missing, %d damaged, %d foreign, %d unreadable.", at, state, r.References, *r.Items, r.Missing, r.Damaged, r.Foreign, r.Unreadable)
		t.Head = []string{"Problem", "Item", "Attribute", "Object", "Reason"}
		for _, p := range r.Problems {
			t.Rows = append(t.Rows, []string{p.Kind, string(p.Key), p.Attr, p.URI, p.Error})
		}
	default:
		return t, errors.New("the report is neither of item sweep --json nor of item verify --json")
	}
	return t, nil
}

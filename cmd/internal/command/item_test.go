package command

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// cmdAged makes all objects of a bucket in a directory older: aged DIR DURATION.
func cmdAged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: aged DIR DURATION")
	}
	by, err := time.ParseDuration(args[1])
	ts.Check(err)
	index, err := filestore.Open(filepath.Join(ts.MkAbs(args[0]), "index"), nil)
	ts.Check(err)
	defer index.Close()
	ctx := context.Background()
	for key, err := range store.List(ctx, index, "") {
		ts.Check(err)
		value, version, err := index.Get(ctx, key)
		ts.Check(err)
		var entry map[string]any
		ts.Check(json.Unmarshal(value, &entry))
		modified, err := time.Parse(time.RFC3339Nano, entry["modified"].(string))
		ts.Check(err)
		entry["modified"] = modified.Add(-by)
		value, err = json.Marshal(entry)
		ts.Check(err)
		_, err = index.Put(ctx, key, version, value)
		ts.Check(err)
	}
}

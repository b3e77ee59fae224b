package jsontest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "replace the golden files")

// Golden compares values, as JSON, with the files of their names in testdata/golden.
func Golden(t *testing.T, values map[string]any) {
	t.Helper()
	for name, v := range values {
		var got bytes.Buffer
		enc := json.NewEncoder(&got)
		enc.SetIndent("", "  ")
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", "golden", name+".json")
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: printed\n%s\nwant\n%s", name, got.Bytes(), want)
		}
	}
}

// GoldenFits checks golden files against definitions of the schema of locks: file to definition.
func GoldenFits(t *testing.T, files map[string]string) {
	t.Helper()
	s := LocksSchema(t)
	for file, def := range files {
		text, err := os.ReadFile(filepath.Join("testdata", "golden", file+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(def, text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		// Control: the same with another field.
		if err := s.Check(def, bytes.Replace(text, []byte("{"), []byte(`{"stranger": 1,`), 1)); err == nil {
			t.Errorf("%s: it fits with an unknown field", file)
		}
	}
}

package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

// TestSchemes walks the table of the kinds of stores: help, completion and messages list each kind,
// and each command that opens a store reaches the parser of its URLs.
func TestSchemes(t *testing.T) {
	table, err := filepath.Abs("../../../docs/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	ownState(t, t.TempDir())
	said := func(args ...string) string {
		var out bytes.Buffer
		execute(args, strings.NewReader(""), &out, &out)
		return out.String()
	}
	help, objectHelp := said("help", "stores"), said("help", "object-urls")
	storeStarts, objectStarts := said("__completeNoDesc", "ls", "--store", ""), said("__completeNoDesc", "get", "")
	unknown := said("--store", "nosuch://x", "ls")
	noObject, noTable := said("get", "dynamodb://x/y", "-"), said("item", "ls", "--bucket", "file:b", "--table", "s3://x")
	page, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, s := range stores.Schemes() {
		// The table of the page has the order of the help. It has no row for rediss.
		if row := strings.Index(string(page), "| `"+s.Begins()); row >= 0 && row < last || row < 0 && s.Name != "rediss" {
			t.Errorf("%s has another place in docs/stores.md, or none", s.Name)
		} else if row >= 0 {
			last = row
		}
		if !strings.Contains(help, "  "+s.Form+" ") || !strings.Contains(help, "\n  "+s.Name+":") {
			t.Errorf("holdfast help stores does not explain %s", s.Form)
		}
		for place, text := range map[string]string{"the completion of --store": storeStarts, "the message on an unknown kind": unknown} {
			if !strings.Contains(text, s.Begins()) {
				t.Errorf("%s lacks %s: %s", place, s.Begins(), text)
			}
		}
		if offered := strings.Contains("\n"+objectStarts, "\n"+s.Begins()+"\n"); offered != (s.ObjectForm != "") || !strings.Contains(objectHelp, s.ObjectForm) || !strings.Contains(noObject, s.ObjectForm) {
			t.Errorf("%s: objects in completion, help or message: %s%s", s.Name, objectStarts, noObject)
		}
		if !strings.Contains(noTable, s.TableForm) {
			t.Errorf("the message on tables lacks %s: %s", s.TableForm, noTable)
		}
		// Each kind knows its parameters, and refuses this one.
		url := s.Begins() + "place/x?nosuch=1"
		for _, command := range []string{"ls", "init", "doctor", "bench"} {
			if text := said("--store", url, command); !strings.Contains(text, "nosuch") {
				t.Errorf("%s on %s: %s", command, url, text)
			}
		}
		if text := said("item", "init", "--table", url); strings.Contains(text, "cannot keep items") != (s.TableForm == "") {
			t.Errorf("item init on %s: %s", url, text)
		}
		if text := said("get", url, "-"); strings.Contains(text, "cannot store objects") != (s.ObjectForm == "") {
			t.Errorf("get of %s: %s", url, text)
		}
	}
}

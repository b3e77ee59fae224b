package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestSchemes walks the table of the kinds of stores: help, completion and messages list each kind,
// and each command that opens a store reaches the parser of its URLs.
func TestSchemes(t *testing.T) {
	t.Chdir(t.TempDir())
	ownState(t, t.TempDir())
	said := func(args ...string) string {
		var out bytes.Buffer
		execute(args, strings.NewReader(""), &out, &out)
		return out.String()
	}
	help, objectHelp := said("help", "stores"), said("help", "object-urls")
	stores, objects := said("__completeNoDesc", "ls", "--store", ""), said("__completeNoDesc", "get", "")
	unknown := said("--store", "nosuch://x", "ls")
	noObject, noTable := said("get", "dynamodb://x/y", "-"), said("item", "ls", "--bucket", "file:b", "--table", "s3://x")
	for _, s := range schemes() {
		if s.what == "" || s.parameters == "" || s.open == nil || (s.openBucket == nil) != (s.objectForm == "") || (s.tables == nil) != (s.tableForm == "") {
			t.Errorf("%s: the scheme is not complete: %+v", s.name, s)
		}
		if !strings.Contains(help, "  "+s.form+" ") || !strings.Contains(help, "\n  "+s.name+":") {
			t.Errorf("holdfast help stores does not explain %s", s.form)
		}
		for place, text := range map[string]string{"the completion of --store": stores, "the message on an unknown kind": unknown} {
			if !strings.Contains(text, s.begins()) {
				t.Errorf("%s lacks %s: %s", place, s.begins(), text)
			}
		}
		if offered := strings.Contains("\n"+objects, "\n"+s.begins()+"\n"); offered != (s.openBucket != nil) || !strings.Contains(objectHelp, s.objectForm) || !strings.Contains(noObject, s.objectForm) {
			t.Errorf("%s: objects in completion, help or message: %s%s", s.name, objects, noObject)
		}
		if !strings.Contains(noTable, s.tableForm) {
			t.Errorf("the message on tables lacks %s: %s", s.tableForm, noTable)
		}
		// Each kind knows its parameters, and refuses this one.
		url := s.begins() + "place/x?nosuch=1"
		for _, command := range []string{"ls", "init", "doctor", "bench"} {
			if text := said("--store", url, command); !strings.Contains(text, "nosuch") {
				t.Errorf("%s on %s: %s", command, url, text)
			}
		}
		if text := said("item", "init", "--table", url); strings.Contains(text, "cannot keep items") != (s.tables == nil) {
			t.Errorf("item init on %s: %s", url, text)
		}
		if text := said("get", url, "-"); strings.Contains(text, "cannot store objects") != (s.openBucket == nil) {
			t.Errorf("get of %s: %s", url, text)
		}
	}
}

//go:build unix

package main

import (
	"bytes"
	"encoding/xml"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// story returns the lines of the story that a picture shows, without its times and tokens, and the elements that the
// picture has.
func story(t *testing.T, svg []byte) (lines []string, elements map[string]bool) {
	t.Helper()
	var file struct {
		Desc string `xml:"desc"`
	}
	if err := xml.Unmarshal(svg, &file); err != nil {
		t.Fatal(err)
	}
	varies := regexp.MustCompile(`…\d+|\d+ ms|\d+\.\d s`)
	for line := range strings.Lines(file.Desc) {
		lines = append(lines, varies.ReplaceAllString(strings.TrimSpace(line), "N"))
	}
	elements = map[string]bool{}
	for _, name := range regexp.MustCompile(`<(\w+)`).FindAllSubmatch(svg, -1) {
		elements[string(name[1])] = true
	}
	return lines, elements
}

// The recording in the documentation is of the story that the command plays today.
func TestRecording(t *testing.T) {
	kept, err := os.ReadFile("../../../docs/takeover.svg")
	if err != nil {
		t.Fatal(err)
	}
	svg, err := record(t.Context(), t.TempDir(), 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := story(t, svg)
	want, elements := story(t, kept)
	if !slices.Equal(got, want) || len(got) != 14 {
		t.Errorf("the command plays\n%s\nand docs/takeover.svg has\n%s\n(go run ./proof/integration/recording > docs/takeover.svg records it anew)", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, sign := range []string{"SIGSTOP", "kill -9", ">!<", ">%<"} {
		if !bytes.Contains(svg, []byte(sign)) || !bytes.Contains(kept, []byte(sign)) {
			t.Errorf("no %q in the picture", sign)
		}
	}
	for name := range elements {
		if !strings.Contains(" svg title desc style rect text path g ", " "+name+" ") {
			t.Errorf("docs/takeover.svg has an element %s", name)
		}
	}
	if len(kept) > 20_000 {
		t.Errorf("docs/takeover.svg has %d bytes", len(kept))
	}
}

package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// writeManPages writes a man page for each command to a directory. It is in a test because
// users of the command do not need it.
func writeManPages(dir string, date time.Time) error {
	a := &app{}
	a.root = a.command()
	a.root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Title: "HOLDFAST", Section: "1", Source: "holdfast " + version, Manual: "Holdfast", Date: &date}
	if err := doc.GenManTree(a.root, header, dir); err != nil {
		return err
	}
	// Topics, which are no commands, are in other sections.
	for _, cmd := range a.root.Commands() {
		section := cmd.Annotations["section"]
		if section == "" {
			continue
		}
		var page bytes.Buffer
		own := *header
		own.Section = section
		if err := doc.GenMan(cmd, &own, &page); err != nil {
			return err
		}
		text := strings.ReplaceAll(page.String(), "holdfast-config", "holdfast.conf")
		if err := os.WriteFile(filepath.Join(dir, topicPage(cmd)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// topicPage is the file of a page that is no command's.
func topicPage(cmd *cobra.Command) string {
	name := "holdfast-" + cmd.Name()
	if cmd.Name() == "config" {
		name = "holdfast.conf"
	}
	return name + "." + cmd.Annotations["section"]
}

// TestMakeManPages makes those of a release, where internal/release.sh says where to,
// and checks otherwise that they can be made.
func TestMakeManPages(t *testing.T) {
	dir, ok := os.LookupEnv("HOLDFAST_MAN_PAGES")
	if !ok {
		dir = t.TempDir()
	}
	// The date is that of the release, so that they are the same each time.
	var seconds int64
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		var err error
		if seconds, err = strconv.ParseInt(epoch, 10, 64); err != nil {
			t.Fatalf("SOURCE_DATE_EPOCH is no Unix time: %v", err)
		}
	}
	if err := writeManPages(dir, time.Unix(seconds, 0).UTC()); err != nil {
		t.Fatal(err)
	}
}

// A man page for each command, the same each time, with what the help says.
func TestManPages(t *testing.T) {
	date := time.Unix(1795000000, 0).UTC()
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		if err := writeManPages(dir, date); err != nil {
			t.Fatal(err)
		}
	}
	a := &app{}
	for _, cmd := range a.command().Commands() {
		section := cmd.Annotations["section"]
		if section == "" {
			continue
		}
		page, err := os.ReadFile(filepath.Join(dirs[0], topicPage(cmd)))
		if err != nil || !strings.Contains(string(page), `.TH "HOLDFAST" "`+section+`"`) || !strings.Contains(string(page), "holdfast") {
			t.Errorf("%s: %v\n%s", topicPage(cmd), err, page)
		}
	}
	everyCommand(func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dirs[0], name))
		if err != nil {
			t.Error(err)
			return
		}
		again, err := os.ReadFile(filepath.Join(dirs[1], name))
		if err != nil || !bytes.Equal(page, again) {
			t.Errorf("%s differs from run to run (%v)", name, err)
		}
		for _, part := range []string{`.TH "HOLDFAST" "1" "Nov 2026"`, ".SH NAME", ".SH EXAMPLE"} {
			if !strings.Contains(string(page), part) {
				t.Errorf("%s: no %s", name, part)
			}
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(string(page), strings.ReplaceAll(f.Name, "-", `-`)) {
				t.Errorf("%s: nothing of --%s", name, f.Name)
			}
		})
	})
}

//go:build linux

package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
)

// On a terminal a long transfer shows how far it is; in a pipe it shows nothing. A large
// object is not printed on a terminal unless that is asked for.
func TestTransferShowsItsProgress(t *testing.T) {
	p := newPlace(t)
	store, stand := serveS3(t, nil)
	large := filepath.Join(p.dir, "large")
	if err := os.WriteFile(large, make([]byte, 12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := p.run(t, "", "put", large, store); status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	stand.Add("GetObject", 1, -1, awstest.Fault{Before: 2 * time.Second})
	term := onTerminal(t, p.dir, p.bin, "get", store, "copy")
	term.expect(`\d+%`)
	if err := term.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if same, err := exec.Command("cmp", large, filepath.Join(p.dir, "copy")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, same)
	}
	term = onTerminal(t, p.dir, p.bin, "get", store)
	term.expect(strings.ReplaceAll("standard output is a terminal", " ", `\s+`))
}

// On a terminal doctor shows each step, and leaves a line for each that took long; in a pipe it
// says at the beginning that it takes long where every write waits.
func TestDoctorShowsItsSteps(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	store, _ := serveS3(t, func(s *awstest.S3) { s.Versioning = "Enabled" })
	store = strings.Replace(store, "s3://", "s3+versioned://", 1) + "&put_lifetime=3s" // also with the race detector on a busy machine
	term := onTerminal(t, p.dir, "env", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", p.bin, "--store", store, "doctor")
	term.expect(`every write on this store includes a pause`)
	term.expect(`testing settings of the bucket \.\.\.`)
	term.expect(`testing \d+ more rules of a register at once \.\.\.`)
	term.expect(`tested \d+ more rules of a register at once \(\d+s\)\r?\n`)
	term.expect(`leases are safe on this store`)
	if err := term.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
)

// A renewal dies after its write, before it updates the handle. It leaves a handle that can
// still renew; the handle before it cannot.
func TestRenewalThatDiesLeavesAGoodHandle(t *testing.T) {
	for name, announced := range map[string]bool{"announced": true, "control: not announced": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("HOME", dir)
			t.Setenv("HOLDFAST_STORE", "file:"+filepath.Join(dir, "store"))
			path := filepath.Join(dir, "h.json")
			run := func(args ...string) (int, string) {
				var out, errs bytes.Buffer
				status := execute(args, nil, &out, &errs)
				return status, errs.String()
			}
			if status, out := run("lock", "job", "--handle", path); status != 0 {
				t.Fatal(out)
			}
			a := &app{Invocation: cmdline.Invocation{Access: stores.Access{Printer: output.Printer{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}}}}
			a.Opener = leases.Opener{Invocation: &a.Invocation}
			place, err := existingHandle(path)
			if err != nil {
				t.Fatal(err)
			}
			f, client, err := a.use(t.Context(), place, "")
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.RenewTicket(t.Context(), *f.Ticket, func(ticket lease.Ticket) error {
				if !announced {
					return nil
				}
				f.Ticket = &ticket
				return place.replace(f)
			})
			if err != nil {
				t.Fatal(err)
			}
			leases.Clients{client}.Close(t.Context()) // it ends here
			place.close()
			want := exit.OK
			if !announced {
				want = exit.Lost
			}
			for _, command := range []string{"renew", "unlock"} {
				if status, out := run(command, path); status != want {
					t.Errorf("%s: status %d, want %d: %s", command, status, want, out)
				}
			}
		})
	}
}

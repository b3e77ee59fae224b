package holding

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

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
			was := stores.RootState
			t.Cleanup(func() { stores.RootState = was })
			stores.RootState = filepath.Join(dir, "holdfast")
			t.Setenv("XDG_STATE_HOME", dir)
			path := filepath.Join(dir, "h.json")
			in := &cmdline.Invocation{Access: stores.Access{Drivers: stores.Drivers{"file": stores.FileDriver()}, Printer: output.Printer{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, StoreURL: "file:" + filepath.Join(dir, "store")}}
			run := func(args ...string) error {
				root := &cobra.Command{Use: "holdfast", SilenceErrors: true, SilenceUsage: true}
				root.AddGroup(&cobra.Group{ID: cmdline.GroupLocks})
				for _, command := range Commands(in) {
					root.AddCommand(command())
				}
				root.SetArgs(args)
				return root.ExecuteContext(t.Context())
			}
			if err := run("lock", "job", "--handle", path); err != nil {
				t.Fatal(err)
			}
			a := &access{leases.Opener{Invocation: in}}
			if err := a.use(t.Context(), path, "", func(place *handleDir, f *handleFile, client *lease.Client) error {
				_, err := client.RenewTicket(t.Context(), *f.Ticket, func(ticket lease.Ticket) error {
					if !announced {
						return nil
					}
					f.Ticket = &ticket
					return place.replace(f)
				})
				return err // it ends here
			}); err != nil {
				t.Fatal(err)
			}
			want := exit.OK
			if !announced {
				want = exit.Lost
			}
			for _, command := range []string{"renew", "unlock"} {
				if err := run(command, path); exit.Status(err) != want {
					t.Errorf("%s: %v, want status %d", command, err, want)
				}
			}
		})
	}
}

package objects

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/store"
)

// reservationView is a reservation as it is printed with --json. Its fields are stable.
type reservationView struct {
	Table      string     `json:"table"`
	Key        string     `json:"key"`
	Version    string     `json:"version"` // empty: that there is no object
	Generation uint64     `json:"generation"`
	Since      *time.Time `json:"since,omitempty"`
	TimeoutMS  int64      `json:"timeout_ms"`
	State      string     `json:"state"` // live, released or expired
	WriteID    string     `json:"write_id,omitempty"`
}

func (a *access) printReservation(table string, s reserve.Reservation) error {
	v := reservationView{
		Table: table, Key: s.Key, Version: string(s.Version), Generation: s.Generation,
		TimeoutMS: s.Timeout.Milliseconds(), State: "expired", WriteID: s.Nonce, Since: printable.Time(s.Since.UTC()),
	}
	switch {
	case s.Live:
		v.State = "live"
	case s.Timeout == 0:
		v.State = "released"
	}
	since := "-"
	if v.Since != nil {
		since = v.Since.Format(time.RFC3339)
	}
	return a.PrintLine(v, fmt.Sprintf("%s\t%d\t%s\t%s\t%s", v.State, v.Generation, since, printable.Text(cmp.Or(v.Version, "*")), printable.Text(v.Key)))
}

func (a *access) objectReservations() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "reservations URL",
		Short: "List the reservations that writers have made in a bucket",
		Long: `List the reservations of writers. The URL of the bucket names the table (reserve=,
conditional_put= or copy_if_not_exists=). If the URL has a path, reservations lists only keys
that begin with this path.

Each line has the state, generation, start, reserved version and key, separated by tabs. The
version * means that there is no object. While a reservation is live, other writers wait.
--all also lists released and expired reservations that are still in the table.

The command computes the start from the TTL of the row and from reserve_ttl in the URL. If the
writer used another reserve_ttl, the start is wrong. The command needs the right dynamodb:Scan on
the table.`,
		Example: `  holdfast object reservations 's3://data?conditional_put=dynamo:locks:20000'
  holdfast object reservations 's3://data/orders/?reserve=dynamodb://locks' --all --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := a.ParseObject(args[0], false)
			if err != nil {
				return err
			}
			ctx, stop := cmdline.UntilInterrupted(cmd.Context())
			defer stop()
			r, err := at.Reservations(ctx, &a.Access)
			if err != nil {
				return err
			}
			if r == nil {
				return exit.Usagef("the URL %s does not name a table of reservations: add reserve=dynamodb://TABLE or conditional_put=dynamo:TABLE", at)
			}
			defer r.Close()
			var bad error
			for s, err := range r.List(ctx) {
				switch {
				case errors.Is(err, store.ErrCorrupt):
					bad = err
					a.Warnf("%v", err)
				case err != nil:
					return cmdline.StoppedBy(ctx, err)
				case strings.HasPrefix(s.Key, at.Key) && (s.Live || all):
					if err := a.printReservation(r.Name, s); err != nil {
						return err
					}
				}
			}
			return bad
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also list reservations that were released or have expired")
	return cmd
}

package awsdoctor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/compat/reservation"
	"github.com/holdfast-go/holdfast/store"
)

// ReservingIn adds checks of a table in which writers of objects make reservations. If the caller sets
// documented, the documentation of the service promises the conditions, and doctor does not test them. If
// the table is unsafe, the verdict is NotSafe, although leases do not need the table.
func ReservingIn(t *doctor.Target, table *reservation.Table, documented bool) *doctor.Target {
	before := t.Steps
	t.Steps = func(e *doctor.Examination) []doctor.Step {
		return append(before(e), doctor.Step{ID: "reservations", What: "the table of reservations", Needed: false, Run: func(ctx context.Context) []doctor.Check {
			checks := (&reservations{e, table, documented}).look(ctx)
			for i := range checks {
				checks[i].Objects = true
			}
			return checks
		}})
	}
	return t
}

// reservations is what is examined of a table of reservations.
type reservations struct {
	e          *doctor.Examination
	table      *reservation.Table
	documented bool
}

const needKeys = "path (HASH, S) and etag (RANGE, S) are needed: name another table, which holdfast init creates with that URL"

func (p *reservations) look(ctx context.Context) []doctor.Check {
	c := doctor.Finding("reservations-keys", "reservations: keys of the table", false)
	t, err := p.table.Describe(ctx)
	var checks []doctor.Check
	switch {
	case errors.Is(err, store.ErrDenied):
		checks = c.As(doctor.NotTested, doctor.Reason(err), "needs the right dynamodb:DescribeTable; if it is a global table, writers of two regions may not exclude each other")
	case errors.Is(err, store.ErrMisconfigured):
		return c.Unsafe(doctor.Reason(err), "writers cannot make reservations")
	case err != nil:
		return p.e.Failed(c, err)
	case !t.KeysValid:
		return c.Unsafe("they are "+t.Keys, needKeys)
	default:
		checks = slices.Concat(c.OK("path and etag, as needed"), p.ttl(t),
			global(doctor.Finding("reservations-global", "reservations: global table", false), t.Replicas, t.StronglyConsistent, "writers of two regions do not exclude each other: let all writers use one region, or a table with strong consistency between regions"))
	}
	return append(checks, p.conditions(ctx)...)
}

func (p *reservations) ttl(t reservation.Description) []doctor.Check {
	c := doctor.Finding("reservations-ttl", "reservations: rows removed by TTL", false)
	switch {
	case errors.Is(t.TTLErr, store.ErrDenied):
		return c.As(doctor.NotTested, doctor.Reason(t.TTLErr), "needs the right dynamodb:DescribeTimeToLive")
	case t.TTLErr != nil:
		return c.As(doctor.NotTested, t.TTLErr.Error(), "")
	case t.TTL == "":
		return c.Warn("off", "rows of old reservations remain in the table for ever: call holdfast init with this URL; DynamoDB then removes rows by the attribute ttl")
	case t.TTL != "ttl":
		return c.Warn(fmt.Sprintf("by the attribute %q", t.TTL), `rows of reservations need the attribute "ttl", or they remain in the table for ever: turn off the present TTL attribute, and call holdfast init`)
	}
	return c.OK("by the attribute ttl")
}

func (p *reservations) conditions(ctx context.Context) []doctor.Check {
	c := doctor.Finding("reservations-conditions", "reservations: conditions", false)
	if p.documented {
		return c.As(doctor.NotTested, "Amazon DynamoDB documents them", "")
	}
	err := p.table.Verify(ctx)
	switch {
	case err == nil:
		return c.OK("honoured")
	case errors.Is(err, store.ErrUnsafe):
		return c.Unsafe(err.Error(), "two writers could overwrite each other; Holdfast refuses writes under reservations")
	case errors.Is(err, store.ErrMisconfigured):
		return c.Unsafe(err.Error(), "writers cannot make reservations")
	case errors.Is(err, store.ErrDenied):
		return c.As(doctor.NotTested, doctor.Reason(err), "needs the right dynamodb:PutItem: without this right, writers can make no reservation")
	}
	return p.e.Failed(c, err)
}

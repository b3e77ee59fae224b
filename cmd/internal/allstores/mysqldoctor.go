package allstores

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/drivers/sqldialect"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sqlstore"
)

// mysqlTarget first examines the settings of the server.
func mysqlTarget(ctx context.Context, a *stores.Access, u *url.URL) (*doctor.Target, func(), error) {
	d, err := databases((*database).mysql).at(u, false, maxMessage)
	if err != nil {
		return nil, nil, err
	}
	st, err := a.OpenURL(ctx, u.String())
	if err != nil {
		d.db.Close()
		return nil, nil, err
	}
	target := doctor.Registers(st.URL, st.Store)
	target.Kind = "mysql"
	target.Steps = func(*doctor.Examination) []doctor.Step {
		return []doctor.Step{{ID: "settings", What: "settings of the server", Needed: true, Run: d.settings}}
	}
	return target, func() { st.Close(); d.db.Close() }, nil
}

// settings says which settings of the server decide whether commits can be lost. If the store refuses a
// setting, it ends the examination, since each further check would say the same.
func (d *database) settings(ctx context.Context) []doctor.Check {
	c := doctor.Finding("settings", "settings of the server", true)
	rules, _ := sqldialect.Of(string(d.dialect))
	rules.Hide = d.opts.Hide
	err := rules.Explain(rules.Check(ctx, d.db, cmp.Or(d.opts.Table, "holdfast"), sqlstore.FenceTable), "create the tables with holdfast init")
	switch {
	case errors.Is(err, store.ErrUnsafe), errors.Is(err, store.ErrMisconfigured):
		c.Last = true
		return c.Unsafe(err.Error(), "Holdfast refuses leases here")
	case err != nil:
		return c.As(doctor.NotTested, err.Error(), "")
	}
	var found []string
	for _, name := range []string{"innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog", "read_only"} {
		var value string
		if err := d.db.QueryRowContext(ctx, "SHOW VARIABLES WHERE Variable_name = '"+name+"'").Scan(new(string), &value); err != nil {
			return c.As(doctor.NotTested, rules.Explain(err, "").Error(), "")
		}
		found = append(found, name+"="+value)
	}
	list := strings.Join(found, ", ")
	rows, err := d.db.QueryContext(ctx, "SHOW REPLICA STATUS")
	if err != nil {
		return c.Warn(list+"; this user may not see whether the server is a replica", "a write to a replica can be lost; to test this, grant REPLICA MONITOR (MySQL: REPLICATION CLIENT)")
	}
	defer rows.Close()
	if rows.Next() {
		return c.Warn(list+"; the server was set up as a replica, and does not run as one", "if it becomes a replica again, Holdfast refuses it")
	}
	return c.OK("%s; not a replica", list)
}

package allstores

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/etcd/etcdstore"
)

// openEtcd opens etcd://HOST:PORT/PREFIX; see [etcdstore.Open] for its parameters.
func openEtcd(ctx context.Context, a *stores.Access, u *url.URL, _ bool) (stores.Opened, error) {
	config, _, err := etcdstore.FromURL(u.String(), nil)
	if err != nil {
		return stores.Opened{}, err
	}
	if config.Password != "" {
		plain := slices.DeleteFunc(config.Endpoints, func(endpoint string) bool { return !strings.HasPrefix(endpoint, "http://") })
		warnOfPlainText(a, plain, "the connection to etcd is not encrypted, and other machines of the network could read the password: add cacert=FILE or tls=true to the store's URL")
	}
	return opened(etcdstore.Open(ctx, u.String(), &etcdstore.Options{Logger: a.Log()}))
}

func etcdTarget(ctx context.Context, a *stores.Access, u *url.URL) (*doctor.Target, func(), error) {
	step := doctor.Step{ID: "cluster", What: "the cluster"}
	return examine(ctx, a, u, openEtcd, "etcd", step, doctor.Finding(step.ID, step.What, false), func(found etcdstore.Description) []doctor.Check {
		return slices.Concat(etcdAlarms(found), etcdMembers(found), etcdSizes(found), etcdSyncs())
	})
}

func etcdAlarms(found etcdstore.Description) []doctor.Check {
	c := doctor.Finding("alarms", "alarms of the cluster", false)
	switch {
	case found.AlarmsErr != nil:
		return c.As(doctor.NotTested, found.AlarmsErr.Error(), "type etcdctl alarm list as root")
	case slices.Contains(found.Alarms, "CORRUPT"):
		return c.Unsafe("CORRUPT", "the members have different data: replace the damaged member")
	case len(found.Alarms) > 0:
		return c.Unsafe(strings.Join(found.Alarms, ", "), "etcd refuses each write: compact and defragment the database, then type etcdctl alarm disarm")
	}
	return c.OK("none")
}

func etcdMembers(found etcdstore.Description) []doctor.Check {
	c := doctor.Finding("members", "members of the cluster", false)
	for _, m := range found.Members {
		switch {
		case m.Err != nil:
			return c.Warn(fmt.Sprintf("%s did not answer: %v", m.Endpoint, m.Err), "if more members fail, no lock can be taken")
		case m.Learner:
			return c.Warn(m.Endpoint+" is a learner", "it answers no request of a lock: remove it from the URL, or promote it")
		}
	}
	switch {
	case found.Voters == 1:
		return c.Warn("one", "while this member does not run, no lock can be taken or renewed; three members tolerate the loss of one")
	case found.Voters > len(found.Members):
		return c.Warn(fmt.Sprintf("%d, and the URL names %d of them", found.Voters, len(found.Members)), "if the named members fail, programs cannot use the others: name all members, separated by commas")
	}
	return c.OK("%d, and all answer", found.Voters)
}

// etcdSizes compares the sizes of the databases with the quota.
func etcdSizes(found etcdstore.Description) []doctor.Check {
	const mib, byDefault = 1 << 20, 2 << 30
	c := doctor.Finding("quota", "space in the database", false)
	for _, m := range found.Members {
		quota, from := m.Quota, ""
		if quota <= 0 {
			quota, from = byDefault, " (the default; this server does not report its quota)"
		}
		if m.Size > quota/10*8 {
			return c.Warn(fmt.Sprintf("%s uses %d MiB of %d MiB%s", m.Endpoint, m.Size/mib, quota/mib, from), "a full database refuses each write: turn automatic compaction on, and defragment")
		}
	}
	return c.OK("each member uses less than 80 %% of its quota")
}

// etcdSyncs says what no client can find out.
func etcdSyncs() []doctor.Check {
	return doctor.Finding("fsync", "writes that survive a power cut", false).As(doctor.NotTested,
		"a client cannot see whether a member runs with --unsafe-no-fsync", "with this option, a power cut can lose locks and checkpoints: look at the command lines of the members")
}

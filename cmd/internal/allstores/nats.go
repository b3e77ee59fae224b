package allstores

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/nats/natsstore"
)

// openNATS opens nats://HOST:PORT/BUCKET/PREFIX; see [natsstore.Open] for its parameters.
func openNATS(ctx context.Context, a *stores.Access, u *url.URL, _ bool) (stores.Opened, error) {
	t, err := natsstore.FromURL(u.String(), nil)
	if err != nil {
		return stores.Opened{}, err
	}
	if t.Secret && !t.Encrypted {
		warnOfPlainText(a, t.Servers, "the store's URL does not demand an encrypted connection to NATS, and other machines of the network could read the password: add cacert=FILE or tls=true")
	}
	return opened(natsstore.Open(ctx, u.String(), &natsstore.Options{Logger: a.Log()}))
}

// initNATS creates the bucket.
func initNATS(ctx context.Context, a *stores.Access, raw string) (map[string]any, error) {
	u, err := a.ParseStore(raw)
	if err != nil {
		return nil, err
	}
	t, err := natsstore.FromURL(u.String(), nil)
	if err != nil {
		return nil, err
	}
	conn, err := t.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := natsstore.CreateBucket(ctx, conn, t.Bucket, &t.Options); err != nil {
		return nil, err
	}
	return a.Usable(ctx, raw, true)
}

func natsTarget(ctx context.Context, a *stores.Access, u *url.URL) (*doctor.Target, func(), error) {
	c := doctor.Finding("bucket", "settings of the bucket", true)
	step := doctor.Step{ID: c.ID, What: "the bucket", Needed: true}
	return examine(ctx, a, u, openNATS, "nats", step, c, func(found natsstore.Description) []doctor.Check {
		return slices.Concat(natsSettings(c, found), natsReplicas(found), natsWakes(found), natsSyncs(found))
	})
}

func natsSettings(c doctor.Check, found natsstore.Description) []doctor.Check {
	if len(found.Unsafe) > 0 {
		return c.Unsafe(strings.Join(found.Unsafe, ", "), "the bucket can lose locks, so Holdfast refuses it: use a bucket that holdfast init creates")
	}
	return c.OK("in files, without limits that remove messages")
}

func natsReplicas(found natsstore.Description) []doctor.Check {
	c := doctor.Finding("replicas", "replicas of the bucket", false)
	switch {
	case found.Replicas < 3:
		return c.Warn(fmt.Sprint(found.Replicas), "while its server does not run, no lock can be taken or renewed; three replicas tolerate the loss of one")
	case len(found.Behind) > 0:
		return c.Warn("offline or behind: "+strings.Join(found.Behind, ", "), "if more replicas fail, no lock can be taken")
	}
	return c.OK("%d, all up to date; %s leads", found.Replicas, found.Leader)
}

func natsWakes(found natsstore.Description) []doctor.Check {
	c := doctor.Finding("wakes", "waiters hear of changes", false)
	if !found.Wakes {
		return c.Warn("the bucket does not repeat its messages", "waiters read every two seconds: a bucket that holdfast init creates wakes them at once")
	}
	return c.OK("yes")
}

// natsSyncs says what no client can find out.
func natsSyncs(found natsstore.Description) []doctor.Check {
	loses := "if the server loses its power"
	if found.Replicas > 1 {
		loses = "if all replicas lose their power at the same time"
	}
	means := loses + ", the locks, tokens and checkpoints of the last two minutes are lost, and a second program can get a lock that is held; set sync_interval: always in the configuration of each server. This warning does not change the exit status"
	return doctor.Finding("fsync", "writes that survive a power cut", false).Warn("not known: a client cannot see sync_interval, and its default is two minutes", means)
}

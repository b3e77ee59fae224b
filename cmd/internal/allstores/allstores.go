// Package allstores has the drivers of all kinds of stores, with the libraries that they need. It has a
// file for each kind.
package allstores

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/etcd/etcdstore"
	"github.com/holdfast-go/holdfast/kubernetes/kubestore"
	"github.com/holdfast-go/holdfast/nats/natsstore"
	"github.com/holdfast-go/holdfast/redis/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// Drivers returns the drivers of all kinds of stores.
func Drivers() stores.Drivers {
	redis := &stores.Driver{Open: openRedis, Doctor: redisTarget}
	mysql := sqlDriver((*database).mysql)
	mysql.Doctor = mysqlTarget
	return stores.Drivers{
		"file":            stores.FileDriver(),
		"sqlite":          sqlDriver((*database).sqlite),
		"postgres":        sqlDriver((*database).postgres),
		"mysql":           mysql,
		"etcd":            {Open: openEtcd, Doctor: etcdTarget},
		"k8s":             {Open: openKubernetes, Doctor: kubernetesTarget},
		"nats":            {Open: openNATS, Init: initNATS, Doctor: natsTarget},
		"redis":           redis,
		"rediss":          redis,
		"s3":              {Open: openS3, Init: initS3, Doctor: s3Target, NoteVerdict: noteS3, OpenBucket: openS3Bucket, Reservations: untried},
		s3verstore.Scheme: {Open: openVersioned, Init: initVersions, Doctor: versionedTarget},
		"dynamodb":        {Open: openDynamo, Init: initDynamo, Doctor: dynamoTarget, NoteVerdict: noteVerdict, Tables: dynamoItems{}},
		// It remembers no tests of conditions: Google's service needs none.
		"gs":     {Open: openGCS, Doctor: gcsTarget, OpenBucket: openGCSBucket},
		"azblob": {Open: openAzblob, Init: initAzblob, Doctor: azblobTarget, OpenBucket: openAzblobBucket},
	}
}

// opened returns what the Open function of a store returned. Some stores need no closing.
func opened[S store.Store](st S, err error) (stores.Opened, error) {
	if err != nil {
		return stores.Opened{}, err
	}
	closer, ok := store.Store(st).(io.Closer)
	if !ok {
		closer = io.NopCloser(nil)
	}
	return stores.Opened{Store: st, Closer: closer, URL: store.TraitsOf(st).Name}, nil
}

// warnOfPlainText warns if one of the hosts is not this machine. A password goes to them unencrypted.
func warnOfPlainText(a *stores.Access, addresses []string, warning string) {
	for _, address := range addresses {
		if _, after, found := strings.Cut(address, "://"); found {
			address = after
		}
		if host, _, _ := net.SplitHostPort(address); !thisMachine(host) {
			a.Log().Warn(warning, "host", host)
			return
		}
	}
}

// describer is a store whose server describes itself.
type describer[D any] interface {
	store.Store
	Describe(ctx context.Context) (D, error)
}

var (
	_ describer[etcdstore.Description] = (*etcdstore.Store)(nil)
	_ describer[kubestore.Description] = (*kubestore.Store)(nil)
	_ describer[natsstore.Description] = (*natsstore.Store)(nil)
	_ describer[[]redisstore.Server]   = (*redisstore.Store)(nil)
)

// opener is the function [stores.Driver.Open].
type opener func(ctx context.Context, a *stores.Access, u *url.URL, standard bool) (stores.Opened, error)

// examine returns the target for a store whose server describes itself. Its first step makes the checks of the
// description, or fails as the given check.
func examine[D any](ctx context.Context, a *stores.Access, u *url.URL, open opener, kind string, step doctor.Step, failed doctor.Check, checks func(D) []doctor.Check) (*doctor.Target, func(), error) {
	st, err := open(ctx, a, u, false)
	if err != nil {
		return nil, nil, err
	}
	target := doctor.Registers(st.URL, st.Store)
	target.Kind = kind
	target.Steps = func(e *doctor.Examination) []doctor.Step {
		step.Run = func(ctx context.Context) []doctor.Check {
			found, err := st.Store.(describer[D]).Describe(ctx)
			if err != nil {
				return e.Failed(failed, err)
			}
			return checks(found)
		}
		return []doctor.Step{step}
	}
	return target, func() { st.Close() }, nil
}

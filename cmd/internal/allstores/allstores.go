// Package allstores has the drivers of all kinds of stores, with the libraries that they need. It has a
// file for each kind.
package allstores

import (
	"io"

	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/store"
)

// Drivers returns the drivers of all kinds of stores.
func Drivers() stores.Drivers {
	redis := &stores.Driver{Open: openRedis, Doctor: redisTarget}
	return stores.Drivers{
		"file":            stores.FileDriver(),
		"sqlite":          sqlDriver((*database).sqlite),
		"postgres":        sqlDriver((*database).postgres),
		"mysql":           mysqlDriver(),
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

// remote returns what the Open function of a store returned: the store needs no closing.
func remote[S store.Store](st S, err error) (stores.Opened, error) {
	if err != nil {
		return stores.Opened{}, err
	}
	return stores.Opened{Store: st, Closer: io.NopCloser(nil), URL: store.TraitsOf(st).Name}, nil
}

// connected is remote for a store that has to be closed.
func connected[S interface {
	store.Store
	io.Closer
}](st S, err error) (stores.Opened, error) {
	opened, err := remote(st, err)
	if err == nil {
		opened.Closer = st
	}
	return opened, err
}

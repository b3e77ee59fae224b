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
	return stores.Drivers{
		"file":            stores.FileDriver(),
		"sqlite":          sqlDriver((*database).sqlite),
		"postgres":        sqlDriver((*database).postgres),
		"mysql":           mysqlDriver(),
		"etcd":            etcdDriver(),
		"k8s":             kubernetesDriver(),
		"nats":            natsDriver(),
		"redis":           redisDriver(),
		"rediss":          redisDriver(),
		"s3":              s3Driver(),
		s3verstore.Scheme: versionedDriver(),
		"dynamodb":        dynamoDriver(),
		"gs":              gcsDriver(),
		"azblob":          azblobDriver(),
	}
}

// remote is a store that needs no closing.
func remote(st store.Store) stores.Opened {
	return stores.Opened{Store: st, Closer: io.NopCloser(nil), URL: store.TraitsOf(st).Name}
}

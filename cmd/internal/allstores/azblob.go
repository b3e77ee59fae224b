package allstores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/azure/azblobbucket"
	"github.com/holdfast-go/holdfast/azure/azblobstore"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// openAzblob opens azblob://ACCOUNT/CONTAINER/PREFIX; see [azblobbucket.Config] for its parameters. A server other
// than Azure is tested by each command that writes.
func openAzblob(ctx context.Context, a *stores.Access, u *url.URL, _ bool) (stores.Opened, error) {
	return opened(azblobstore.Open(ctx, u.String(), &azblobstore.Options{Logger: a.Log()}))
}

// initAzblob creates the container. It first reads the store as every command does, so that it reports the same
// errors.
func initAzblob(ctx context.Context, a *stores.Access, raw string) (map[string]any, error) {
	result, err := a.Usable(ctx, raw, true)
	var failed *azblobbucket.Error
	if err == nil || !errors.As(err, &failed) || failed.Code != "ContainerNotFound" {
		return result, err
	}
	b, _, err := azblobbucket.Open(ctx, raw, &azblobbucket.Options{Logger: a.Log()})
	if err != nil {
		return nil, err
	}
	if _, err := b.Create(ctx); err != nil {
		return nil, fmt.Errorf("create the container: %w", err)
	}
	return a.Usable(ctx, raw, true)
}

// openAzblobBucket opens azblob://ACCOUNT/CONTAINER/KEY.
func openAzblobBucket(ctx context.Context, a *stores.Access, u *stores.ObjectURL) (stores.Bucket, error) {
	b, _, err := azblobbucket.Open(ctx, u.Bucket.String(), &azblobbucket.Options{Logger: a.Log()})
	if err != nil {
		return stores.Bucket{}, err
	}
	client, err := object.New(b, &object.Options{Logger: a.Log()})
	return stores.Bucket{Closer: io.NopCloser(nil), URL: "azblob://" + u.Bucket.Host + u.Bucket.Path, ETags: true, Client: client}, err
}

// azblobTarget tests the registers as they are, and reads the settings of the container.
func azblobTarget(ctx context.Context, a *stores.Access, u *url.URL) (*doctor.Target, func(), error) {
	c, err := azblobbucket.ParseURL(u.String())
	if err != nil {
		return nil, nil, err
	}
	b, err := c.Open(&azblobbucket.Options{Logger: a.Log()})
	if err != nil {
		return nil, nil, err
	}
	// Trusted: what the server does is to be seen.
	st, err := azblobstore.New(b, c.Prefix, &azblobstore.Options{Trusted: true, Logger: a.Log()})
	if err != nil {
		return nil, nil, err
	}
	target := doctor.Registers(store.TraitsOf(st).Name, st)
	target.Kind = "azblob"
	target.Steps = func(e *doctor.Examination) []doctor.Step {
		return []doctor.Step{{ID: "settings", What: "settings of the container", Run: func(ctx context.Context) []doctor.Check { return azblobSettings(ctx, e, b) }}}
	}
	target.Right = func(op string) string {
		return map[string]string{
			"get": "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read", "list": "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read",
			"put": "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write", "delete": "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/delete",
		}[op]
	}
	return target, func() {}, nil
}

func azblobSettings(ctx context.Context, e *doctor.Examination, b *azblobbucket.Bucket) []doctor.Check {
	immutable := doctor.Finding("immutable", "immutability policy and legal hold", true)
	history := doctor.Finding("history", "versions and soft delete", false)
	geo := doctor.Finding("redundancy", "redundancy of the account", false)
	names := doctor.Finding("names", "names of blobs", false)
	s, err := b.Settings(ctx)
	if err != nil {
		immutable.Needed = false // the registers show whether writes work
		return e.Failed(immutable, err)
	}
	if s.Immutable {
		return immutable.Unsafe("the container has one of them", "Holdfast cannot overwrite blobs, so programs can take no lock: use another container")
	}
	checks := immutable.OK("none")
	var kept []string
	if s.KeepsVersions {
		kept = append(kept, "versions")
	}
	if s.SoftDelete {
		kept = append(kept, "soft delete")
	}
	if len(kept) > 0 {
		checks = append(checks, history.Warn("on: "+strings.Join(kept, " and "), "the service keeps each overwritten body, and each lock that is held makes 8,640 of them a day: use an account without this setting, or a lifecycle rule that removes previous versions below the prefix")...)
	} else {
		checks = append(checks, history.OK("off")...)
	}
	switch {
	case s.SKU == "":
		checks = append(checks, geo.As(doctor.NotTested, "the rights do not allow to read it", "if the account is geo-redundant (GRS, GZRS), see docs/stores.md")...)
	case s.GeoRedundant():
		checks = append(checks, geo.Warn(s.SKU, "a failover to the other region loses the last writes: after a failover, wait for the longest TTL before programs continue")...)
	default:
		checks = append(checks, geo.OK("%s", s.SKU)...)
	}
	if s.Hierarchical {
		return append(checks, names.Warn("hierarchical namespace", "the objects a and a/b cannot both exist; locks and checkpoints have no such pairs")...)
	}
	return append(checks, names.OK("no hierarchical namespace was reported")...)
}

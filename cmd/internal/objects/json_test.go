package objects

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/jsontest"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/object"
)

// The JSON that programs read stays as it is.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	stored := object.Info{
		Key: "a b", Version: "17.NONCE", Size: 1 << 40, Modified: at, ContentType: "text/plain",
		Headers:   object.Headers{CacheControl: "no-cache", ContentDisposition: "inline", ContentEncoding: "gzip", ContentLanguage: "en"},
		Metadata:  map[string]string{"job": "nightly"},
		WriteInfo: object.WriteInfo{ID: "W", Fence: &object.Fence{Lock: "deploy", Token: 9}},
	}
	stat := objectViewOf(stores.Bucket{URL: "s3://bucket"}, stored)
	stat.Conditions = []conditionView{{Ability: "put_if_absent", Strategy: "reservation", Native: true}, {Ability: "copy", Strategy: "none", Reason: "why"}}
	stat.ConditionsUnknown, stat.Reservations = "why", "dynamodb://table"
	jsontest.Golden(t, map[string]any{
		"object":  objectViewOf(stores.Bucket{URL: "file:/srv/shared"}, stored),
		"stat":    stat,
		"removed": removedView{URL: "file:/srv/shared/a%20b", Key: "a b"},
		"entry":   viewEntry("file:/srv/shared/commits", object.LogEntry{Number: 17, ID: "W", Modified: at, Body: []byte("text")}, true),
		"binary":  viewEntry("file:/srv/shared/commits", object.LogEntry{Number: 17, ID: "W", Modified: at, Body: []byte{0xff, 0}}, true),
		"trimmed": trimmedView{Log: "file:/srv/shared/commits", First: 18},
		"swept": sweptView{
			Bucket: "s3://bucket", Uploads: []uploadView{{Key: "big", ID: "U1", Started: at}}, Young: 1, Failed: 2, Bodies: 3,
		},
	})
}

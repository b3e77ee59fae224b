package dynamotable_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
)

// TestSweepOnAWS: how many requests a sweep sends to S3 and DynamoDB.
func TestSweepOnAWS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, f := awstest.NewDynamoDB(), awstest.NewS3("bucket")
		table := newTable(t, d, shapes["text and number"])
		b, err := s3bucket.New(f.Client(), "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
		if err != nil {
			t.Fatal(err)
		}
		s, err := largeitem.New(table, b, &largeitem.Options{Prefix: "p", BaseURI: "s3://bucket"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1500 {
			key, err := largeitem.NewKey(fmt.Sprint("pk", i/10), i%10)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Create(t.Context(), key, nil, largeitem.Large{"body": largeitem.Text("text")}, nil); err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 {
				if _, err := s.Delete(t.Context(), key, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, err := s.Sweep(t.Context(), nil); err != nil || got.TooYoung != 1500 {
			t.Errorf("at once: %v, %+v", err, got)
		}
		time.Sleep(25 * time.Hour)
		requests := func() string {
			count := map[string]int{}
			for _, op := range slices.Concat(f.Ops(), d.Ops()) {
				count[op]++
			}
			f.Reset()
			d.Reset()
			return fmt.Sprint(count)
		}
		requests()
		for _, c := range []struct {
			scan bool
			want string
		}{
			// Two pages of the listing, 1,500 items, and the orphans of each page again.
			{false, "map[BatchGetItem:17 GetObject:1 ListObjectsV2:2]"},
			{true, "map[BatchGetItem:1 DeleteObject:15 GetObject:1 HeadObject:1 ListObjectsV2:2 Scan:2]"},
		} {
			got, err := s.Sweep(t.Context(), &largeitem.SweepOptions{Scan: c.scan, DryRun: !c.scan})
			if err != nil || got.Deleted != 15 || got.Referenced != 1485 {
				t.Errorf("scan %v: %v, %+v", c.scan, err, got)
			}
			if got := requests(); got != c.want {
				t.Errorf("scan %v: got %s, want %s", c.scan, got, c.want)
			}
		}
		if got, err := s.Verify(t.Context(), nil); err != nil || got.References != 1485 {
			t.Errorf("%v, %+v", err, got)
		}
		if got, want := requests(), "map[GetObject:1485 Scan:2]"; got != want {
			t.Errorf("a verification: got %s, want %s", got, want)
		}
	})
}

package reservation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/compat/reservation"
	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const name = "locks"

// newTable returns a server with the table of object_store, that table, and that program.
func newTable(t *testing.T) (*awstest.DynamoDB, *reservation.Table, *awstest.ObjectStore) {
	t.Helper()
	d := awstest.NewDynamoDB()
	d.AddTable(name, "path", "etag")
	table, err := reservation.New(d.Client(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d, table, &awstest.ObjectStore{Client: &http.Client{Transport: d}, Endpoint: "http://dynamodb.test", Table: name}
}

func reserver(t *testing.T, table reserve.Table, opts *reserve.Options) *reserve.Reserver {
	t.Helper()
	r, err := reserve.New(table, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func exists(context.Context) error { return nil }

func TestItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, table, _ := newTable(t)
		r := reserver(t, table, &reserve.Options{Timeout: 1500 * time.Millisecond})
		for etag, version := range map[string]object.Version{"*": "", `"abc"`: `"abc"`, `W/"abc"`: `W/"abc"`} {
			if err := r.Do(t.Context(), "sp ace/ü", version, exists, exists); err != nil {
				t.Fatal(err)
			}
			item := d.Item(name, "sp ace/ü", etag)
			generation, nonce := item["generation"]["N"], item["nonce"]["S"]
			want := map[string]map[string]any{
				"path": {"S": "sp ace/ü"}, "etag": {"S": etag}, "generation": {"N": generation}, "timeout": {"N": "1500"},
				"ttl": {"N": fmt.Sprint(time.Now().Add(time.Hour).Unix())}, "nonce": {"S": nonce},
			}
			if fmt.Sprint(item) != fmt.Sprint(want) || nonce == nil || generation == nil {
				t.Errorf("got %v, want %v", item, want)
			}
		}
		if got := d.Ops(); !slices.Equal(got, []string{"PutItem", "PutItem", "PutItem"}) {
			t.Errorf("requests: %q", got)
		}
	})
}

// TestOtherProgramMeetsOurs: object_store reads our rows, those that were released too,
// and takes them over.
func TestOtherProgramMeetsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, table, other := newTable(t)
		r := reserver(t, table, &reserve.Options{Timeout: time.Second})
		var met awstest.Lease
		failed := store.MarkNotApplied(errors.New("not applied"))
		err := r.Do(t.Context(), "k", `"v"`, exists, func(context.Context) error {
			var err error
			if met, err = other.Acquire(t.Context(), "k", `"v"`, time.Second, nil); err != awstest.ErrLeased || met.Timeout != time.Second {
				t.Errorf("got %+v, %v", met, err)
			}
			return failed
		})
		if err != failed {
			t.Fatal(err)
		}
		if l, err := other.Acquire(t.Context(), "k", `"v"`, time.Second, &met); err != awstest.ErrLeased {
			t.Errorf("it took a row over that has changed: %+v, %v", l, err)
		}
		free, err := other.Acquire(t.Context(), "k", `"v"`, time.Second, nil)
		if err != awstest.ErrLeased || free.Timeout != 0 || free.Generation != met.Generation+1 {
			t.Errorf("got %+v, %v", free, err)
		}
		if l, err := other.Acquire(t.Context(), "k", `"v"`, time.Second, &free); err != nil || l.Generation != free.Generation+1 {
			t.Errorf("got %+v, %v", l, err)
		}
	})
}

// TestWeMeetTheOtherProgram: we wait for object_store's rows by their timeout, and take
// them over with the next generation.
func TestWeMeetTheOtherProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, table, other := newTable(t)
		if _, err := other.Acquire(t.Context(), "k", "*", 2*time.Second, nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r := reserver(t, table, &reserve.Options{Timeout: time.Second})
		if err := r.Do(t.Context(), "k", "", exists, exists); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited <= 6*time.Second || waited > 6*time.Second+reserve.TestInterval+1 {
			t.Errorf("it waited %v", waited)
		}
		if item := d.Item(name, "k", "*"); item["generation"]["N"] != "1" || item["timeout"]["N"] != "1000" {
			t.Errorf("the item is %v", item)
		}
		if l, err := other.Acquire(t.Context(), "k", "*", time.Second, nil); err != awstest.ErrLeased || l != (awstest.Lease{Generation: 1, Timeout: time.Second}) {
			t.Errorf("got %+v, %v", l, err)
		}
	})
}

// TestTakeOverNamesAllThatItHasSeen: generation, ttl and nonce.
func TestTakeOverNamesAllThatItHasSeen(t *testing.T) {
	for _, of := range []string{"generation", "ttl", "nonce", "nonce gone", "ttl gone"} {
		t.Run(of, func(t *testing.T) {
			d, table, _ := newTable(t)
			row := reserve.Row{Key: "k", Generation: 5, Timeout: time.Second, TTL: 1795287367, Nonce: "n"}
			placed, err := table.Insert(t.Context(), row)
			if err != nil {
				t.Fatal(err)
			}
			seen := row
			seen.Tag = placed.Tag
			d.Update(name, func(item map[string]map[string]any) map[string]map[string]any {
				item = maps.Clone(item)
				switch of {
				case "generation", "ttl":
					item[of] = map[string]any{"N": "6"}
				case "nonce":
					item[of] = map[string]any{"S": "m"}
				default:
					delete(item, strings.TrimSuffix(of, " gone"))
				}
				return item
			})
			var met *reserve.ConflictError
			if _, err := table.Replace(t.Context(), seen, row); !errors.As(err, &met) || !met.HasRow || met.Row == seen {
				t.Errorf("got %v, %+v", err, met)
			}
			if _, err := table.Replace(t.Context(), met.Row, row); err != nil {
				t.Errorf("over what was met, %+v: %v", met.Row, err)
			}
		})
	}
	_, table, _ := newTable(t)
	var met *reserve.ConflictError
	if _, err := table.Replace(t.Context(), reserve.Row{Key: "k"}, reserve.Row{Key: "k"}); !errors.As(err, &met) || met.HasRow {
		t.Errorf("over an item that is gone: %v", err)
	}
}

// TestForeignAttributes: what other programs add to an item is tolerated, and lost when
// we take it over, so that object_store can read it again.
func TestForeignAttributes(t *testing.T) {
	d, table, other := newTable(t)
	if _, err := other.Acquire(t.Context(), "k", "*", 0, nil); err != nil {
		t.Fatal(err)
	}
	d.Update(name, func(item map[string]map[string]any) map[string]map[string]any {
		item["note"], item["size"] = map[string]any{"S": `a "note"`}, map[string]any{"N": "-1.5"}
		item["flag"], item[`qu"ote`] = map[string]any{"BOOL": true}, map[string]any{"L": []any{}}
		return item
	})
	if _, err := other.Acquire(t.Context(), "k", "*", time.Second, nil); err == nil || err == awstest.ErrLeased {
		t.Fatalf("object_store reads it: %v", err)
	}
	if err := reserver(t, table, nil).Do(t.Context(), "k", "", exists, exists); err != nil {
		t.Fatal(err)
	}
	if l, err := other.Acquire(t.Context(), "k", "*", time.Second, nil); err != awstest.ErrLeased || l.Generation != 1 {
		t.Errorf("afterwards: %+v, %v", l, err)
	}
}

func TestItemThatIsNoReservation(t *testing.T) {
	for what, change := range map[string]func(item map[string]map[string]any){
		"generation is text":       func(item map[string]map[string]any) { item["generation"] = map[string]any{"S": "7"} },
		"generation is missing":    func(item map[string]map[string]any) { delete(item, "generation") },
		"generation is a fraction": func(item map[string]map[string]any) { item["generation"] = map[string]any{"N": "1.5"} },
		"generation is negative":   func(item map[string]map[string]any) { item["generation"] = map[string]any{"N": "-1"} },
		"generation is too large": func(item map[string]map[string]any) {
			item["generation"] = map[string]any{"N": "18446744073709551616"}
		},
		"timeout is missing": func(item map[string]map[string]any) { delete(item, "timeout") },
		"timeout is text":    func(item map[string]map[string]any) { item["timeout"] = map[string]any{"S": "1000"} },
		"ttl is text":        func(item map[string]map[string]any) { item["ttl"] = map[string]any{"S": "soon"} },
		"nonce is a number":  func(item map[string]map[string]any) { item["nonce"] = map[string]any{"N": "1"} },
	} {
		t.Run(what, func(t *testing.T) {
			d, table, other := newTable(t)
			if _, err := other.Acquire(t.Context(), "k", "*", 0, nil); err != nil {
				t.Fatal(err)
			}
			d.Update(name, func(item map[string]map[string]any) map[string]map[string]any { change(item); return item })
			before := fmt.Sprint(d.Item(name, "k", "*"))
			err := reserver(t, table, nil).Do(t.Context(), "k", "", exists, func(context.Context) error { t.Error("it operated"); return nil })
			if attribute, _, _ := strings.Cut(what, " "); !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), attribute) {
				t.Errorf("got %v", err)
			}
			if after := fmt.Sprint(d.Item(name, "k", "*")); after != before {
				t.Errorf("the item became %s", after)
			}
		})
	}
}

// TestHugeTimeout: a waiter waits until its context ends.
func TestHugeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, table, other := newTable(t)
		if _, err := other.Acquire(t.Context(), "k", "*", time.Second, nil); err != nil {
			t.Fatal(err)
		}
		d.Update(name, func(item map[string]map[string]any) map[string]map[string]any {
			item["timeout"] = map[string]any{"N": "18446744073709551615"}
			return item
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := reserver(t, table, nil).Do(ctx, "k", "", exists, func(context.Context) error { t.Error("it operated"); return nil })
		if !errors.Is(err, context.DeadlineExceeded) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("got %v", err)
		}
	})
}

func TestTableOfAnotherShape(t *testing.T) {
	for keys, sound := range map[[2]string]bool{{"path", ""}: false, {"part", "key"}: false, {"key", ""}: false, {"etag", "path"}: true} {
		d := awstest.NewDynamoDB()
		d.AddTable(name, keys[0], keys[1])
		table, err := reservation.New(d.Client(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := reserver(t, table, nil)
		_ = r.Do(t.Context(), "k", `"v"`, exists, exists)
		err = r.Do(t.Context(), "k", `"w"`, exists, exists)
		if sound != (err == nil) || !sound && (!errors.Is(err, store.ErrMisconfigured) || !strings.Contains(strings.ReplaceAll(err.Error(), " (HASH, S)", ""), "keys of the table must be path and etag")) {
			t.Errorf("%v: %v", keys, err)
		}
		if found, err := table.Describe(t.Context()); err != nil || found.KeysValid {
			t.Errorf("%v: got %+v, %v", keys, found, err)
		}
	}
	d := awstest.NewDynamoDB()
	table, err := reservation.New(d.Client(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = reserver(t, table, nil).Do(t.Context(), "k", "", exists, exists)
	if !errors.Is(err, store.ErrMisconfigured) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("no table: %v", err)
	}
}

func TestVersionThatIsNoETag(t *testing.T) {
	d, table, _ := newTable(t)
	for _, v := range []object.Version{"abc", `"abc`, `""`, "*", `"a"b"`, object.Version(`"` + strings.Repeat("x", 1100) + `"`)} {
		err := reserver(t, table, nil).Do(t.Context(), "k", v, exists, func(context.Context) error { t.Error("it operated"); return nil })
		if !errors.Is(err, store.ErrVersion) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%.20s: %v", v, err)
		}
	}
	if d.Items(name) != 0 {
		t.Error("an item was written")
	}
}

// TestLostRepliesOfTheTable: the reply is lost, or the request, or it is applied twice, as
// by a proxy; each time one operation runs, under a row of its own.
func TestLostRepliesOfTheTable(t *testing.T) {
	for what, fault := range map[string]awstest.Fault{
		"lost reply": {Lose: true}, "lost request": {Drop: true}, "applied twice": {Twice: true}, "no answer": {Hang: true},
		"server error": {Status: 500, Code: "InternalServerError", Applied: true}, "throttled": {Status: 400, Code: "ThrottlingException"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, table, _ := newTable(t)
				d.Add("PutItem", 0, 1, fault)
				operations := 0
				err := reserver(t, table, nil).Do(t.Context(), "k", "", exists, func(context.Context) error { operations++; return nil })
				if err != nil || operations != 1 || d.Items(name) != 1 {
					t.Errorf("%d operations, %d items, %v", operations, d.Items(name), err)
				}
			})
		})
	}
}

func TestCreateTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := awstest.NewDynamoDB()
		for range 2 {
			if err := reservation.CreateTable(t.Context(), d.Client(), name, nil); err != nil {
				t.Fatal(err)
			}
		}
		table, err := reservation.New(d.Client(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := table.Describe(t.Context()); err != nil || !found.KeysValid || found.TTL != "ttl" {
			t.Errorf("got %+v, %v", found, err)
		}
		d.AddTable("other", "id", "")
		if err := reservation.CreateTable(t.Context(), d.Client(), "other", nil); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "must be path (HASH, S) and etag (RANGE, S)") {
			t.Errorf("a table that is there: %v", err)
		}
		d.AddTable("expires", "path", "etag")
		d.SetTTL("expires", "expires")
		if err := reservation.CreateTable(t.Context(), d.Client(), "expires", nil); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), `by the attribute "expires"`) {
			t.Errorf("a table that removes items by another attribute: %v", err)
		}
		d.Add("DescribeTimeToLive", 0, -1, awstest.Fault{Status: http.StatusBadRequest, Code: "AccessDeniedException"})
		if err := reservation.CreateTable(t.Context(), d.Client(), "expires", nil); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "active on a different AttributeName") || strings.Contains(err.Error(), "keys") {
			t.Errorf("the same, where its TTL cannot be read: %v", err)
		}
	})
}

// TestCreateTableSurvivesLostReplies: DynamoDB refuses to switch on what is on already.
func TestCreateTableSurvivesLostReplies(t *testing.T) {
	for _, op := range []string{"CreateTable", "DescribeTable", "DescribeTimeToLive", "UpdateTimeToLive"} {
		synctest.Test(t, func(t *testing.T) {
			d := awstest.NewDynamoDB()
			d.Add(op, 0, 1, awstest.Fault{Lose: true})
			if err := reservation.CreateTable(t.Context(), d.Client(), name, nil); err != nil {
				t.Errorf("%s: %v", op, err)
			}
		})
	}
}

func TestVerifyFindsServersThatIgnoreConditions(t *testing.T) {
	for what, c := range map[string]struct {
		broken awstest.DynamoDBBroken
		want   error
	}{
		"sound":               {awstest.DynamoDBBroken{}, nil},
		"ignores conditions":  {awstest.DynamoDBBroken{IgnoreConditions: true}, store.ErrUnsafe},
		"ignores not exists":  {awstest.DynamoDBBroken{IgnoreNotExists: true}, store.ErrUnsafe},
		"ignores equality":    {awstest.DynamoDBBroken{IgnoreEqual: true}, store.ErrUnsafe},
		"refuses and writes":  {awstest.DynamoDBBroken{RefuseAndWrite: true}, store.ErrUnsafe},
		"returns no old item": {awstest.DynamoDBBroken{NoOldItem: true}, store.ErrMisconfigured},
	} {
		d, table, _ := newTable(t)
		d.Broken = c.broken
		if err := table.Verify(t.Context()); !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%s: %v", what, err)
		}
		if n := len(d.Ops()); n > 3 {
			t.Errorf("%s: %d requests", what, n)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]reservation.Config{
		"dynamo:t": {Table: "t"}, " dynamo: my table \n": {Table: "my table"}, "dynamo:t:1000": {Table: "t", Timeout: time.Second},
		"dynamo: t :1000": {Table: "t", Timeout: time.Second}, "dynamo:t:+0050": {Table: "t", Timeout: 50 * time.Millisecond},
		"dynamo:t:86400000": {Table: "t", Timeout: 24 * time.Hour},
	} {
		got, err := reservation.ParseConfig(text)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
		if again, err := reservation.ParseConfig(got.String()); err != nil || again != got {
			t.Errorf("%q: %q is read as %+v, %v", text, got, again, err)
		}
	}
	for _, text := range []string{
		"", "dynamo", "Dynamo:t", "dynamo:t:", "dynamo:t: 100", "dynamo:t:-1", "dynamo:a:b:1", "dynamo :t", "etag", "disabled", "t", "dynamo:t:1e3", "dynamo:t:++5",
		"dynamo:t:1_000", "dynamo:t:0x64", "dynamo:t:18446744073709551616",
		// object_store accepts these.
		"dynamo:", "dynamo: ", "dynamo::1000", "dynamo:t:0", "dynamo:t:49", "dynamo:t:86400001",
	} {
		if got, err := reservation.ParseConfig(text); !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

// FuzzParse: what is accepted names a table and has a timeout that package reserve takes,
// and is read again as it is printed.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"dynamo:t", "dynamo:t:100", " dynamo: t :+100 ", "dynamo::", "etag"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := reservation.ParseConfig(text)
		if err != nil {
			return
		}
		if _, err := reserve.New(struct{ reserve.Table }{}, &reserve.Options{Timeout: s.Timeout}); s.Table == "" || err != nil {
			t.Errorf("%q is %+v, %v", text, s, err)
		}
		if again, err := reservation.ParseConfig(s.String()); err != nil || again != s {
			t.Errorf("%q is %+v, then %+v, %v", text, s, again, err)
		}
	})
}

func TestKey(t *testing.T) {
	for path, want := range map[string]string{
		"k": "k", "/k": "k", "a//b": "a/b", "a/b/": "a/b", "": "", "/": "", "sp ace/ünï": "sp ace/%C3%BCn%C3%AF", ".": "%2E", "a/../b": "a/%2E%2E/b", "a/...": "a/...",
		"100%": "100%25", "a%20b": "a%2520b", "*?#~": "%2A%3F%23%7E", `\{^}[]"<>|` + "`": "%5C%7B%5E%7D%5B%5D%22%3C%3E%7C%60", "a\tb\x7f": "a%09b%7F", "a+b=c&d@e:f,g;h!i'(j)$-_.": "a+b=c&d@e:f,g;h!i'(j)$-_.",
	} {
		if got := reservation.Key(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

func TestOptions(t *testing.T) {
	client := awstest.NewDynamoDB().Client()
	for what, err := range map[string]error{
		"no client": second(reservation.New(nil, name, nil)), "no name": second(reservation.New(client, "", nil)),
		"timeout": second(reservation.New(client, name, &reservation.Options{Timeout: time.Millisecond})),
	} {
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

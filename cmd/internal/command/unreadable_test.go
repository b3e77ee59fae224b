package command

import (
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestBreakUnreadable: on every kind of remote store break makes a lock usable again whose
// record was damaged, keeps what was there, and raises the token. What a newer program wrote,
// and what no condition can name, it leaves alone.
func TestBreakUnreadable(t *testing.T) {
	p := newPlace(t)
	bucket, s3 := serveS3(t, nil)
	table := awstest.NewDynamoDB()
	table.AddTable("table", "part", "key")
	at, end := serve(table)
	t.Cleanup(end)
	at = strings.Replace(at, "path_style=true&", "", 1)
	at = strings.Replace(at, "&path_style=true", "", 1)
	database := filepath.Join(p.dir, "app.db")
	p.must(t, "sqlite:"+database, "init")
	item := func(change func(item map[string]map[string]any)) func(t *testing.T) {
		return func(*testing.T) {
			table.Update("table", func(item map[string]map[string]any) map[string]map[string]any {
				if strings.HasSuffix(item["key"]["S"].(string), "/job") {
					change(item)
				}
				return item
			})
		}
	}
	object := func(body string) func(t *testing.T) {
		return func(*testing.T) { s3.Put("bucket", "app/lock/job.json", []byte(body)) }
	}
	for _, c := range []struct {
		name, store string
		damage      func(t *testing.T)
		kept        string
		refused     string // empty: it is made usable
	}{
		{"s3", bucket, object("damaged"), "damaged", ""},
		{"s3, newer", bucket, object(`{"holdfast":2,"nonce":"new"}`), "", "has format 2"},
		{"dynamodb", "dynamodb://table/app?" + at, item(func(item map[string]map[string]any) {
			item["version"]["S"] = "9-AAAAAAAAAAAA" // not what the command remembers
			delete(item, "value")
		}), `"9-AAAAAAAAAAAA"`, ""},
		{"dynamodb, odd version", "dynamodb://table/app?" + at, item(func(item map[string]map[string]any) { item["version"]["S"] = "odd" }), `"odd"`, ""},
		{"dynamodb, no version", "dynamodb://table/app?" + at, item(func(item map[string]map[string]any) { delete(item, "version") }), "", "end all programs that use the key"},
		{"sqlite", "sqlite:" + database, func(t *testing.T) {
			db, err := sql.Open("sqlite", database)
			if err == nil {
				_, err = db.ExecContext(t.Context(), `UPDATE holdfast SET record = 'damaged' WHERE key LIKE '%job'`)
				err = joinClose(err, db)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "damaged", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := ""
			if !strings.Contains(c.name, ",") || strings.Contains(c.name, "odd") {
				p.must(t, c.store, "run", "job", "--", "true")
				before = tokenOf(p.must(t, c.store, "show", "job", "--json"))
			}
			c.damage(t)
			p.refused(t, exit.Unsafe, c.store, "run", "-n", "job", "--", "true")
			_, said, status := p.run(t, c.store, "break", "job", "--unreadable", "--now")
			if c.refused != "" {
				if status == 0 || !strings.Contains(said, c.refused) {
					t.Errorf("status %d, %s, want a refusal: %s", status, said, c.refused)
				}
				p.refused(t, exit.Unsafe, c.store, "run", "-n", "job", "--", "true")
				return
			}
			line, _, _ := strings.Cut(said, "\n")
			where := line[strings.LastIndex(line, " is in ")+len(" is in "):]
			if kept, err := os.ReadFile(where); status != 0 || err != nil || !strings.Contains(string(kept), c.kept) {
				t.Fatalf("status %d, %s, kept %q (%v)", status, said, kept, err)
			}
			after := p.must(t, c.store, "run", "job", "--", "sh", "-c", "echo $HOLDFAST_TOKEN")
			was, _ := strconv.ParseUint(before, 10, 64)
			if now, err := strconv.ParseUint(strings.TrimSpace(after), 10, 64); err != nil || now <= was {
				t.Errorf("the token is %q, %s before", after, before)
			}
		})
	}
}

func joinClose(err error, db *sql.DB) error {
	if closed := db.Close(); err == nil {
		err = closed
	}
	return err
}

// A register that holds no item does not hide the items after it: item ls names the register at
// the end, and item verify lists it as a problem.
func TestItemsWithADamagedOne(t *testing.T) {
	p, locks := newPlaceOfFiles(t)
	dir := filepath.Join(p.dir, "table")
	on := []string{"--table", "file:" + dir, "--bucket", "file:" + filepath.Join(p.dir, "bucket")}
	p.must(t, locks, append([]string{"item", "init", "--partition", "pk"}, on...)...)
	for _, key := range []string{"a", "b", "c"} {
		p.must(t, locks, append([]string{"item", "put", key, "--set", "{}"}, on...)...)
	}
	st, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	found := false
	for register, err := range store.List(t.Context(), st, "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(register, "=b") {
			_, version, err := st.Get(t.Context(), register)
			if err == nil {
				_, err = st.Put(t.Context(), register, version, []byte("damaged"))
			}
			if found = err == nil; !found {
				t.Fatal(err)
			}
		}
	}
	out, said, status := p.run(t, locks, append([]string{"item", "ls"}, on...)...)
	if !found || status != exit.Unsafe || out != "[\"a\"]\n[\"c\"]\n" || strings.Count(said, "=b does not contain the item that its name says") != 1 {
		t.Errorf("found %v, status %d, %q, %q", found, status, out, said)
	}
	out, said, status = p.run(t, locks, append([]string{"item", "verify"}, on...)...)
	if status != exit.Unsafe || !strings.HasPrefix(out, "unreadable\t\t\t") || strings.Count(out, "\n") != 1 || !strings.Contains(out, "=b does not contain the item that its name says") || !strings.Contains(said, "of 3 items") {
		t.Errorf("verify: status %d, %q, %q", status, out, said)
	}
	out, _, _ = p.run(t, locks, append([]string{"item", "verify", "--json"}, on...)...)
	if !strings.Contains(out, `"key":null`) && !strings.Contains(out, `"key": null`) {
		t.Errorf("verify --json: %q", out)
	}
}

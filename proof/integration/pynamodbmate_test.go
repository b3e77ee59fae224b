package integration_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// mate is the published package pynamodb_mate in a process of its own.
type mate struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Scanner
}

// mateCall is a call of it, and mateAnswer what came of it.
type mateCall struct {
	Op    string            `json:"op"` // create, update, delete or get
	PK    string            `json:"pk"`
	N     int               `json:"n"`
	Large map[string][]byte `json:"large,omitempty"`
}

type mateAnswer struct {
	Error string            `json:"error"`
	N     int               `json:"n"`
	Large map[string][]byte `json:"large"`
}

func (m *mate) call(t *testing.T, c mateCall) mateAnswer {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := json.NewEncoder(m.in).Encode(c); err != nil {
		t.Fatal(err)
	}
	if !m.out.Scan() {
		t.Fatalf("the published program ended: %v", m.out.Err())
	}
	var a mateAnswer
	if err := json.Unmarshal(m.out.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v", m.out.Bytes(), err)
	}
	return a
}

// matePlace is a table and a bucket that both programs use.
type matePlace struct {
	s3     servers.S3
	dynamo servers.Dynamo
	bucket string
	prefix string
	table  string
}

// mateServers are the servers, each with a prefix. Of "/both/" the published package cuts the
// first slash only, and MinIO takes no name with two slashes.
var mateServers = []struct {
	name, prefix string
	start        func(testing.TB) servers.S3
}{{"versitygw", "/both/", set.VersityGW}, {"MinIO", "both/", set.MinIO}}

func newMatePlace(t *testing.T, s3 servers.S3, prefix string) *matePlace {
	t.Helper()
	p := &matePlace{s3: s3, dynamo: set.DynamoDB(t), table: servers.Unique("items"), prefix: prefix}
	p.bucket = s3.NewBucket(t, false)
	if err := dynamotable.CreateTable(t.Context(), p.dynamo.Client(), p.table, largeitem.KeyAttribute{Name: "pk"}, largeitem.KeyAttribute{}, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *matePlace) newMate(t *testing.T) *mate {
	t.Helper()
	dir := filepath.Join("testdata", "pynamodb_mate")
	cmd := exec.CommandContext(t.Context(), servers.Python(t, filepath.Join(dir, "requirements.txt")), filepath.Join(dir, "mate.py"))
	cmd.Env = append(append(os.Environ(), p.dynamo.Env()...), p.s3.Env()...)
	// Both servers take any credentials of their own; DynamoDB Local takes those of S3.
	cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL_S3="+p.s3.Endpoint, "TABLE="+p.table, "BUCKET="+p.bucket, "PREFIX="+p.prefix)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	m := &mate{in: in, out: bufio.NewScanner(out)}
	m.out.Buffer(nil, 64<<20)
	return m
}

func (p *matePlace) newOurs(t *testing.T) *largeitem.Store {
	t.Helper()
	table, err := dynamotable.New(p.dynamo.Client(), p.table, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s3bucket.New(p.s3.Client(), p.bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := largeitem.New(table, b, &largeitem.Options{Prefix: p.prefix, Layout: largeitem.PynamoDBMateLayout(), RemoveSuperseded: true, RemoveYoung: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// oursGet reads an item with its bodies.
func oursGet(t *testing.T, s *largeitem.Store, pk string) (map[string][]byte, error) {
	t.Helper()
	item, err := s.Get(t.Context(), mateKey(t, pk), nil)
	if err != nil {
		return nil, err
	}
	defer item.Close()
	all := map[string][]byte{}
	for attr := range item.Refs {
		if all[attr], err = io.ReadAll(item.Body(attr)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func mateKey(t *testing.T, pk string) largeitem.Key {
	t.Helper()
	k, err := largeitem.NewKey(pk)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func oneLarge(attr string, body []byte) largeitem.Large {
	return largeitem.Large{attr: largeitem.Bytes(body)}
}

// TestItemsWithPynamodbMate: the published package and ours read, change and delete what
// the other wrote, on one table and one bucket.
func TestItemsWithPynamodbMate(t *testing.T) {
	needsPublished(t)
	for _, c := range mateServers {
		t.Run(c.name, func(t *testing.T) {
			p := newMatePlace(t, c.start(t), c.prefix)
			theirs, ours := p.newMate(t), p.newOurs(t)
			html, image := []byte("<p>hello</p>"), bytes.Repeat([]byte{0, 1, 255}, 1<<20)
			must := func(c mateCall) mateAnswer {
				t.Helper()
				a := theirs.call(t, c)
				if a.Error != "" {
					t.Fatalf("%s: %s", c.Op, a.Error)
				}
				return a
			}
			check := func(pk string, want map[string][]byte) {
				t.Helper()
				got, err := oursGet(t, ours, pk)
				if err != nil {
					t.Fatalf("ours: %v", err)
				}
				their := must(mateCall{Op: "get", PK: pk}).Large
				for _, attr := range []string{"html", "image"} {
					if !bytes.Equal(got[attr], want[attr]) || !bytes.Equal(their[attr], want[attr]) {
						t.Errorf("%s: ours has %d bytes, theirs %d, want %d", attr, len(got[attr]), len(their[attr]), len(want[attr]))
					}
				}
			}
			must(mateCall{Op: "create", PK: "a", N: 1, Large: map[string][]byte{"html": html, "image": image}})
			check("a", map[string][]byte{"html": html, "image": image})

			if _, err := ours.Update(t.Context(), mateKey(t, "a"), largeitem.Change{}, oneLarge("html", image), nil); err != nil {
				t.Fatal(err)
			}
			check("a", map[string][]byte{"html": image, "image": image})
			must(mateCall{Op: "update", PK: "a", N: 2, Large: map[string][]byte{"html": html}})
			check("a", map[string][]byte{"html": html, "image": image})

			if _, err := ours.Create(t.Context(), mateKey(t, "b"), nil, oneLarge("image", image), nil); err != nil {
				t.Fatal(err)
			}
			check("b", map[string][]byte{"image": image})
			must(mateCall{Op: "update", PK: "b", N: 1, Large: map[string][]byte{"image": html}})
			check("b", map[string][]byte{"image": html})
			if v, err := ours.Verify(t.Context(), nil); err != nil || v.References != 3 {
				t.Errorf("%+v, %v", v, err)
			}
			if _, err := ours.Delete(t.Context(), mateKey(t, "a"), nil); err != nil {
				t.Fatal(err)
			}
			if a := theirs.call(t, mateCall{Op: "get", PK: "a"}); !strings.HasPrefix(a.Error, "DoesNotExist") {
				t.Errorf("they read a deleted item: %+v", a)
			}
			if _, err := ours.Sweep(t.Context(), &largeitem.SweepOptions{DryRun: true, Exclusive: true}); err != nil {
				t.Errorf("sweep: %v", err)
			}
		})
	}
}

// TestItemsContendedWithPynamodbMate: several processes of the published package and several
// writers of ours change the same items to and fro. What ours wrote, and no other write
// replaced, is there. What the published package loses by itself is counted.
func TestItemsContendedWithPynamodbMate(t *testing.T) {
	needsPublished(t)
	for _, c := range mateServers {
		t.Run(c.name, func(t *testing.T) { contendWithMate(t, newMatePlace(t, c.start(t), c.prefix)) })
	}
}

func contendWithMate(t *testing.T, p *matePlace) {
	ours := p.newOurs(t)
	const items, rounds = 3, 150
	bodies := [][]byte{[]byte("one"), []byte("two"), []byte("three")}
	pk := func(i int) string { return fmt.Sprintf("item-%d", i) }
	for i := range items {
		if _, err := ours.Create(t.Context(), mateKey(t, pk(i)), nil, oneLarge("html", bodies[0]), nil); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := map[string]int{}
	add := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		count[what]++
	}
	for range 2 {
		m := p.newMate(t)
		wg.Go(func() {
			for range rounds {
				a := m.call(t, mateCall{Op: "update", PK: pk(rand.IntN(items)), N: 1, Large: map[string][]byte{"html": bodies[rand.IntN(3)]}})
				if a.Error == "" {
					add("their updates")
				} else {
					add("their error " + strings.SplitN(a.Error, ":", 2)[0])
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for range rounds {
				_, err := ours.Update(t.Context(), mateKey(t, pk(rand.IntN(items))), largeitem.Change{}, oneLarge("html", bodies[rand.IntN(3)]), nil)
				switch {
				case err == nil:
					add("our updates")
				case errors.Is(err, store.ErrConflict):
					add("our conflicts")
				default:
					t.Errorf("ours: %v", err)
				}
				time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	// An item that refers to an object of ours has it, whatever the other program did.
	lost := 0
	for i := range items {
		item, err := ours.GetMeta(t.Context(), mateKey(t, pk(i)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = oursGet(t, ours, pk(i))
		switch {
		case err == nil:
		case strings.Contains(item.Refs["html"].Object, ".id="):
			t.Errorf("%s: an object of ours is gone: %v", pk(i), err)
		case errors.Is(err, largeitem.ErrMissing):
			lost++
		default:
			t.Error(err)
		}
	}
	names := make([]string, 0, len(count))
	for what := range count {
		names = append(names, what)
	}
	slices.Sort(names)
	for _, what := range names {
		t.Logf("%s: %d", what, count[what])
	}
	t.Logf("items that the published package left without their object: %d of %d", lost, items)
}

package azure_test

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/holdfast-go/holdfast/azure/azblobbucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

func openBucket(t testing.TB, url string, o *azblobbucket.Options) *azblobbucket.Bucket {
	t.Helper()
	b, _, err := azblobbucket.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDefaultRetriesReportOwnConflict: the proxy loses the reply to one conditional write. With the default retries of
// the SDK, the caller gets a conflict with its own write. The store reports success, and writes once.
func TestDefaultRetriesReportOwnConflict(t *testing.T) {
	t.Parallel()
	a := azurite(t)
	name := a.NewContainer(t)
	proxy := faultproxy.New(t, "http://"+a.Address())
	address := strings.TrimPrefix(proxy.URL, "http://")
	lose := func() {
		proxy.Reset()
		proxy.Inject(&faultproxy.Rule{When: faultproxy.Method("PUT"), Times: 1, Do: faultproxy.Lose()})
	}
	puts := func() int { return proxy.Count(faultproxy.Method("PUT")) }

	// Create and swap with the SDK as it is.
	sdk := client(t, name, address, func(o *container.ClientOptions) { o.Retry = policy.RetryOptions{RetryDelay: time.Millisecond} })
	put := func(key string, on *blob.ModifiedAccessConditions) (blockblob.UploadResponse, error) {
		return sdk.NewBlockBlobClient(key).Upload(t.Context(), streaming.NopCloser(strings.NewReader("mine")), &blockblob.UploadOptions{AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: on}})
	}
	any := azcore.ETagAny
	lose()
	if _, err := put("created", &blob.ModifiedAccessConditions{IfNoneMatch: &any}); !bloberror.HasCode(err, bloberror.BlobAlreadyExists) || puts() != 2 {
		t.Errorf("the SDK creates: %v after %d requests, want BlobAlreadyExists after 2", err, puts())
	}
	first, err := put("swapped", nil)
	if err != nil {
		t.Fatal(err)
	}
	lose()
	if _, err := put("swapped", &blob.ModifiedAccessConditions{IfMatch: first.ETag}); !bloberror.HasCode(err, bloberror.ConditionNotMet) || puts() != 2 {
		t.Errorf("the SDK swaps: %v after %d requests, want ConditionNotMet after 2", err, puts())
	}

	// The same with registers, and with a client of objects on the same SDK client.
	st := open(t, a, name, address)
	if _, err := st.Put(t.Context(), "warm", "", nil); err != nil { // the probe of the server
		t.Fatal(err)
	}
	lose()
	v, err := st.Put(t.Context(), "r", "", []byte("1"))
	if err != nil || puts() != 1 {
		t.Errorf("a register is created: %v after %d requests", err, puts())
	}
	lose()
	if _, err = st.Put(t.Context(), "r", v, []byte("2")); err != nil || puts() != 1 {
		t.Errorf("a register is swapped: %v after %d requests", err, puts())
	}
	b, err := azblobbucket.New(sdk, nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := object.New(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Put(t.Context(), "warm", strings.NewReader("x"), &object.WriteOptions{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	lose()
	if _, err := objects.Put(t.Context(), "o", strings.NewReader("x"), &object.WriteOptions{IfAbsent: true}); err != nil || puts() != 1 {
		t.Errorf("an object is created: %v after %d requests", err, puts())
	}
	lose()
	large := bytes.Repeat([]byte("x"), 300<<10)
	b, err = azblobbucket.New(sdk, &azblobbucket.Options{BlockSize: 64 << 10, AssumeAbilities: object.Abilities()})
	if err != nil {
		t.Fatal(err)
	}
	if objects, err = object.New(b, nil); err != nil {
		t.Fatal(err)
	}
	proxy.Reset()
	proxy.Inject(&faultproxy.Rule{When: faultproxy.All(faultproxy.Method("PUT"), func(c *faultproxy.Call) bool { return strings.Contains(c.Query, "comp=blocklist") }), Times: 1, Do: faultproxy.Lose()})
	if _, err := objects.Put(t.Context(), "large", bytes.NewReader(large), &object.WriteOptions{IfAbsent: true}); err != nil {
		t.Errorf("a large object is created, and the reply to its commit is lost: %v", err)
	}
	if got, _, err := objects.ReadAll(t.Context(), "large", 1<<20, nil); err != nil || !bytes.Equal(got, large) {
		t.Errorf("it has %d bytes, %v", len(got), err)
	}
}

// TestUploadsShareBlocks: another upload that is committed removes the blocks of an upload in progress. With a condition,
// the upload fails with a conflict; without, with ErrBusy. In both cases, it writes nothing. On Azurite, a small write
// leaves the blocks; see TestBehaviour.
func TestUploadsShareBlocks(t *testing.T) {
	t.Parallel()
	a := azurite(t)
	b := openBucket(t, a.URL(a.NewContainer(t), ""), &azblobbucket.Options{BlockSize: 64 << 10, AssumeAbilities: object.Abilities()})
	for _, c := range []struct {
		name        string
		conditional bool
		large       bool // so is the other write
		want        error
	}{
		{"large", false, true, object.ErrBusy},
		{"small, conditional", true, false, store.ErrConflict}, {"large, conditional", true, true, store.ErrConflict},
	} {
		other := "other"
		if c.large {
			other = strings.Repeat("o", 200<<10)
		}
		body := &interrupted{rest: strings.Repeat("x", 300<<10), at: 200 << 10, do: func() {
			if _, err := b.Put(t.Context(), c.name, strings.NewReader(other), nil); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}}
		_, err := b.Put(t.Context(), c.name, body, &object.PutOptions{IfAbsent: c.conditional})
		if !errors.Is(err, c.want) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: got %v (%v), want %v", c.name, err, store.OutcomeOf(err), c.want)
		}
		if got, _, err := object.ReadAll(t.Context(), b, c.name, 1<<20, nil); err != nil || string(got) != other {
			t.Errorf("%s: the blob has %d bytes, %v; want the other write", c.name, len(got), err)
		}
	}
}

// interrupted is a body that does something before the byte number at.
type interrupted struct {
	rest string
	at   int
	do   func()
	read int
}

func (r *interrupted) Read(p []byte) (int, error) {
	if r.read >= r.at && r.do != nil {
		// The blocks so far are on their way: let them arrive.
		time.Sleep(300 * time.Millisecond)
		r.do()
		r.do = nil
	}
	n, err := strings.NewReader(r.rest).Read(p[:min(len(p), 32<<10)])
	r.rest, r.read = r.rest[n:], r.read+n
	return n, err
}

// TestLargeCopy: a copy in several blocks takes all of them from one state of the source, with conditions on both
// ends. The host of the server is a name, and the account is in the path.
func TestLargeCopy(t *testing.T) {
	t.Parallel()
	a := azurite(t)
	named := strings.Replace(a.Address(), "127.0.0.1", "localhost", 1)
	b := openBucket(t, a.URL(a.NewContainer(t), named), &azblobbucket.Options{CopyBlockSize: 64 << 10, AssumeAbilities: object.Abilities()})
	body := strings.Repeat("0123456789", 50_000)
	from, err := b.Put(t.Context(), "from", strings.NewReader(body), &object.PutOptions{ContentType: "text/plain", Metadata: map[string]string{"a-b": "c"}})
	if err != nil {
		t.Fatal(err)
	}
	to, err := b.Copy(t.Context(), "from", "to", &object.CopyOptions{SourceIfMatch: from.Version, IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	got, info, err := object.ReadAll(t.Context(), b, "to", 1<<20, nil)
	if err != nil || string(got) != body || info.Version != to.Version || info.ContentType != "text/plain" || info.Metadata["a-b"] != "c" {
		t.Errorf("the copy has %d bytes, %+v, %v", len(got), info, err)
	}
	if _, err := b.Put(t.Context(), "from", strings.NewReader("changed"), nil); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*object.CopyOptions{"source": {SourceIfMatch: from.Version}, "destination": {IfAbsent: true}, "version": {IfMatch: from.Version}} {
		if _, err := b.Copy(t.Context(), "from", "to", o); !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, _, err := object.ReadAll(t.Context(), b, "to", 1<<20, nil); err != nil || string(got) != body {
		t.Errorf("afterwards the copy has %d bytes, %v", len(got), err)
	}
}

// TestBadInput: what is wrong is said in one line, and matches its sentinel.
func TestBadInput(t *testing.T) {
	a := azurite(t)
	name := a.NewContainer(t)
	const wrongKey = "d3JvbmdrZXl3cm9uZ2tleXdyb25na2V5"
	for what, c := range map[string]struct {
		url  string
		key  string
		want error
	}{
		"no such container":     {a.URL("no-such-container", ""), servers.AzuriteKey, store.ErrMisconfigured},
		"a wrong key":           {a.URL(name, ""), wrongKey, store.ErrDenied},
		"TLS where there is no": {strings.Replace(a.URL(name, ""), "http:", "https:", 1), servers.AzuriteKey, store.ErrMisconfigured},
		"nothing listens":       {a.URL(name, "127.0.0.1:1"), servers.AzuriteKey, store.ErrUnavailable},
	} {
		t.Run(what, func(t *testing.T) {
			t.Setenv("AZURE_STORAGE_KEY", c.key)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			b := openBucket(t, c.url, nil)
			_, err := b.Put(ctx, "k", strings.NewReader("x"), nil)
			if !errors.Is(err, c.want) || store.OutcomeOf(err) != store.NotApplied || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), c.key) {
				t.Errorf("got %v (%v)", err, store.OutcomeOf(err))
			}
			t.Log(err)
		})
	}
}

// TestObjectsThroughFaults: four writers count in an object while the proxy drops requests and loses replies. No
// increment is lost or applied twice. Then the object is renamed.
func TestObjectsThroughFaults(t *testing.T) {
	t.Parallel()
	a := azurite(t)
	name := a.NewContainer(t)
	proxy := faultproxy.New(t, "http://"+a.Address())
	url := a.URL(name, strings.TrimPrefix(proxy.URL, "http://"))
	abilities := &azblobbucket.Options{AssumeAbilities: object.Abilities()}
	const writers, each = 4, 25
	var applied, unknown atomic.Int64
	var wg sync.WaitGroup
	proxy.Inject(faultproxy.Random(1, 0.1, nil, faultproxy.Lose(), faultproxy.Drop(), faultproxy.LoseByReset()))
	for range writers {
		c, err := object.New(openBucket(t, url, abilities), nil)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for done := 0; done < each && t.Context().Err() == nil; {
				_, err := c.Update(t.Context(), "counter", func(body []byte, _ object.Info) ([]byte, error) {
					n, _ := strconv.Atoi(string(body))
					return []byte(strconv.Itoa(n + 1)), nil
				}, nil)
				switch {
				case err == nil:
					applied.Add(1)
					done++
				case store.OutcomeOf(err) == store.Unknown:
					unknown.Add(1)
				}
			}
		})
	}
	wg.Wait()
	faults := proxy.Count(func(c *faultproxy.Call) bool { return c.Fault != "" })
	proxy.Heal()
	c, err := object.New(openBucket(t, url, abilities), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := c.ReadAll(t.Context(), "counter", 100, nil)
	n, _ := strconv.ParseInt(string(got), 10, 64)
	if err != nil || n < applied.Load() || n > applied.Load()+unknown.Load() || applied.Load() != writers*each || faults < 20 {
		t.Errorf("the object counts %q (%v) after %d increments that were applied and %d of unknown outcome, and %d faults", got, err, applied.Load(), unknown.Load(), faults)
	}
	if _, err := c.Rename(t.Context(), "counter", "renamed", &object.WriteOptions{IfAbsent: true}); err != nil {
		t.Errorf("rename: %v", err)
	}
	if moved, _, err := c.ReadAll(t.Context(), "renamed", 100, nil); err != nil || string(moved) != string(got) {
		t.Errorf("renamed: %q, %v", moved, err)
	}
	if _, err := c.Stat(t.Context(), "counter"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the source of the rename: %v", err)
	}
	t.Logf("%d faults, %d outcomes unknown", faults, unknown.Load())
}

// TestCredentials: a SAS token and a connection string give access, also to copies. A token that only allows to read is
// refused by one line without the token.
func TestCredentials(t *testing.T) {
	a := azurite(t)
	name := a.NewContainer(t)
	token := func(may sas.ContainerPermissions) string {
		url, err := client(t, name, a.Address()).GetSASURL(may, time.Now().Add(time.Hour), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, token, _ := strings.Cut(url, "?")
		return token
	}
	all := token(sas.ContainerPermissions{Read: true, Add: true, Create: true, Write: true, Delete: true, List: true})
	read := token(sas.ContainerPermissions{Read: true, List: true})
	bare := "azblob://" + servers.AzuriteAccount + "/" + name
	endpoint := "http://" + a.Address() + "/" + servers.AzuriteAccount
	for _, c := range []struct {
		what, url, variable, value string
		want                       error // of a put
	}{
		{"token", a.URL(name, ""), "AZURE_STORAGE_SAS_TOKEN", all, nil},
		{"token with ?", a.URL(name, ""), "AZURE_STORAGE_SAS_TOKEN", "?" + all, nil},
		{"connection string", bare, "AZURE_STORAGE_CONNECTION_STRING", "AccountName=" + servers.AzuriteAccount + ";AccountKey=" + servers.AzuriteKey + ";BlobEndpoint=" + endpoint, nil},
		{"token to read", a.URL(name, ""), "AZURE_STORAGE_SAS_TOKEN", read, store.ErrDenied},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Setenv("AZURE_STORAGE_KEY", "")
			t.Setenv(c.variable, c.value)
			b := openBucket(t, c.url, &azblobbucket.Options{AssumeAbilities: object.Abilities()})
			info, err := b.Put(t.Context(), "k", strings.NewReader("x"), nil)
			if !errors.Is(err, c.want) {
				t.Fatalf("put: %v, want %v", err, c.want)
			}
			if err != nil {
				if sig, _ := url.ParseQuery(c.value); strings.Contains(err.Error(), sig.Get("sig")) || strings.Contains(err.Error(), url.QueryEscape(sig.Get("sig"))) {
					t.Errorf("the error shows the token: %v", err)
				}
				t.Log(err)
				return
			}
			_, err = b.Copy(t.Context(), "k", "copy", &object.CopyOptions{SourceIfMatch: info.Version})
			if err := errors.Join(err, b.Delete(t.Context(), "copy", nil), b.Delete(t.Context(), "k", &object.DeleteOptions{IfMatch: info.Version})); err != nil {
				t.Error(err)
			}
		})
	}
}

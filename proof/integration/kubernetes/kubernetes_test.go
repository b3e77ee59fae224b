// Package kubernetes_test tests the registers in Lease objects on a real API server of Kubernetes.
package kubernetes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/kubernetes/kubestore"
	"github.com/holdfast-go/holdfast/proof/integration/registers"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

// newNamespace creates a namespace and returns its name.
func newNamespace(t testing.TB, server *servers.Kubernetes) string {
	t.Helper()
	name := servers.Unique("ns")
	create(t, server, "/api/v1/namespaces", fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name))
	return name
}

func create(t testing.TB, server *servers.Kubernetes, path, object string) {
	t.Helper()
	if status := server.Ask(t, http.MethodPost, path, object); status != http.StatusCreated {
		t.Fatalf("POST %s: status %d", path, status)
	}
}

// open opens the registers at k8s://PLACE with a kubeconfig.
func open(t testing.TB, place, kubeconfig string) *kubestore.Store {
	t.Helper()
	st, err := kubestore.Open(t.Context(), "k8s://"+place+"?kubeconfig="+kubeconfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

// TestKubernetes: the suites on an API server, while connections are cut, and while it and etcd are killed.
func TestKubernetes(t *testing.T) {
	registers.Kind{
		Start: func(t *testing.T) registers.Server { return servers.NewKubernetes(t) },
		NewSpace: func(t *testing.T, server registers.Server) registers.Open {
			k := server.(*servers.Kubernetes)
			place := newNamespace(t, k) + "/pre/fix"
			return func(t testing.TB, address string) store.Store {
				return open(t, place, k.Kubeconfig(t, address, servers.KubeAdmin))
			}
		},
	}.Run(t)
}

// TestDeletedObject: a write does not create an object that another program has deleted, although the API server
// creates a Lease object for a PUT with any resourceVersion. The condition on the uid prevents it.
func TestDeletedObject(t *testing.T) {
	t.Parallel()
	k := servers.NewKubernetes(t)
	ns := newNamespace(t, k)
	config := k.Kubeconfig(t, k.Address(), servers.KubeAdmin)
	st := open(t, ns+"/app", config)
	version, err := st.Put(t.Context(), "job", "", []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Erase(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Put(t.Context(), "job", version, []byte("two")); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a put over an object that was deleted: %v", err)
	}
	if _, _, err := st.Get(t.Context(), "job"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("then a get: %v", err)
	}
	// The control: without the uid, the API server creates the object.
	path := "/apis/coordination.k8s.io/v1/namespaces/" + ns + "/leases/other"
	object := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"other","resourceVersion":"1"}}`
	for _, want := range []int{http.StatusCreated, http.StatusConflict} {
		if got := k.Ask(t, http.MethodPut, path, object); got != want {
			t.Errorf("a PUT without a uid: status %d, want %d", got, want)
		}
	}
}

// TestKubernetesErrors: what is wrong is reported by one line that says what to do, with the right sentinel.
func TestKubernetesErrors(t *testing.T) {
	t.Parallel()
	k := servers.NewKubernetes(t)
	ns := newNamespace(t, k)
	otherCert, _ := servers.Certificate(t)
	admin, user := k.Kubeconfig(t, k.Address(), servers.KubeAdmin), k.Kubeconfig(t, k.Address(), servers.KubeUser)
	other := *k
	other.Cert = otherCert
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for _, c := range []struct {
		name, place, config string
		want                error
		outcome             store.Outcome
		text                string
	}{
		{"good", ns + "/app", admin, nil, store.Applied, ""},
		{"no namespace", "none/app", admin, store.ErrMisconfigured, store.NotApplied, "kubectl create namespace none"},
		{"no rights", ns + "/app", user, store.ErrDenied, store.NotApplied, "a role must allow get, list"},
		{"a wrong token", ns + "/app", k.Kubeconfig(t, k.Address(), "wrong"+servers.KubeAdmin), store.ErrCredentials, store.NotApplied, "not valid"},
		{"a wrong certificate", ns + "/app", other.Kubeconfig(t, k.Address(), servers.KubeAdmin), store.ErrMisconfigured, store.NotApplied, "certificate authority"},
		{"no server", ns + "/app", k.Kubeconfig(t, "127.0.0.1:1", servers.KubeAdmin), store.ErrUnavailable, store.NotApplied, "connection refused"},
		{"a web server", ns + "/app", k.Kubeconfig(t, web.Listener.Addr().String(), servers.KubeAdmin), store.ErrMisconfigured, store.NotApplied, "does not speak TLS"},
		{"a server that closes the connection", ns + "/app", k.Kubeconfig(t, k.Etcd.Address(), servers.KubeAdmin), store.ErrUnavailable, store.Unknown, "EOF"},
	} {
		st := open(t, c.place, c.config)
		if err := st.Verify(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("%s: Verify: %v, want %v", c.name, err, c.want)
		}
		_, err := st.Put(t.Context(), servers.Unique("key"), "", make([]byte, store.MaxValue))
		if c.want == nil {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if !errors.Is(err, c.want) || store.OutcomeOf(err) != c.outcome || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), servers.KubeAdmin) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v (%v); want %v, %v, %q", c.name, err, store.OutcomeOf(err), c.want, c.outcome, c.text)
		}
	}
}

// allow applies the role in the folder policies to the user of a namespace, without a verb.
func allow(t *testing.T, k *servers.Kubernetes, ns, without string) {
	t.Helper()
	text, err := os.ReadFile("../../../policies/kubernetes/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policy := strings.NewReplacer("namespace: jobs", "namespace: "+ns, "kind: ServiceAccount\n    name: worker\n    namespace: jobs", "kind: User\n    name: ada").Replace(string(text))
	if without != "" {
		policy = strings.Replace(policy, ", "+without, "", 1)
	}
	role, binding, _ := strings.Cut(policy, "\n---\n")
	create(t, k, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+ns+"/roles", role)
	create(t, k, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+ns+"/rolebindings", binding)
}

// TestRecipes: the API server accepts the manifests in examples/recipes, and refuses an unknown field.
func TestRecipes(t *testing.T) {
	t.Parallel()
	k := servers.NewKubernetes(t)
	ns := newNamespace(t, k)
	for file, path := range map[string]string{
		"cronjob.yaml":    "/apis/batch/v1/namespaces/" + ns + "/cronjobs",
		"deployment.yaml": "/apis/apps/v1/namespaces/" + ns + "/deployments",
	} {
		text, err := os.ReadFile("../../../examples/recipes/" + file)
		if err != nil {
			t.Fatal(err)
		}
		manifest := strings.Replace(string(text), "namespace: jobs", "namespace: "+ns, 1)
		path += "?dryRun=All&fieldManager=test&fieldValidation=Strict"
		create(t, k, path, manifest)
		wrong := strings.Replace(manifest, "serviceAccountName:", "serviceAccount1:", 1) // the control
		if status := k.Ask(t, http.MethodPost, path, wrong); status != http.StatusBadRequest {
			t.Errorf("%s with an unknown field: status %d, want %d", file, status, http.StatusBadRequest)
		}
	}
}

// TestKubernetesCommand: the command takes locks in Lease objects, and doctor reports the rights.
func TestKubernetesCommand(t *testing.T) {
	t.Parallel()
	bin := servers.BuildCommand(t)
	k := servers.NewKubernetes(t)
	ns := newNamespace(t, k)
	allow(t, k, ns, "delete")
	full := newNamespace(t, k)
	allow(t, k, full, "")
	home := t.TempDir()
	admin, user := k.Kubeconfig(t, k.Address(), servers.KubeAdmin), k.Kubeconfig(t, k.Address(), servers.KubeUser)
	holdfast := func(config string, args ...string) (said string, status int) {
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME=", "KUBECONFIG="+config)
		out, _ := cmd.CombinedOutput() // the status is looked at
		return string(out), cmd.ProcessState.ExitCode()
	}
	at := "k8s://" + ns + "/app"
	for _, c := range []struct {
		config string
		args   []string
		status int
		text   string
	}{
		{admin, []string{"--store", at, "init"}, 0, ""},
		{user, []string{"--store", at, "run", "job", "--", "echo", "has run"}, 0, "has run"},
		{user, []string{"--store", at, "ls", "--all"}, 0, "job"},
		{user, []string{"--store", at + "?context=none", "ls"}, 78, "kubectl config get-contexts"},
		{user, []string{"--store", "k8s://" + ns, "ls"}, 64, "k8s://NAMESPACE/PREFIX"},
		{user, []string{"--store", "k8s://default/app", "ls"}, 77, "a role must allow"},
		{"/none", []string{"--store", at, "ls"}, 78, "the kubeconfig"},
	} {
		if said, status := holdfast(c.config, c.args...); status != c.status || !strings.Contains(said, c.text) {
			t.Errorf("holdfast %s: status %d, %s; want status %d and %q", strings.Join(c.args, " "), status, said, c.status, c.text)
		}
	}
	for ns, want := range map[string]string{full: "ok", ns: "warning"} {
		cmd := exec.CommandContext(t.Context(), bin, "--store", "k8s://"+ns+"/app", "--json", "doctor")
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_STATE_HOME=", "KUBECONFIG="+user)
		out, _ := cmd.Output() // the report says what is wrong
		var report struct {
			Kind   string
			Safe   bool
			Checks []struct{ ID, Result string }
			Left   []string `json:"leftovers"`
		}
		if err := json.Unmarshal(out, &report); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		found := map[string]string{}
		for _, check := range report.Checks {
			found[check.ID] = check.Result
		}
		if !report.Safe || report.Kind != "kubernetes" || found["rights"] != want || found["fsync"] != "not_tested" || want == "ok" && len(report.Left) > 0 {
			t.Errorf("doctor, %s: %s", want, out)
		}
	}
}

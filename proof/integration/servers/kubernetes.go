package servers

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

const (
	kubePackage = "k8s.io/kubernetes"
	kubeVersion = "v1.34.1"

	// KubeAdmin and KubeUser are tokens: of a user who may do everything, and of the user ada who has no rights.
	KubeAdmin = "zq7admin7token"
	KubeUser  = "zq7user7token"
)

// Kubernetes is an API server of Kubernetes, with a server of etcd, for tests.
type Kubernetes struct {
	*Restartable // the API server
	Etcd         *Etcd
	Cert         string // file of the server's certificate
}

// Kill ends both servers as kill -9 does.
func (k *Kubernetes) Kill() {
	k.Restartable.Kill()
	k.Etcd.Kill()
}

// Start starts both servers with the data that they had.
func (k *Kubernetes) Start(ctx context.Context) error {
	if err := k.Etcd.Start(ctx); err != nil {
		return err
	}
	return k.Restartable.Start(ctx)
}

// NewKubernetes starts an API server without data. When the test ends, the servers end.
func NewKubernetes(t testing.TB) *Kubernetes {
	t.Helper()
	k := &Kubernetes{Etcd: NewEtcd(t)}
	dir := t.TempDir()
	var key string
	k.Cert, key = Certificate(t)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	accounts, tokens := filepath.Join(dir, "accounts.pem"), filepath.Join(dir, "tokens.csv")
	for file, text := range map[string][]byte{
		accounts: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}),
		tokens:   []byte(KubeAdmin + ",admin,1,system:masters\n" + KubeUser + ",ada,2,\n"),
	} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin := get(t, "kube-apiserver", kubeAPIServer)
	k.Restartable = newRestartable("kube-apiserver", func(address string) (*exec.Cmd, error) {
		return exec.Command(bin, "--etcd-servers=http://"+k.Etcd.Address(), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+portOf(address),
			"--tls-cert-file="+k.Cert, "--tls-private-key-file="+key, "--token-auth-file="+tokens, "--authorization-mode=RBAC",
			"--service-account-key-file="+accounts, "--service-account-signing-key-file="+accounts, "--service-account-issuer=https://kubernetes.default.svc",
			"--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount"), nil
	}, func(ctx context.Context, address string) error {
		status, err := k.ask(ctx, address, http.MethodGet, "/readyz", "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
	k.startFor(t)
	return k
}

// Ask sends a request as the administrator, and returns the status of the answer.
func (k *Kubernetes) Ask(t testing.TB, method, path, body string) (status int) {
	t.Helper()
	status, err := k.ask(t.Context(), k.Address(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func (k *Kubernetes) ask(ctx context.Context, address, method, path, body string) (status int, err error) {
	client, err := trusting(k.Cert)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://"+address+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+KubeAdmin)
	r.Header.Set("Content-Type", "application/yaml") // JSON is YAML, too
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

// Kubeconfig writes a kubeconfig for an address of the API server, or of a proxy to it, with a token.
func (k *Kubernetes) Kubeconfig(t testing.TB, address, token string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("current-context: test\ncontexts: [{name: test, context: {cluster: c, user: u}}]\n"+
		"clusters: [{name: c, cluster: {server: 'https://%s', certificate-authority: %q}}]\nusers: [{name: u, user: {token: %q}}]\n", address, k.Cert, token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// unreleased are the modules that the go.mod of Kubernetes requires without a version, because it replaces them by
// directories.
var unreleased = regexp.MustCompile(`(?m)^\s*(k8s\.io/[\w.-]+) v0\.0\.0$`)

// kubeAPIServer returns the path of kube-apiserver. "go install" refuses a module that replaces others, so this
// builds it in a module of its own, with the same replacements by released versions.
func kubeAPIServer(ctx context.Context) (string, error) {
	dir, err := cached(fmt.Sprintf("kube-apiserver-%s-%s-%s", kubeVersion, runtime.GOOS, runtime.GOARCH), func(dir string) error {
		_, goMod, err := goModule(ctx, dir, kubePackage, kubeVersion)
		if err != nil {
			return err
		}
		requires, err := os.ReadFile(goMod)
		if err != nil {
			return err
		}
		text := "module kubeapiserver\n\ngo 1.25.0\n\nrequire " + kubePackage + " " + kubeVersion + "\n"
		for _, m := range unreleased.FindAllStringSubmatch(string(requires), -1) {
			text += fmt.Sprintf("replace %s => %s v0%s\n", m[1], m[1], strings.TrimPrefix(kubeVersion, "v1"))
		}
		program := "package tools\n\nimport _ \"" + kubePackage + "/cmd/kube-apiserver/app\"\n"
		for name, text := range map[string]string{"go.mod": text, "tools.go": program} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				return err
			}
		}
		if out, err := goCommand(ctx, dir, "mod", "tidy").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, tail(out))
		}
		return runWithProgress(goCommand(ctx, dir, "build", "-ldflags=-s -w", "-o", "kube-apiserver", kubePackage+"/cmd/kube-apiserver"),
			"building kube-apiserver "+kubeVersion+" (once; it takes some minutes)")
	})
	return filepath.Join(dir, "kube-apiserver"), err
}

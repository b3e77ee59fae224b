package hostile_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/store"
)

const (
	accessKey = "AKIATESTACCESSKEY"
	secretKey = "wJalrXUtnFEMI/K7MDENG+secret"
	token     = "FwoGZXIvYXdzEXAMPLE//////////wEa+token=="
)

// environment gives the SDK credentials and keeps it from those of this machine.
func environment(t *testing.T, more map[string]string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey, "AWS_SESSION_TOKEN": token,
		"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_REGION": "us-east-1", "AWS_PROFILE": "", "AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_ENDPOINT_URL_DYNAMODB": "",
	} {
		t.Setenv(name, value)
	}
	for name, value := range more {
		t.Setenv(name, value)
	}
}

// stores opens registers on both services at one address.
func stores(t *testing.T, query string) map[string]store.Store {
	t.Helper()
	s, err := s3store.Open(t.Context(), "s3://bucket?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dynamostore.Open(t.Context(), "dynamodb://table?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]store.Store{"s3": s, "dynamodb": d}
}

var signature = regexp.MustCompile("Signature=[0-9a-f]")

func wantNoSecret(t *testing.T, err error, secrets ...string) {
	t.Helper()
	text := fmt.Sprintf("%v %+v", err, err)
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("the message tells %q: %v", s, err)
		}
	}
	if signature.MatchString(text) {
		t.Errorf("the message tells the signature: %v", err)
	}
	if strings.Contains(text, "\n") {
		t.Errorf("a message of several lines: %q", err)
	}
}

// What a server makes of a secret of the request, or of a part of it, is no more shown than the
// secret itself; a message that only looks like one is.
func TestServerThatAltersSecrets(t *testing.T) {
	environment(t, nil)
	encode := base64.StdEncoding.EncodeToString
	for name, alter := range map[string]func(string) string{
		"upper case":      strings.ToUpper,
		"escaped":         func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "w", "%77") },
		"escaped twice":   func(s string) string { return url.QueryEscape(url.QueryEscape(strings.ReplaceAll(s, "w", "/w"))) },
		"as entities":     func(s string) string { return strings.ReplaceAll(s, "w", "&amp;#119;") },
		"in groups":       func(s string) string { return strings.Join(strings.Split(s, ""), " ") },
		"quoted":          func(s string) string { return strings.Join(strings.Split(s, ""), "','") },
		"reversed":        func(s string) string { r := []rune(s); slices.Reverse(r); return string(r) },
		"Base64":          func(s string) string { return encode([]byte(s)) },
		"Base64, moved":   func(s string) string { return encode([]byte("x" + s)) },
		"Base64, moved 2": func(s string) string { return encode([]byte("xy" + s)) },
		"hexadecimal":     func(s string) string { return hex.EncodeToString([]byte(s)) },
		"its end":         func(s string) string { return s[len(s)-12:] },
		"its middle":      func(s string) string { return s[3:15] },
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			told := "go away, " + alter(r.Header.Get("X-Amz-Security-Token"))
			w.Header().Set("Location", "https://"+url.PathEscape(alter(r.Header.Get("X-Amz-Security-Token")))+".example/")
			w.Header().Set("X-Amz-Bucket-Region", alter(r.Header.Get("X-Amz-Security-Token")))
			status := []int{307, 400, 403}[len(r.URL.Path)%3]
			w.WriteHeader(status)
			if r.Header.Get("X-Amz-Target") != "" {
				fmt.Fprintf(w, `{"__type":"SomeException","message":%q}`, told)
				return
			}
			fmt.Fprintf(w, "<Error><Code>AuthorizationHeaderMalformed</Code><Message>%s</Message></Error>", told)
		}))
		for kind, st := range stores(t, "endpoint="+srv.URL) {
			for _, key := range []string{"k", "kk", "kkk"} {
				_, _, err := st.Get(t.Context(), key)
				if err == nil {
					t.Errorf("%s, %s: read", kind, name)
				}
				wantNoSecret(t, err, token[3:15], alter(token))
			}
		}
		srv.Close()
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(400)
		fmt.Fprint(w, "<Error><Code>Other</Code><Message>The security token included in the example is FwoGZXI, example no. 0123456789abcdef</Message></Error>")
	}))
	defer srv.Close()
	if _, _, err := stores(t, "endpoint="+srv.URL)["s3"].Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "0123456789abcdef") {
		t.Errorf("the control: %v", err)
	}
}

// A server that answers with the request, as a service does that says what a
// signature should have been computed from, or an address of something else.
func TestServerThatRepeatsTheRequest(t *testing.T) {
	environment(t, nil)
	for _, status := range []int{200, 400, 403, 500} {
		for _, cut := range []int{1 << 20, 50} { // the server itself may shorten its message
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				told := "x-amz-security-token:" + r.Header.Get("X-Amz-Security-Token") + "\n" + r.Header.Get("Authorization")
				if auth := r.Header.Get("Authorization"); strings.Contains(auth, "Signature=") && cut > 1000 {
					told = auth[strings.Index(auth, "Signature="):] + "\n" + told
				}
				told = told[:min(cut, len(told))]
				if r.Header.Get("X-Amz-Target") != "" {
					w.WriteHeader(status)
					fmt.Fprintf(w, `{"__type":"InvalidSignatureException","message":%q}`, told)
					return
				}
				w.WriteHeader(status)
				fmt.Fprintf(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>%s</Message></Error>", told)
			}))
			for name, st := range stores(t, "endpoint="+srv.URL) {
				_, err := st.Put(t.Context(), "k", "", []byte("1"))
				if err == nil {
					t.Errorf("%s, status %d: written", name, status)
				}
				wantNoSecret(t, err, accessKey, secretKey, token, token[:20])
				_, _, err = st.Get(t.Context(), "k")
				wantNoSecret(t, err, accessKey, secretKey, token, token[:20])
			}
			srv.Close()
		}
	}
}

// The SDK shows what the program printed from which a profile takes its
// credentials: the credentials themselves, when they are not quite of the right form.
func TestCredentialProcess(t *testing.T) {
	dir := t.TempDir()
	printed := filepath.Join(dir, "printed")
	config := filepath.Join(dir, "config")
	for path, content := range map[string]string{
		printed: `{"Version":1,"AccessKeyId":"` + accessKey + `","SecretAccessKey":"` + secretKey + `"} and more`,
		config:  "[default]\ncredential_process = cat " + printed + "\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environment(t, map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_CONFIG_FILE": config})
	for name, st := range stores(t, "endpoint=http://127.0.0.1:1") {
		_, _, err := st.Get(t.Context(), "k")
		if err == nil || !strings.Contains(err.Error(), "credential_process") {
			t.Errorf("%s: %v", name, err)
		}
		wantNoSecret(t, err, accessKey, secretKey)
	}
}

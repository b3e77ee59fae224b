//go:build linux

package command

import (
	"bytes"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/allstores"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// No command on objects repeats a secret that is in a URL, wherever it is in it.
func TestSecretsInObjectURLs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	ownState(t, dir)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	if err := os.WriteFile("source", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	forms := append([]string{}, secretForms...)
	for _, form := range secretForms {
		if strings.Contains(form, "u:PASSWORD@") {
			for _, name := range []string{"reserve", "index", "conditional_put", "dynamo_endpoint", "conditional_put=dynamo:t&dynamo_endpoint"} {
				forms = append(forms, "SCHEME://host/x?region=r&"+name+"="+url.QueryEscape(strings.Replace(form, "SCHEME", "s3", 1)))
			}
		}
	}
	for _, name := range append([]string{"index", "unique_bodies"}, allstores.ReservationParameters...) {
		forms = append(forms, "SCHEME://host/x?region=r&"+name+"=PASSWORD", "SCHEME://host/x?region=r&"+name+"=dynamo:PASSWORD:PASSWORD")
	}
	for _, form := range forms {
		for _, scheme := range []string{"file", "s3", "http"} {
			if scheme == "file" && form == "SCHEME:/u:PASSWORD" {
				continue // a name of a directory or file like any other
			}
			raw := strings.ReplaceAll(strings.Replace(form, "SCHEME", scheme, 1), "PASSWORD", password)
			for _, args := range [][]string{
				{"put", "source", raw}, {"get", raw}, {"object", "stat", raw, "--json"}, {"object", "rm", raw}, {"object", "ls", "--recursive", raw},
				{"object", "cp", raw, "file:bucket/x"}, {"object", "cp", "file:bucket/x", raw}, {"object", "mv", raw, raw},
			} {
				var out bytes.Buffer
				if status := execute(args, strings.NewReader(""), &out, &out); status == exit.OK {
					t.Fatalf("%s: accepted: %s", strings.Join(args, " "), out.String())
				}
				if strings.Contains(out.String(), password) {
					t.Fatalf("%s: %s", strings.Join(args, " "), out.String())
				}
			}
		}
	}
}

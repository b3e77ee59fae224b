package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// doctorReport is what holdfast doctor --json prints, as far as it is looked at.
type doctorReport struct {
	Safe   bool
	Checks []struct{ ID, Result, Found, Means string }
	Left   []string
}

// unlike returns the checks that are not ok.
func (r doctorReport) unlike() map[string]string {
	found := make(map[string]string)
	for _, c := range r.Checks {
		if c.Result != "ok" {
			found[c.ID] = c.Result
		}
	}
	return found
}

// examine runs holdfast doctor and returns what it says and its exit status.
func examine(t *testing.T, holdfast, url string, env []string) (r doctorReport, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), holdfast, "--store", url, "--json", "doctor")
	cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir(), "XDG_STATE_HOME="), env...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s%s", err, out, &complaint)
	}
	t.Logf("%s: %v", url, r.unlike())
	for _, c := range r.Checks {
		if c.Result != "ok" {
			t.Logf("%s: %s: %s: %s", c.ID, c.Result, c.Found, c.Means)
		}
	}
	if len(r.Left) > 0 {
		t.Errorf("could not be removed: %q", r.Left)
	}
	return r, cmd.ProcessState.ExitCode()
}

// TestDoctor runs holdfast doctor, as users do, against all servers.
func TestDoctor(t *testing.T) {
	t.Parallel()
	holdfast := servers.BuildCommand(t)
	for name, test := range map[string]func(*testing.T, string){
		"s3": doctorS3, "ignored conditions": doctorIgnoredConditions, "rights": doctorRights, "dynamodb": doctorDynamoDB,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, holdfast)
		})
	}
}

// doctorS3: the real servers keep what leases need, with versions and without,
// what else they lack is reported, and nothing is left, no old version either.
func doctorS3(t *testing.T, holdfast string) {
	// What a server lacks, measured: anything else is news.
	lacks := map[string]map[string]string{
		"minio":     {"delete-if-match": "warning", "delete-if-match-or-absent": "warning", "copy-if-absent": "warning", "copy-if-match": "warning"},
		"versitygw": {"delete-if-match": "warning", "copy-if-absent": "warning", "copy-if-match": "warning"},
	}
	for name, start := range s3Servers() {
		for _, versioned := range []bool{false, true} {
			where := name
			if versioned {
				where += " with versions"
			}
			t.Run(where, func(t *testing.T) {
				server := start(t)
				bucket := server.NewBucket(t, versioned)
				r, status := examine(t, holdfast, "s3://"+bucket+"/app?endpoint="+server.Endpoint, server.Env())
				if status != 0 || !r.Safe {
					t.Errorf("status %d, safe: %v", status, r.Safe)
				}
				for id, result := range r.unlike() {
					if result != lacks[name][id] && !(versioned && (id == "versioning" || id == "deleted-object")) && result != "not_tested" {
						t.Errorf("%s: %s", id, result)
					}
				}
				out, err := server.Client().ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &bucket})
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range out.Versions {
					t.Errorf("left behind: %s", aws.ToString(v.Key))
				}
				for _, m := range out.DeleteMarkers {
					t.Errorf("left behind: the delete marker of %s", aws.ToString(m.Key))
				}
			})
		}
	}
}

// doctorIgnoredConditions: a real server whose conditions are taken out is reported
// from a good one.
func doctorIgnoredConditions(t *testing.T, holdfast string) {
	for _, header := range []string{"If-None-Match", "If-Match"} {
		t.Run(header, func(t *testing.T) {
			server := ignoringServer(t, set.MinIO(t), header)
			r, status := examine(t, holdfast, "s3://"+server.NewBucket(t, false)+"/app?endpoint="+server.Endpoint, server.Env())
			if status != 78 || r.Safe {
				t.Errorf("status %d, safe: %v", status, r.Safe)
			}
		})
	}
}

// doctorRights: missing rights are named.
func doctorRights(t *testing.T, holdfast string) {
	server := set.MinIO(t)
	bucket := server.NewBucket(t, false)
	for right, statements := range map[string]string{
		"s3:PutObject": statement(`"s3:GetObject","s3:DeleteObject"`, bucket+"/*"),
		"s3:GetObject": statement(`"s3:PutObject","s3:DeleteObject"`, bucket+"/*"),
	} {
		t.Run(right, func(t *testing.T) {
			client := restricted(t, server, `{"Version":"2012-10-17","Statement":[`+statements+`,`+statement(`"s3:ListBucket"`, bucket)+`]}`)
			keys, err := client.Options().Credentials.Retrieve(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			env := []string{"AWS_ACCESS_KEY_ID=" + keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + keys.SecretAccessKey, "AWS_SESSION_TOKEN=" + keys.SessionToken}
			r, status := examine(t, holdfast, "s3://"+bucket+"/app?endpoint="+server.Endpoint, env)
			if status != 77 || r.unlike()["right-"+right] != "not_tested" {
				t.Errorf("status %d, %v", status, r.unlike())
			}
		})
	}
}

// doctorDynamoDB: a table that holdfast init made passes, and nothing is left in
// it; one that is not there is reported.
func doctorDynamoDB(t *testing.T, holdfast string) {
	server := set.DynamoDB(t)
	table := servers.Unique("table")
	url := "dynamodb://" + table + "/app?endpoint=" + server.Endpoint
	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), holdfast, append([]string{"--store", url}, args...)...)
		cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir(), "XDG_STATE_HOME="), server.Env()...)
		out, _ := cmd.CombinedOutput() // the status is checked
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, status := run("doctor"); status != 78 || !strings.Contains(out, "holdfast init creates it") {
		t.Errorf("no table: status %d: %s", status, out)
	}
	if out, status := run("init"); status != 0 {
		t.Fatalf("init: status %d: %s", status, out)
	}
	r, status := examine(t, holdfast, url, server.Env())
	if status != 0 || !r.Safe || len(r.unlike()) > 0 {
		t.Errorf("status %d, safe: %v, %v", status, r.Safe, r.unlike())
	}
	out, err := server.Client().Scan(t.Context(), &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	if err != nil || len(out.Items) > 0 {
		t.Errorf("left behind: %v, %v", out.Items, err)
	}
}

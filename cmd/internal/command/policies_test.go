package command

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
)

// policy is a policy of IAM, as in the folder policies.
type policy struct {
	Version   string
	Statement []struct {
		Sid, Effect, Resource string
		Action                actions
	}
}

// actions is one action or a list of them.
type actions []string

func (a *actions) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		*a = make(actions, 1)
		return json.Unmarshal(b, &(*a)[0])
	}
	return json.Unmarshal(b, (*[]string)(a))
}

func readPolicy(t *testing.T, name string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../policies/aws", name))
	if err != nil {
		t.Fatal(err)
	}
	var p policy
	if err := json.Unmarshal(text, &p); err != nil || p.Version != "2012-10-17" || len(p.Statement) == 0 {
		t.Fatalf("%s: %v, %+v", name, err, p)
	}
	for _, s := range p.Statement {
		bucket := regexp.MustCompile(`^arn:aws:s3:::BUCKET$`).MatchString(s.Resource)
		for _, action := range s.Action {
			all = append(all, action)
			// Actions on a bucket and on its objects have resources of different forms.
			if strings.HasPrefix(action, "s3:") && bucket != onBucket[action] {
				t.Errorf("%s: %s on %s", name, action, s.Resource)
			}
		}
		if s.Sid == "" || s.Effect != "Allow" {
			t.Errorf("%s: %+v", name, s)
		}
	}
	return all
}

// onBucket are the actions whose resource is the bucket itself.
var onBucket = map[string]bool{
	"s3:ListBucket": true, "s3:ListBucketVersions": true, "s3:ListBucketMultipartUploads": true, "s3:GetBucketVersioning": true,
	"s3:GetLifecycleConfiguration": true, "s3:GetBucketObjectLockConfiguration": true,
}

// actionsOf returns the actions that a request needs.
func actionsOf(r awstest.Request) []string {
	version := r.URL.Query().Has("versionId")
	switch r.Op {
	case "PutObject":
		if r.Header.Get("X-Amz-Tagging") != "" {
			return []string{"s3:PutObject", "s3:PutObjectTagging"}
		}
		return []string{"s3:PutObject"}
	case "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload":
		return []string{"s3:PutObject"}
	case "CopyObject", "UploadPartCopy":
		return []string{"s3:PutObject", "s3:GetObject"}
	case "GetObject", "HeadObject":
		if version {
			return []string{"s3:GetObjectVersion"}
		}
		return []string{"s3:GetObject"}
	case "DeleteObject":
		if version {
			return []string{"s3:DeleteObjectVersion"}
		}
		return []string{"s3:DeleteObject"}
	case "DeleteObjects":
		if strings.Contains(string(r.Body), "<VersionId>") {
			return []string{"s3:DeleteObjectVersion"}
		}
		return []string{"s3:DeleteObject"}
	case "ListObjectsV2", "HeadBucket":
		return []string{"s3:ListBucket"}
	case "ListObjectVersions":
		return []string{"s3:ListBucketVersions"}
	case "ListParts":
		return []string{"s3:ListMultipartUploadParts"}
	case "ListMultipartUploads":
		return []string{"s3:ListBucketMultipartUploads"}
	case "GetBucketLifecycleConfiguration":
		return []string{"s3:GetLifecycleConfiguration"}
	case "GetObjectLockConfiguration":
		return []string{"s3:GetBucketObjectLockConfiguration"}
	case "AbortMultipartUpload", "GetBucketVersioning":
		return []string{"s3:" + r.Op}
	}
	return []string{"dynamodb:" + r.Op}
}

// TestPolicies: a policy allows what its commands send to the server, and nothing that they
// never send. The stand-ins are servers that are not Amazon's, to which the tests of conditions are
// sent as well.
func TestPolicies(t *testing.T) {
	t.Parallel()
	bucket := awstest.NewS3("bucket")
	tables := awstest.NewDynamoDB()
	atBucket, end := serve(bucket)
	t.Cleanup(end)
	versioned := awstest.NewS3("bucket")
	versioned.Versioning = "Enabled"
	atVersioned, end := serve(versioned)
	t.Cleanup(end)
	atTables, end := serve(tables)
	t.Cleanup(end)
	atTables = strings.Replace(atTables, "path_style=true&", "", 1)
	p := newPlace(t)
	for name, size := range map[string]int{"small": 7, "large": 9 << 20} {
		if err := os.WriteFile(filepath.Join(p.dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	locks := [][]string{
		{"run", "job", "--", "true"}, {"run", "job", "--shared", "--", "true"}, {"ls"}, {"show", "job"},
		{"checkpoint", "advance", "orders", "7"}, {"checkpoint", "ls"}, {"bench", "--rounds", "1"},
	}
	sweep := []string{"sweep", "--older-than", "24h"}
	object := "s3://bucket/a/b?" + atBucket
	reserved := "s3://bucket/r?" + atBucket + "&reserve=" + strings.NewReplacer(":", "%3A", "?", "%3F", "&", "%26", "=", "%3D", "/", "%2F").Replace("dynamodb://reserved?"+atTables)
	items := []string{"--table", "dynamodb://items?" + atTables, "--bucket", "file:" + filepath.Join(p.dir, "objects")}
	item := func(args ...string) []string { return append(append([]string{"item"}, args...), items...) }
	for _, c := range []struct {
		policies string
		store    string
		commands [][]string
		rest     map[string]string // actions that the commands do not send here, and when they do
	}{
		{"dynamodb-init.json dynamodb-locks.json", "dynamodb://locks?" + atTables, [][]string{
			{"init"}, {"--store", reserved, "init"}, item("init"),
		}, map[string]string{"dynamodb:Query": "by ls", "dynamodb:DeleteItem": "by sweep"}},
		{"dynamodb-locks.json", "dynamodb://locks/app?" + atTables, append(locks, []string{"doctor"}, sweep), nil},
		{"s3-locks.json", "s3://bucket/app?" + atBucket, locks, nil},
		{"s3-doctor.json s3-locks.json", "s3://bucket/app?" + atBucket, [][]string{{"doctor"}, sweep}, nil},
		{"s3-objects.json", "", [][]string{
			{"put", "small", object}, {"put", "large", object}, {"get", object}, {"object", "stat", object},
			{"object", "cp", object, "s3://bucket/a/c?" + atBucket}, {"object", "mv", object, "s3://bucket/a/d?" + atBucket},
			{"object", "ls", "s3://bucket/a/?" + atBucket}, {"object", "rm", "s3://bucket/a/c?" + atBucket},
			{"commit-log", "append", "s3://bucket/log?" + atBucket, "small"}, {"commit-log", "read", "s3://bucket/log?" + atBucket},
		}, map[string]string{"s3:AbortMultipartUpload": "after a failed put", "s3:PutObjectTagging": "by item put --tag", "s3:ListMultipartUploadParts": "to continue an interrupted put"}},
		{"s3-sweep.json", "", [][]string{{"object", "sweep", "s3://bucket/a/?" + atBucket}},
			map[string]string{"s3:ListMultipartUploadParts": "of an upload", "s3:AbortMultipartUpload": "of an old upload"}},
		{"dynamodb-reservations.json", "", [][]string{
			{"put", "small", reserved, "--if-absent"}, {"object", "reservations", reserved}, {"--store", reserved, "doctor"},
		}, map[string]string{"dynamodb:DescribeTimeToLive": "by doctor"}},
		{"dynamodb-items.json", "", [][]string{
			item("put", "a", "--attr", "html=@small"), item("put", "a", "--set", `{"n":1}`, "--if-exists"), item("put", "a", "--attr", "html=@small", "--replace"), item("get", "a"), item("ls"),
			item("verify"), item("sweep", "--scan"), item("rm", "a"),
		}, map[string]string{"dynamodb:BatchGetItem": "by a sweep without --scan, of objects that seem unused"}},
		{"s3-versioned-locks.json", "s3+versioned://bucket/versions?" + atVersioned + "&put_lifetime=1s", locks[:4], map[string]string{
			"s3:DeleteObjectVersion": "by later writes, which remove old versions",
			"s3:GetObject":           "if a request names no version", "s3:ListBucket": "if an object does not exist: S3 answers 403 without it",
		}},
	} {
		t.Run(c.policies, func(t *testing.T) {
			bucket.Reset()
			versioned.Reset()
			tables.Reset()
			for _, args := range c.commands {
				p.must(t, cmp.Or(c.store, "file:"+filepath.Join(p.dir, "locks")), args...)
			}
			used := map[string]bool{}
			for _, r := range slices.Concat(bucket.Requests(), versioned.Requests(), tables.Requests()) {
				for _, action := range actionsOf(r) {
					if strings.HasPrefix(action, "dynamodb:") == strings.HasPrefix(c.policies, "dynamodb") {
						used[action] = true
					}
				}
			}
			var allowed []string
			for name := range strings.FieldsSeq(c.policies) {
				allowed = append(allowed, readPolicy(t, name)...)
			}
			for _, action := range slices.Sorted(maps.Keys(used)) {
				if !slices.Contains(allowed, action) {
					t.Errorf("the commands need %s, which the policy does not allow", action)
				}
			}
			for _, action := range allowed {
				if !used[action] && c.rest[action] == "" {
					t.Errorf("the policy allows %s, which no command needs", action)
				}
			}
		})
	}
	for _, name := range []string{"kms.json"} {
		readPolicy(t, name)
	}
	for _, name := range []string{"s3-conditional-writers-only.json", "s3-lifecycle.json"} {
		text, err := os.ReadFile(filepath.Join("../../../policies/aws", name))
		if err != nil || !json.Valid(text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

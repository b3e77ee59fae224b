package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
)

// tableShape is what a template says about a table of DynamoDB.
type tableShape struct {
	billing, hash, sort, ttl string
	types                    string // of the attributes, in the order of the definitions
}

// created returns the tables that requests have created.
func created(t *testing.T, requests []awstest.Request) map[string]tableShape {
	t.Helper()
	tables := make(map[string]tableShape)
	for _, r := range requests {
		var in struct {
			TableName, BillingMode  string
			AttributeDefinitions    []struct{ AttributeName, AttributeType string }
			KeySchema               []struct{ AttributeName, KeyType string }
			TimeToLiveSpecification struct{ AttributeName string }
		}
		if err := json.Unmarshal(r.Body, &in); err != nil {
			t.Fatal(err)
		}
		table := tables[in.TableName]
		switch r.Op {
		case "CreateTable":
			table.billing = in.BillingMode
			for _, a := range in.AttributeDefinitions {
				table.types += fmt.Sprintf("%s %s,", a.AttributeName, a.AttributeType)
			}
			for _, k := range in.KeySchema {
				if k.KeyType == "HASH" {
					table.hash = k.AttributeName
				} else {
					table.sort = k.AttributeName
				}
			}
		case "UpdateTimeToLive":
			table.ttl = in.TimeToLiveSpecification.AttributeName
		default:
			continue
		}
		tables[in.TableName] = table
	}
	return tables
}

// template reads the tables of a file: begin begins each, and the patterns are those of its
// name, billing, hash key, sort key, time to live, and attributes.
func template(t *testing.T, name, begin string, patterns [6]string) map[string]tableShape {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../policies/aws", name))
	if err != nil {
		t.Fatal(err)
	}
	tables := make(map[string]tableShape)
	for _, part := range strings.Split(string(text), begin)[1:] {
		var values [5]string
		for i := range values {
			if m := regexp.MustCompile(patterns[i]).FindStringSubmatch(part); m != nil {
				values[i] = m[1]
			}
		}
		table := tableShape{billing: values[1], hash: values[2], sort: values[3], ttl: values[4]}
		for _, m := range regexp.MustCompile(patterns[5]).FindAllStringSubmatch(part, -1) {
			table.types += fmt.Sprintf("%s %s,", m[1], m[2])
		}
		tables[values[0]] = table
	}
	return tables
}

// TestTableTemplates: the templates have the tables that init and item init create.
func TestTableTemplates(t *testing.T) {
	t.Parallel()
	tables := awstest.NewDynamoDB()
	atTables, end := serve(tables)
	t.Cleanup(end)
	atTables = strings.Replace(atTables, "path_style=true&", "", 1)
	atBucket, end := serve(awstest.NewS3("bucket"))
	t.Cleanup(end)
	p := newPlace(t)
	escaped := strings.NewReplacer(":", "%3A", "?", "%3F", "&", "%26", "=", "%3D", "/", "%2F").Replace("dynamodb://reservations?" + atTables)
	p.must(t, "dynamodb://locks?"+atTables, "init")
	p.must(t, "s3://bucket?"+atBucket+"&reserve="+escaped, "init")
	p.must(t, "file:"+filepath.Join(p.dir, "locks"), "item", "init", "--table", "dynamodb://items?"+atTables, "--bucket", "file:"+filepath.Join(p.dir, "objects"))
	want := created(t, tables.Requests())
	if len(want) != 3 || want["locks"].sort == "" || want["reservations"].ttl == "" || want["items"].hash == "" {
		t.Fatalf("init created %+v", want)
	}
	for name, got := range map[string]map[string]tableShape{
		"tables.tf": template(t, "tables.tf", `resource "aws_dynamodb_table"`, [6]string{
			`\n  name\s+= "(.*)"`, `billing_mode\s+= "(.*)"`, `hash_key\s+= "(.*)"`, `range_key\s+= "(.*)"`,
			`ttl \{\s+attribute_name = "(.*)"\s+enabled\s+= true`, `attribute \{\s+name = "(.*)"\s+type = "(.*)"`,
		}),
		"tables.yaml": template(t, "tables.yaml", "Type: AWS::DynamoDB::Table", [6]string{
			`TableName: (.*)`, `BillingMode: (.*)`, `AttributeName: (\w+), KeyType: HASH`, `AttributeName: (\w+), KeyType: RANGE`,
			`TimeToLiveSpecification: \{AttributeName: (\w+), Enabled: true\}`, `AttributeName: (\w+), AttributeType: (\w+)`,
		}),
	} {
		if !maps.Equal(got, want) {
			t.Errorf("%s has %+v, and init creates %+v", name, got, want)
		}
	}
}

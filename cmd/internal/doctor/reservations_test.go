package doctor_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor/awsdoctor"
	"github.com/holdfast-go/holdfast/compat/reservation"
)

// TestReservations: the report says what is wrong with a table of reservations, and does
// not call leases unsafe for it.
func TestReservations(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(d *awstest.DynamoDB)
		want   want
		text   string
	}{
		{"sound", func(*awstest.DynamoDB) {}, found(doctor.Safe, "reservations-keys=ok reservations-ttl=ok reservations-global=ok reservations-conditions=ok"), ""},
		{"no table", func(d *awstest.DynamoDB) { d.Add("DescribeTable", 0, -1, refused("ResourceNotFoundException")) },
			found(doctor.NotSafe, "reservations-keys=unsafe"), "holdfast init creates it"},
		{"other keys", func(d *awstest.DynamoDB) { d.AddTable("locks", "etag", "path") },
			found(doctor.NotSafe, "reservations-keys=unsafe"), "they are etag (HASH, S) and path (RANGE, S)"},
		{"no TTL", func(d *awstest.DynamoDB) { d.SetTTL("locks", "") },
			found(doctor.Safe, "reservations-keys=ok reservations-ttl=warning"), "remain in the table for ever: call holdfast init"},
		{"another TTL", func(d *awstest.DynamoDB) { d.SetTTL("locks", "expires") },
			found(doctor.Safe, "reservations-keys=ok reservations-ttl=warning"), `by the attribute "expires"`},
		{"two regions", func(d *awstest.DynamoDB) { d.SetReplicas("locks", false, "eu-west-1") },
			found(doctor.NotSafe, "reservations-global=unsafe"), "also in eu-west-1, without one order of writes"},
		{"two regions in one order", func(d *awstest.DynamoDB) { d.SetReplicas("locks", true, "eu-west-1") }, found(doctor.Safe, "reservations-global=ok"), ""},
		{"ignores conditions", func(d *awstest.DynamoDB) { d.Broken.IgnoreConditions = true },
			found(doctor.NotSafe, "reservations-conditions=unsafe"), "two writers could overwrite each other"},
		{"returns no item", func(d *awstest.DynamoDB) { d.Broken.NoOldItem = true },
			found(doctor.NotSafe, "reservations-conditions=unsafe"), "writers cannot make reservations"},
		{"no dynamodb:DescribeTable", func(d *awstest.DynamoDB) { d.Add("DescribeTable", 0, -1, refused("AccessDeniedException")) },
			found(doctor.Safe, "reservations-keys=not_tested reservations-conditions=ok"), "the right dynamodb:DescribeTable"},
		{"no dynamodb:DescribeTimeToLive", func(d *awstest.DynamoDB) { d.Add("DescribeTimeToLive", 0, -1, refused("AccessDeniedException")) },
			found(doctor.Safe, "reservations-ttl=not_tested reservations-global=ok"), "the right dynamodb:DescribeTimeToLive"},
		{"no dynamodb:PutItem", func(d *awstest.DynamoDB) { d.Add("PutItem", 0, -1, refused("AccessDeniedException")) },
			found(doctor.Safe, "reservations-conditions=not_tested"), "the right dynamodb:PutItem"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := awstest.NewDynamoDB()
			d.AddTable("locks", "path", "etag")
			d.SetTTL("locks", "ttl")
			tt.change(d)
			table, err := reservation.New(d.Client(), "locks", nil)
			if err != nil {
				t.Fatal(err)
			}
			r := examine(t, awsdoctor.ReservingIn(awsdoctor.S3(awstest.NewS3("bucket").Client(), "bucket", "app", nil), table, false), doctor.Quick())
			tt.want.check(t, r)
			if got := text(r); !strings.Contains(got, tt.text) || strings.Contains(got, "leases are NOT safe") {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

func refused(code string) awstest.Fault {
	return awstest.Fault{Status: http.StatusBadRequest, Code: code}
}

// TestReservationsOfAmazon: nothing is written into a table whose conditions are
// documented.
func TestReservationsOfAmazon(t *testing.T) {
	t.Parallel()
	d := awstest.NewDynamoDB()
	d.AddTable("locks", "path", "etag")
	d.SetTTL("locks", "ttl")
	table, err := reservation.New(d.Client(), "locks", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := examine(t, awsdoctor.ReservingIn(awsdoctor.S3(awstest.NewS3("bucket").Client(), "bucket", "app", nil), table, true), doctor.Quick())
	found(doctor.Safe, "reservations-conditions=not_tested").check(t, r)
	if d.Items("locks") != 0 {
		t.Error("it left items")
	}
}

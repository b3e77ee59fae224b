package faultstore_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
)

func TestScheduleText(t *testing.T) {
	for _, c := range []struct {
		text string
		want faultstore.Schedule
	}{
		{"", faultstore.Schedule{}},
		{"seed 7", faultstore.Schedule{Seed: 7}},
		{"put job #3 lose", rules(faultstore.Rule{Op: store.OpPut, Key: "job", First: 3, Last: 3, Action: faultstore.Lose})},
		{"* * drop", rules(faultstore.Rule{Op: faultstore.AnyOp, Action: faultstore.Drop})},
		{"read a/b-c_d.e #2-5 fail", rules(faultstore.Rule{Op: faultstore.ReadOp, Key: "a/b-c_d.e", First: 2, Last: 5, Action: faultstore.Fail})},
		{"write * #10- %0.25 late", rules(faultstore.Rule{Op: faultstore.WriteOp, First: 10, Chance: 0.25, Action: faultstore.Late})},
		{"delete * late +2", rules(faultstore.Rule{Op: store.OpDelete, Action: faultstore.Late, Calls: 2})},
		{"put-unsynced * late 1.5s", rules(faultstore.Rule{Op: store.OpPutUnsynced, Action: faultstore.Late, Wait: 1500 * time.Millisecond})},
		{"get * delay 5ms~1s", rules(faultstore.Rule{Op: store.OpGet, Action: faultstore.Delay, Wait: 5 * time.Millisecond, MaxWait: time.Second})},
		{"watch * delay-reply 24h0m0s", rules(faultstore.Rule{Op: store.OpWatch, Action: faultstore.DelayReply, Wait: 24 * time.Hour})},
		{`put "*" fail`, rules(faultstore.Rule{Op: store.OpPut, Key: "*", Action: faultstore.Fail})},
		{`put "a key; with \"quotes\"\n" fail; put "日本" fail; put "\xff" fail`, rules(
			faultstore.Rule{Op: store.OpPut, Key: "a key; with \"quotes\"\n", Action: faultstore.Fail},
			faultstore.Rule{Op: store.OpPut, Key: "日本", Action: faultstore.Fail},
			faultstore.Rule{Op: store.OpPut, Key: "\xff", Action: faultstore.Fail})},
	} {
		got, err := faultstore.Parse(c.text)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("Parse(%q): got %+v and error %v, want %+v", c.text, got, err, c.want)
		}
		if got := c.want.String(); got != c.text {
			t.Errorf("String: got %q, want %q", got, c.text)
		}
	}
}

func rules(rules ...faultstore.Rule) faultstore.Schedule { return faultstore.Schedule{Rules: rules} }

func TestParseLayout(t *testing.T) {
	got, err := faultstore.Parse("\n  put job\t#1-1 lose ;;\r\n\nget * #1- fail\nseed 3;")
	if want := "put job #1 lose; get * fail; seed 3"; err != nil || got.String() != want {
		t.Errorf("got %q and error %v, want %q", got, err, want)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"put":                    "fewer than three",
		"put job":                "fewer than three",
		"push job fail":          `unknown operation "push"`,
		"put job explode":        `unknown action "explode"`,
		"put job #3":             "unknown action",
		"put job #0 fail":        "at least 1",
		"put job #x fail":        "invalid syntax",
		"put job #5-2 fail":      "do not exist",
		"put job %2 fail":        "not between",
		"put job %0 fail":        "never apply",
		"put job %NaN fail":      "not between",
		"put job fail 5s":        "does not accept a time",
		"put job delay -5s":      "negative",
		"put job delay 5":        "missing unit",
		"put job delay 5s 6s":    "too many",
		"put job delay 5s~2s":    "must be longer",
		"put job delay +3":       "cannot wait",
		"put job late +0":        "at least 1",
		`put "job fail`:          "closing quote",
		`put "" fail`:            "the key is empty",
		`"put" job fail`:         "must be an operation",
		`put job "fail"`:         "is quoted",
		"put a fail; put b flop": "rule 2",
		"seed x":                 "seed",
		"seed -1":                "seed",
	} {
		if got, err := faultstore.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): got %q and error %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestScheduleCheck(t *testing.T) {
	for _, s := range []faultstore.Schedule{
		rules(faultstore.Rule{Action: "explode"}),
		rules(faultstore.Rule{Action: faultstore.Fail, First: -1}),
		rules(faultstore.Rule{Action: faultstore.Late, Wait: time.Second, Calls: 1}),
		rules(faultstore.Rule{Action: faultstore.Fail}, faultstore.Rule{Action: faultstore.Delay, Wait: -1}),
	} {
		if err := s.Check(); err == nil {
			t.Errorf("%v is accepted", s)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("New takes %v", s)
				}
			}()
			faultstore.New(nil, s)
		}()
	}
	if err := faultstore.Random(1).Check(); err != nil {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("MustParse takes anything")
		}
	}()
	faultstore.MustParse("anything")
}

// FuzzParse checks that a schedule that Parse accepts has a text that Parse reads as the
// same schedule.
func FuzzParse(f *testing.F) {
	f.Add("put job #3 lose; read * %0.1 fail; seed 7")
	f.Add(faultstore.Random(99).String())
	f.Add(`write "a b\x00" #2-5 late 5ms~1s; * * #7- delay-reply 1h; delete x late +3`)
	f.Add("put job %1e-9 delay 0s")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := faultstore.Parse(text)
		if err != nil {
			return
		}
		if err := s.Check(); err != nil {
			t.Fatalf("Parse took %q, Check does not: %v", text, err)
		}
		again, err := faultstore.Parse(s.String())
		if err != nil {
			t.Fatalf("%q, the text of %q, is not taken: %v", s, text, err)
		}
		if again.String() != s.String() {
			t.Fatalf("%q is read as %q", s, again)
		}
	})
}

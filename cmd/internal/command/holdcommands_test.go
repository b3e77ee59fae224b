package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/jsontest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// holdLine is a line of the output of hold, as a caller reads it.
type holdLine struct {
	Event, ID, Lock, Session, Holder, Reason, Command, Kind, Error, Store string

	Token    uint64
	Slot     int
	Line     int
	Deadline time.Time
	TTL      int64  `json:"ttl_ms"`
	Grace    int64  `json:"grace_ms"`
	By       string `json:"requested_by"`
}

// heldLines is a running hold --commands. Each line that it prints is checked by the schema.
type heldLines struct {
	t      *testing.T
	schema *jsontest.Schema
	in     *io.PipeWriter
	out    *bufio.Scanner
	outEnd *io.PipeReader
	errs   bytes.Buffer
	status chan int
}

// holdLines starts hold --commands on the store of dir.
func holdLines(t *testing.T, dir string, args ...string) *heldLines {
	t.Helper()
	in, inEnd := io.Pipe()
	outEnd, out := io.Pipe()
	h := &heldLines{t: t, schema: jsontest.ReadSchema(t, "hold"), in: inEnd, out: bufio.NewScanner(outEnd), outEnd: outEnd, status: make(chan int, 1)}
	h.out.Buffer(nil, 1<<20)
	go func() {
		h.status <- execute(append([]string{"--store", "file:" + filepath.Join(dir, "store"), "hold", "--commands"}, args...), in, out, &h.errs)
		out.Close()
	}()
	t.Cleanup(func() {
		inEnd.Close()
		outEnd.Close()
	})
	return h
}

// say writes lines to the input. The schema accepts each.
func (h *heldLines) say(lines ...string) {
	h.t.Helper()
	for _, line := range lines {
		if err := h.schema.Check("command", []byte(line)); err != nil {
			h.t.Errorf("%s: the schema refuses it: %v", line, err)
		}
		h.write(line + "\n")
	}
}

func (h *heldLines) write(text string) {
	h.t.Helper()
	if _, err := io.WriteString(h.in, text); err != nil {
		h.t.Fatal(err)
	}
}

// next returns the next line of the output that is not about the session.
func (h *heldLines) next() (line holdLine) {
	h.t.Helper()
	for line = h.any(); line.Event == "renewed" || line.Event == "at_risk"; line = h.any() {
		continue
	}
	return line
}

// any returns the next line of the output.
func (h *heldLines) any() (line holdLine) {
	h.t.Helper()
	if !h.out.Scan() {
		h.t.Fatalf("the output has ended (%v)", h.out.Err())
	}
	if err := h.schema.Check("line", h.out.Bytes()); err != nil {
		h.t.Errorf("%s: the schema refuses it: %v", h.out.Bytes(), err)
	}
	if err := json.Unmarshal(h.out.Bytes(), &line); err != nil {
		h.t.Fatal(err)
	}
	return line
}

// want reads one line for each of the given ones, in any order: the event, the id, and a
// part of the error.
func (h *heldLines) want(lines ...holdLine) (got []holdLine) {
	h.t.Helper()
	for range lines {
		line := h.next()
		got = append(got, line)
		i := slices.IndexFunc(lines, func(w holdLine) bool {
			return w.Event == line.Event && w.ID == line.ID && strings.Contains(line.Error, w.Error)
		})
		if i < 0 {
			h.t.Errorf("it says %s, want one of %v", h.out.Bytes(), lines)
			continue
		}
		lines = slices.Delete(slices.Clone(lines), i, i+1)
	}
	return got
}

// end waits for the end of the program, whose last line was read.
func (h *heldLines) end(want int) {
	h.t.Helper()
	if h.out.Scan() {
		h.t.Errorf("it says %s", h.out.Bytes())
	}
	if got := <-h.status; got != want {
		h.t.Errorf("status %d, want %d: %s", got, want, h.errs.String())
	}
}

// strangerOn returns a client of another program on the store of dir.
func strangerOn(t *testing.T, dir string) *lease.Client {
	t.Helper()
	st, err := filestore.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := lease.New(st, &lease.Options{Holder: "stranger"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close(t.Context())
		_ = st.Close()
	})
	return client
}

// allFree checks that no program holds any of the locks.
func allFree(t *testing.T, dir string, names ...string) {
	t.Helper()
	client := strangerOn(t, dir)
	for _, name := range names {
		guard, err := client.TryAcquire(t.Context(), name, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = guard.Release(t.Context())
	}
}

// TestHoldLines: every command and its answer.
func TestHoldLines(t *testing.T) {
	dir := t.TempDir()
	ownState(t, dir)
	h := holdLines(t, dir, "--ttl", "20s")
	if line := h.next(); line.Event != "ready" || line.TTL != 20_000 || line.Grace != 5000 || line.Store == "" {
		t.Errorf("%+v", line)
	}
	other := strangerOn(t, dir)
	theirs, err := other.Acquire(t.Context(), "theirs", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.say(`{"command":"acquire","id":"a","lock":"jobs/a"}`, `{"command":"try","id":"b","lock":"jobs/b"}`)
	for _, line := range h.want(holdLine{Event: "held", ID: "a"}, holdLine{Event: "held", ID: "b"}) {
		if line.Token == 0 || line.Lock != "jobs/"+line.ID || time.Until(line.Deadline) > 20*time.Second {
			t.Errorf("%+v", line)
		}
	}
	h.say(`{"command":"try","id":"t","lock":"theirs"}`)
	if line := h.want(holdLine{Event: "busy", ID: "t"})[0]; line.Holder != "stranger" || line.Token != theirs.Token() || line.Kind != "busy" {
		t.Errorf("%+v", line)
	}
	h.say(`{"command":"acquire","id":"t","lock":"theirs","wait_ms":1000}`)
	h.want(holdLine{Event: "busy", ID: "t"})
	// Two ids exclude each other, in one program as in two.
	h.say(`{"command":"try","id":"a2","lock":"jobs/a"}`)
	h.want(holdLine{Event: "busy", ID: "a2"})
	h.say(`{"command":"data","id":"a","data":"step 1"}`)
	h.want(holdLine{Event: "stored", ID: "a"})
	data := func(want string) {
		t.Helper()
		if info, err := other.Inspect(t.Context(), "jobs/a"); err != nil || string(info.Record.Data) != want {
			t.Errorf("data %q, want %q (%v)", info.Record.Data, want, err)
		}
	}
	data("step 1")
	h.say(`{"command":"data","id":"a","data_base64":"/wA="}`)
	h.want(holdLine{Event: "stored", ID: "a"})
	data("\xff\x00")
	h.say(`{"command":"data","id":"a"}`)
	h.want(holdLine{Event: "stored", ID: "a"})
	data("")
	h.say(`{"command":"refuse","id":"a","reason":"why"}`) // no client has asked
	h.want(holdLine{Event: "failed", ID: "a", Error: "no client has asked"})
	h.say(`{"command":"data","id":"a","data":"` + strings.Repeat("x", lease.MaxData+1) + `"}`)
	h.want(holdLine{Event: "failed", ID: "a"})
	// A wait that is given up, and one that ends with the lock.
	h.say(`{"command":"acquire","id":"t","lock":"theirs"}`, `{"command":"data","id":"t","data":"x"}`, `{"command":"release","id":"t"}`)
	h.want(holdLine{Event: "failed", ID: "t", Error: "not held yet"}, holdLine{Event: "released", ID: "t"})
	h.say(`{"command":"acquire","id":"t","lock":"theirs"}`)
	if err := theirs.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.want(holdLine{Event: "held", ID: "t"})
	h.say(`{"command":"release","id":"b"}`)
	h.want(holdLine{Event: "released", ID: "b"})
	allFree(t, dir, "jobs/b")
	h.say(`{"command":"release","id":"b"}`) // no id in use: an answer, and no mistake of the line
	if line := h.want(holdLine{Event: "failed", ID: "b"})[0]; line.Kind != "not_found" || line.Command != "release" {
		t.Errorf("%+v", line)
	}
	h.say(`{"command":"try","id":"b","lock":"jobs/b"}`) // the id is free again
	h.want(holdLine{Event: "held", ID: "b"})
	h.say(`{"command":"close","id":"end"}`)
	h.want(holdLine{Event: "released", ID: "a"}, holdLine{Event: "released", ID: "b"}, holdLine{Event: "released", ID: "t"})
	h.want(holdLine{Event: "closed", ID: "end"})
	h.end(exit.OK)
	allFree(t, dir, "jobs/a", "jobs/b", "theirs")
}

// TestHoldLinesReportsALoss: the one lock that is lost, and the others stay.
func TestHoldLinesReportsALoss(t *testing.T) {
	dir := t.TempDir()
	ownState(t, dir)
	h := holdLines(t, dir)
	h.next()
	h.say(`{"command":"acquire","id":"a","lock":"a"}`, `{"command":"acquire","id":"b","lock":"b"}`)
	var token uint64
	for _, line := range h.want(holdLine{Event: "held", ID: "a"}, holdLine{Event: "held", ID: "b"}) {
		if line.ID == "a" {
			token = line.Token
		}
	}
	other := strangerOn(t, dir)
	if _, err := other.Break(t.Context(), "a", token, &lease.BreakOptions{Immediate: true}); err != nil {
		t.Fatal(err)
	}
	h.say(`{"command":"data","id":"a","data":"x"}`) // hears of it; the loss is the answer
	if line := h.want(holdLine{Event: "lost", ID: "a", Error: "broken"})[0]; line.Kind != "lost" || line.Token != token {
		t.Errorf("%+v", line)
	}
	h.say(`{"command":"acquire","id":"a","lock":"a"}`, `{"command":"release","id":"b"}`)
	h.want(holdLine{Event: "held", ID: "a"}, holdLine{Event: "released", ID: "b"})
	h.in.Close()
	h.want(holdLine{Event: "released", ID: "a"})
	h.want(holdLine{Event: "closed"})
	h.end(exit.OK)
}

// TestHoldLinesRefusesBadLines: each is answered, changes nothing, and ends nothing. The
// schema refuses those of them that are JSON.
func TestHoldLinesRefusesBadLines(t *testing.T) {
	dir := t.TempDir()
	ownState(t, dir)
	h := holdLines(t, dir)
	h.next()
	h.say(`{"command":"acquire","id":"used","lock":"a"}`)
	h.want(holdLine{Event: "held", ID: "used"})
	n := 1
	for _, c := range []struct{ line, id, want string }{
		{`nonsense`, "", "the line is not JSON: "},
		{`{"command":"try","id":"x","lock":"b","slots":NaN}`, "", "the line is not JSON: "},
		{`[1,`, "", "the line is not JSON: "},
		{`{"command":"acquire","id":"x","lock":"b"`, "", "is not JSON"},
		{`"acquire"`, "", `not a JSON object, but "acquire"`},
		{`["acquire","x","b"]`, "", `not a JSON object, but ["acquire","x","b"]`},
		{`null`, "", "not a JSON object, but null"},
		{`{}`, "", `"command" is missing`},
		{`{"id":"x","lock":"b"}`, "x", `"command" is missing`},
		{`{"command":"lock","id":"x","lock":"b"}`, "x", `unknown command "lock"`},
		{`{"command":"try","lock":"b"}`, "", `"id" is missing`},
		{`{"command":"try","id":7,"lock":"b"}`, "", `"id" takes a string of 1 to 100 bytes, not 7`},
		{`{"command":"try","id":"\ud800","lock":"b"}`, "", `"id" takes a string of 1 to 100 bytes, not "\ud800"`},
		{`{"command":"try","id":"x","lock":"b\udc00\ud800"}`, "x", `"lock" takes a string, not "b\udc00\ud800"`},
		{`{"command":"data","id":"used","data":"\ud83dx"}`, "used", `"data" takes a string, not "\ud83dx"`},
		{`{"command":"data","id":"used","data":"` + strings.Repeat("x", 9000) + `\ud800"}`, "used", `"data" takes a string, not "xxx`},
		{`{"id":"x","id":"y","command":"try","lock":"b"}`, "", `the field "id" twice`},
		{`{"ID":"x","command":"try","lock":"b"}`, "", `unknown field "ID"`},
		{`{"command":"try","id":"` + strings.Repeat("x", 101) + `","lock":"b"}`, "", "more than 100 bytes"},
		{`{"command":"try","id":"x"}`, "x", "lock name"},
		{`{"command":"try","id":"x","lock":""}`, "x", "lock name"},
		{`{"command":"try","id":"x","lock":"../b"}`, "x", "lock name"},
		{`{"command":"try","id":"x","lock":"b\u001b[2J"}`, "x", "lock name"},
		{`{"command":"try","id":"x","lock":"b","wait_ms":1}`, "x", `the command try has no field "wait_ms"`},
		{`{"command":"acquire","id":"x","lock":"b","wait_ms":-1}`, "x", `"wait_ms" takes a whole number from 0 to 1000000000000, not -1`},
		{`{"command":"acquire","id":"x","lock":"b","wait_ms":1e30}`, "x", `"wait_ms" takes a whole number from 0 to 1000000000000, not 1e30`},
		{`{"command":"acquire","id":"x","lock":"b","wait_ms":"5"}`, "x", `not "5"`},
		{`{"command":"acquire","id":"x","lock":"b","wait_ms":1.5}`, "x", `not 1.5`},
		{`{"wait_ms":null,"command":"acquire","id":"x","lock":"b"}`, "x", `not null`},
		{`{"command":"acquire","id":"x","lock":"b","fair":"yes"}`, "x", `"fair" takes true or false, not "yes"`},
		{`{"command":"acquire","id":"x","lock":"b","shared":1}`, "x", `"shared" takes true or false, not 1`},
		{`{"command":7,"id":"x","lock":"b"}`, "x", `"command" takes a string, not 7`},
		{`{"command":"acquire","id":"x","lock":{"name":"b"}}`, "x", `"lock" takes a string, not {"name":"b"}`},
		{`{"command":"refuse","id":"used","reason":[]}`, "used", `"reason" takes a string, not []`},
		{`{"command":"data","id":"used","data":5}`, "used", `"data" takes a string, not 5`},
		{`{"command":"data","id":"used","data_base64":[1,2]}`, "used", `"data_base64" takes a string of base64, not [1,2]`},
		{`{"command":"acquire","id":"x","lock":"b","wait_ms":1000000000001}`, "x", `"wait_ms" takes a whole number from 0 to 1000000000000, not 1000000000001`},
		{`{"command":"try","id":"x","lock":"b","slots":0}`, "x", `"slots" takes a whole number from 1 to 500, not `},
		{`{"command":"try","id":"x","lock":"b","slots":501}`, "x", `"slots" takes a whole number from 1 to 500, not `},
		{`{"command":"try","id":"x","lock":"b","slots":1000000}`, "x", `"slots" takes a whole number from 1 to 500, not `},
		{`{"command":"try","id":"x","lock":"b","slots":2,"shared":true}`, "x", "exclude each other"},
		{`{"command":"release","id":"used","fair":true}`, "used", `the command release has no field "fair"`},
		{`{"command":"acquire","id":"x","lock":"b","wait":5}`, "x", `unknown field "wait". Did you mean "wait_ms"?`},
		{`{"command":"release","id":"used","lock":"a"}`, "used", `the command release has no field "lock"`},
		{`{"command":"data","id":"used","data":"x","data_base64":"eA=="}`, "used", "exclude each other"},
		{`{"command":"data","id":"used","data_base64":"?"}`, "used", `"data_base64" takes a string of base64, not "?"`},
		{`{"command":"acquire","id":"used","lock":"b"}`, "used", `the id "used" is already in use for lock "a"`},
		{`{"command":"acquire","id":"x","lock":"b"} {"command":"close"}`, "", "more than one"},
		{"{\"command\":\"try\",\"id\":\"x\",\"lock\":\"\xff\"}", "", "not UTF-8"},
		{`{"command":"try","id":"x","lock":"` + strings.Repeat("b", 1<<20) + `"}`, "", "more than 262144 bytes"},
		{strings.Repeat("x", 256<<10), "", "more than 262144 bytes"},
	} {
		n++
		what := c.line[:min(len(c.line), 80)]
		if err := h.schema.Check("command", []byte(c.line)); err == nil && !strings.Contains(c.want, "in use") && !strings.Contains(c.want, "more than one") &&
			!strings.Contains(c.want, "lock name") && !strings.Contains(c.want, "base64") && !strings.Contains(c.want, "exclude") && !strings.Contains(c.want, "UTF-8") && !strings.Contains(c.want, `\ud`) && !strings.Contains(c.want, "twice") && !strings.Contains(c.want, `not "xxx`) {
			t.Errorf("%s: the schema accepts it", what)
		}
		h.write(c.line + "\n")
		line := h.next()
		if line.Event != "invalid" || line.ID != c.id || line.Line != n || !strings.Contains(line.Error, c.want) || strings.ContainsAny(line.Error, "\n\x1b") {
			t.Errorf("%s: %+v, want %q", what, line, c.want)
		}
	}
	h.write("\n \r\n") // empty lines say nothing
	h.say(`{"command":"release","id":"used"}`)
	h.want(holdLine{Event: "released", ID: "used"})
	h.in.Close()
	h.want(holdLine{Event: "closed"})
	h.end(exit.Usage)
	allFree(t, dir, "a", "b")
}

// TestHoldLinesEndOfInput: wherever the input ends, nothing stays held, and each id that was
// in use is reported.
func TestHoldLinesEndOfInput(t *testing.T) {
	for name, c := range map[string]struct {
		tail   string
		status int
	}{
		"at the end of a line":    {"", exit.OK},
		"in the middle of a line": {`{"command":"acquire","id":"x",`, exit.Usage},
		// The program was cut off, and did not say that this is all.
		"in place of a line's end": {`{"command":"acquire","id":"x","lock":"c"}`, exit.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ownState(t, dir)
			other := strangerOn(t, dir)
			theirs, err := other.Acquire(t.Context(), "theirs", nil)
			if err != nil {
				t.Fatal(err)
			}
			h := holdLines(t, dir)
			h.next()
			h.say(`{"command":"acquire","id":"a","lock":"a"}`)
			h.want(holdLine{Event: "held", ID: "a"})
			h.say(`{"command":"acquire","id":"t","lock":"theirs"}`)
			h.write(c.tail)
			h.in.Close()
			if c.tail != "" {
				h.want(holdLine{Event: "invalid", Error: "ends in the middle"})
			}
			h.want(holdLine{Event: "released", ID: "a"}, holdLine{Event: "released", ID: "t"})
			h.want(holdLine{Event: "closed"})
			h.end(c.status)
			if err := theirs.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			allFree(t, dir, "a", "c", "theirs")
		})
	}
}

// TestHoldLinesWhoseOutputIsNotRead: the end of input is seen although the output is full,
// and gives the locks back. An output that is closed ends hold at once.
func TestHoldLinesWhoseOutputIsNotRead(t *testing.T) {
	t.Run("full", func(t *testing.T) {
		dir := t.TempDir()
		ownState(t, dir)
		h := holdLines(t, dir)
		h.next()
		h.say(`{"command":"acquire","id":"a","lock":"a"}`)
		h.want(holdLine{Event: "held", ID: "a"})
		for range 1000 {
			h.say(`{"command":"release","id":"none"}`) // with an answer that is not read
		}
		h.in.Close()
		client := strangerOn(t, dir)
		guard, err := client.Acquire(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = guard.Release(t.Context())
		for h.out.Scan() {
			continue
		}
		h.end(exit.OK)
	})
	t.Run("closed", func(t *testing.T) {
		dir := t.TempDir()
		ownState(t, dir)
		h := holdLines(t, dir)
		h.next()
		h.outEnd.CloseWithError(errors.New("no reader"))
		h.say(`{"command":"acquire","id":"a","lock":"a"}`)
		if status := <-h.status; status != exit.Failed || !strings.Contains(h.errs.String(), "no reader") {
			t.Errorf("status %d: %s", status, h.errs.String())
		}
		allFree(t, dir, "a")
	})
}

// TestHoldLinesManyLocks: hundreds of locks come and go, each with its answer.
func TestHoldLinesManyLocks(t *testing.T) {
	dir := t.TempDir()
	ownState(t, dir)
	h := holdLines(t, dir)
	h.next()
	const n = 300
	go func() {
		for i := range n {
			fmt.Fprintf(h.in, `{"command":"acquire","id":"%d","lock":"l/%d"}`+"\n", i, i)
		}
	}()
	for range n {
		if line := h.next(); line.Event != "held" || line.Lock != "l/"+line.ID {
			t.Errorf("%+v", line)
		}
	}
	// Those that are given back while hold ends are reported once, too.
	go func() {
		for i := range n / 2 {
			fmt.Fprintf(h.in, `{"command":"release","id":"%d"}`+"\n", i)
		}
		h.in.Close()
	}()
	released := map[string]bool{}
	for line := h.next(); line.Event != "closed"; line = h.next() {
		if line.Event != "released" || released[line.ID] || line.Error != "" {
			t.Errorf("%+v", line)
		}
		released[line.ID] = true
	}
	if len(released) != n {
		t.Errorf("%d were released, want %d", len(released), n)
	}
	h.end(exit.OK)
}

// TestHoldLinesReportsTheSession: renewals move the deadline of all locks. When the session is
// fenced, every lock is reported to be lost, and hold ends with the status for that.
func TestHoldLinesReportsTheSession(t *testing.T) {
	dir := t.TempDir()
	ownState(t, dir)
	h := holdLines(t, dir, "--ttl", "3s")
	session := h.next().Session
	h.say(`{"command":"acquire","id":"a","lock":"a"}`, `{"command":"acquire","id":"b","lock":"b"}`)
	var first time.Time
	for range 2 {
		line := h.next()
		if line.Event != "held" {
			t.Errorf("%+v", line)
		}
		first = line.Deadline
	}
	for line := h.any(); line.Event != "renewed" || !line.Deadline.After(first) || line.ID != ""; line = h.any() {
		continue
	}
	st, err := filestore.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for { // the session may renew in between
		_, version, err := st.Get(t.Context(), "lock.session/"+session)
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Delete(t.Context(), "lock.session/"+session, version); err == nil {
			break
		}
	}
	lost := map[string]bool{}
	for line := h.next(); ; line = h.next() {
		if line.Event == "closed" {
			if line.Kind != "lost" || line.Error == "" {
				t.Errorf("%+v", line)
			}
			break
		}
		lost[line.ID] = line.Event == "lost" && line.Kind == "lost"
	}
	if !lost["a"] || !lost["b"] {
		t.Errorf("%v", lost)
	}
	h.end(exit.Lost)
}

// TestHoldLinesAmongOthers: readers, slots and those that wait in line, of one program.
func TestHoldLinesAmongOthers(t *testing.T) {
	dir := t.TempDir()
	ownState(t, dir)
	h := holdLines(t, dir, "--holder", "ada")
	h.next()
	h.say(`{"command":"acquire","id":"r1","lock":"doc","shared":true}`, `{"command":"acquire","id":"r2","lock":"doc","shared":true}`)
	h.want(holdLine{Event: "held", ID: "r1"}, holdLine{Event: "held", ID: "r2"})
	h.say(`{"command":"try","id":"w","lock":"doc"}`)
	if busy := h.want(holdLine{Event: "busy", ID: "w", Error: "is held by 2 readers"})[0]; busy.Holder != "ada, ada" {
		t.Errorf("%+v", busy)
	}
	h.say(`{"command":"acquire","id":"w","lock":"doc","fair":true}`, `{"command":"release","id":"r1"}`)
	h.want(holdLine{Event: "released", ID: "r1"})
	h.say(`{"command":"release","id":"r2"}`)
	h.want(holdLine{Event: "released", ID: "r2"}, holdLine{Event: "held", ID: "w"})
	h.say(`{"command":"try","id":"s1","lock":"pool","slots":2}`)
	one := h.want(holdLine{Event: "held", ID: "s1"})[0]
	h.say(`{"command":"try","id":"s2","lock":"pool","slots":2}`)
	two := h.want(holdLine{Event: "held", ID: "s2"})[0]
	if one.Slot != 1 || two.Slot != 2 || one.Token >= two.Token {
		t.Errorf("%+v %+v", one, two)
	}
	h.say(`{"command":"try","id":"s3","lock":"pool","slots":2}`)
	h.want(holdLine{Event: "busy", ID: "s3", Error: "has 2 of 2 slots taken"})
	h.say(`{"command":"try","id":"s3","lock":"pool","slots":3}`)
	h.want(holdLine{Event: "failed", ID: "s3", Error: "has 2 slots, but the caller gives 3"})
	h.in.Close()
	h.want(holdLine{Event: "released", ID: "w"}, holdLine{Event: "released", ID: "s1"}, holdLine{Event: "released", ID: "s2"})
	h.want(holdLine{Event: "closed"})
	h.end(exit.OK)
	allFree(t, dir, "doc")
}

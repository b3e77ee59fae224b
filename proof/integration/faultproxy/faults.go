package faultproxy

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/store/faultstore"
)

// Fault is something that the proxy does to a request. Drop, Lose, Late, Delay and DelayReply do to a
// connection what the faults of package faultstore do to a call.
type Fault struct {
	name string
	run  func(x *exchange)
}

// String returns the name of the fault.
func (f Fault) String() string { return f.name }

func named(action faultstore.Action, d time.Duration) string {
	return string(action) + " " + d.String()
}

// pass does nothing to a request.
func pass(x *exchange) { x.answer(x.fetch()) }

// Lose closes the connection after the server has answered. The server has carried out the request, but
// the client does not know that.
func Lose() Fault {
	return Fault{string(faultstore.Lose), func(x *exchange) {
		_, _ = x.forward() // an error is a lost reply, too
		x.drop()
	}}
}

// Drop breaks the connection. The server never gets the request.
func Drop() Fault { return Fault{string(faultstore.Drop), (*exchange).reset} }

// LoseByReset resets the connection after the server has answered.
func LoseByReset() Fault {
	return Fault{"lose by reset", func(x *exchange) {
		_, _ = x.forward()
		x.reset()
	}}
}

// Delay sends the request to the server after the time d.
func Delay(d time.Duration) Fault {
	return Fault{named(faultstore.Delay, d), func(x *exchange) {
		if !x.sleep(d) {
			x.drop()
		}
		pass(x)
	}}
}

// DelayReply sends the request at once, and gives the reply to the client after the time d.
func DelayReply(d time.Duration) Fault {
	return Fault{named(faultstore.DelayReply, d), func(x *exchange) {
		re, err := x.forward()
		if !x.sleep(d) || err != nil {
			x.drop()
		}
		x.answer(re)
	}}
}

// Repeat sends the request twice, one after the other, and gives the client the second answer. A proxy or
// a client library does the same if it loses the first answer.
func Repeat() Fault {
	return Fault{"repeat", func(x *exchange) {
		_, _ = x.forward()
		pass(x)
	}}
}

// Echo gives the client the answer. After the time d, it sends the request again.
func Echo(d time.Duration) Fault {
	return Fault{named("echo", d), func(x *exchange) {
		re := x.fetch()
		x.later(d)
		x.answer(re)
	}}
}

// Hang gives the client no answer until the client gives up. The server never gets the request.
func Hang() Fault {
	return Fault{"hang", func(x *exchange) {
		x.hang()
		x.drop()
	}}
}

// HangLate gives the client no answer until the client gives up. It sends the request to the server at
// the time d after that.
func HangLate(d time.Duration) Fault {
	return Fault{named("hang-late", d), func(x *exchange) {
		if x.hang() {
			x.later(d)
		}
		x.drop()
	}}
}

// Late closes the connection at once, and sends the request to the server after the time d. So the client
// gets an error before the request takes effect.
func Late(d time.Duration) Fault {
	return Fault{named(faultstore.Late, d), func(x *exchange) {
		x.later(d)
		x.drop()
	}}
}

// later sends the request d from now, and no client sees the answer.
func (x *exchange) later(d time.Duration) {
	if !x.p.begin() {
		return
	}
	go func() {
		defer x.p.end()
		if x.sleep(d) {
			_, _ = x.forward()
		}
	}()
}

// Truncate breaks the connection in the middle of the reply's body.
func Truncate() Fault {
	return Fault{"reply truncated", func(x *exchange) {
		re := x.fetch()
		if len(re.body) > 1 {
			// The length must be known before half of it is sent.
			re.header.Set("Content-Length", strconv.Itoa(len(re.body)))
			x.head(re)
			_, _ = x.w.Write(re.body[:len(re.body)/2])
			_ = http.NewResponseController(x.w).Flush()
		}
		x.drop()
	}}
}

// Refuse answers with an error in the form of this server. The server never gets the request. Status 409
// is a conflict between two writers, which the client should repeat. Status 503 is throttling. Any other
// status is an internal error.
func Refuse(status int) Fault {
	return Fault{fmt.Sprintf("refused with %d", status), func(x *exchange) { x.answer(x.errorReply(status)) }}
}

// RefuseAfter sends the request to the server, and answers with an error.
func RefuseAfter(status int) Fault {
	return Fault{fmt.Sprintf("carried out, answered %d", status), func(x *exchange) {
		_, _ = x.forward()
		x.answer(x.errorReply(status))
	}}
}

// errorReply is an error as S3 or, for a request that names a target, DynamoDB
// would put it. DynamoDB throttles and reports conflicts with status 400.
func (x *exchange) errorReply(status int) *reply {
	if x.r.Header.Get("X-Amz-Target") != "" {
		name := "com.amazonaws.dynamodb.v20120810#InternalServerError"
		switch status {
		case http.StatusConflict:
			status, name = 400, "com.amazonaws.dynamodb.v20120810#TransactionConflictException"
		case http.StatusServiceUnavailable:
			status, name = 400, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"
		}
		return newReply(status, "application/x-amz-json-1.0", fmt.Sprintf(`{"__type":%q,"message":"injected"}`, name))
	}
	code := "InternalError"
	switch status {
	case http.StatusConflict:
		code = "ConditionalRequestConflict"
	case http.StatusServiceUnavailable:
		code = "SlowDown"
	}
	body := "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" + code + "</Code><Message>injected</Message></Error>"
	if x.r.Method == http.MethodHead {
		body = ""
	}
	return newReply(status, "application/xml", body)
}

func newReply(status int, contentType, body string) *reply {
	return &reply{status, http.Header{
		"Content-Type":   {contentType},
		"Content-Length": {strconv.Itoa(len(body))},
		"Date":           {time.Now().UTC().Format(http.TimeFormat)},
	}, []byte(body)}
}

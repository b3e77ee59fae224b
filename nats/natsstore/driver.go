package natsstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

func (d *driver) stream() string { return "KV_" + d.bucket }

// subject returns the subject of a register, below the subject of the bucket.
func (d *driver) subject(key string) string { return "$KV." + d.bucket + "." + escape(d.prefix+key) }

// escape returns a key as tokens of a subject.
func escape(key string) string {
	var out strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case c == '/':
			out.WriteByte('.')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "=%02X", c)
		}
	}
	return out.String()
}

// unescape is the inverse of escape. For other subjects, ok is false.
func unescape(tokens string) (key string, ok bool) {
	var out strings.Builder
	for i := 0; i < len(tokens); i++ {
		switch c := tokens[i]; c {
		case '.':
			out.WriteByte('/')
		case '=':
			b, err := strconv.ParseUint(tokens[min(i+1, len(tokens)):min(i+3, len(tokens))], 16, 8)
			if err != nil {
				return "", false
			}
			out.WriteByte(byte(b))
			i += 2
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), escape(out.String()) == tokens
}

func tagOf(sequence uint64) engine.Tag { return engine.Tag(strconv.FormatUint(sequence, 10)) }

// last is the answer to a read of the last message of a subject.
type last struct {
	Error   *jetstream.APIError `json:"error"`
	Message struct {
		Subject  string `json:"subject"`
		Sequence uint64 `json:"seq"`
		Data     []byte `json:"data"`
	} `json:"message"`
}

// get reads the last message of a register.
func (d *driver) get(ctx context.Context, key string) (*last, error) {
	ask, _ := json.Marshal(map[string]string{"last_by_subj": d.subject(key)})
	answer := &last{}
	err := d.send(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + d.stream(), Data: ask}, answer)
	switch {
	case err != nil:
		return nil, err
	case answer.Error != nil:
		return nil, d.explain(answer.Error)
	case answer.Message.Subject != d.subject(key) || answer.Message.Sequence == 0:
		return nil, fmt.Errorf("%w: the server answered a read with another message", store.ErrUnavailable)
	}
	return answer, nil
}

// Read implements [engine.Driver].
func (d *driver) Read(ctx context.Context, key string, _ engine.Tag) (engine.Stored, error) {
	found, err := d.get(ctx, key)
	if err != nil {
		return engine.Stored{}, err
	}
	e, err := engine.Decode(found.Message.Data)
	return engine.Stored{Envelope: e, Tag: tagOf(found.Message.Sequence)}, err
}

// ReadRaw implements [engine.RawReader].
func (d *driver) ReadRaw(ctx context.Context, key string) (body []byte, on engine.Stored, err error) {
	found, err := d.get(ctx, key)
	if err != nil {
		return nil, on, err
	}
	on.Nonce, on.Tag = "sequence", tagOf(found.Message.Sequence) // the condition is the tag alone
	return found.Message.Data, on, nil
}

// Write implements [engine.Driver] by one message.
func (d *driver) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	sequence, err := strconv.ParseUint(string(cmp.Or(on.Tag, "0")), 10, 64)
	if err != nil || (sequence == 0) != on.Absent() {
		return "", fmt.Errorf("%w: the version has the sequence %.40q", store.ErrVersion, on.Tag)
	}
	m := nats.NewMsg(d.subject(key))
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(sequence, 10))
	m.Header.Set(jetstream.ExpectedStreamHeader, d.stream())
	m.Data = e.Encode()
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Sequence uint64              `json:"seq"`
	}
	if err := d.send(ctx, m, &ack); err != nil {
		return "", err
	}
	switch {
	case ack.Error != nil:
		return "", d.explain(ack.Error)
	case ack.Sequence == 0:
		return "", fmt.Errorf("%w: the server acknowledged a write without its sequence", store.ErrUnavailable)
	}
	return tagOf(ack.Sequence), nil
}

// Remove implements [engine.Remover].
func (d *driver) Remove(ctx context.Context, key string) error {
	ask, _ := json.Marshal(map[string]string{"filter": d.subject(key)})
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := d.send(ctx, &nats.Msg{Subject: "$JS.API.STREAM.PURGE." + d.stream(), Data: ask}, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return d.explain(answer.Error)
	}
	return nil
}

// List implements [engine.Driver].
func (d *driver) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return list(ctx, d, prefix, false, func(t store.Tagged) string { return t.Key })
}

// ListAll does the same as List, but also yields the keys of tombstones. A program that has created
// registers to test a store finds them with ListAll and removes them with Erase.
func (s *Store) ListAll(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return list(ctx, s.d, prefix, true, func(t store.Tagged) string { return t.Key })
}

// ListTags implements [store.TagLister]. The tag is the sequence of the message.
func (s *Store) ListTags(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
	return engine.Listing(ctx, s.Store, store.OpListTags, prefix, func(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
		return list(ctx, s.d, prefix, false, func(t store.Tagged) store.Tagged { return t })
	})
}

// ListCost implements [store.TagLister].
func (s *Store) ListCost() store.ListCost { return store.ListCost{Gets: 10, Keys: pageSize} }

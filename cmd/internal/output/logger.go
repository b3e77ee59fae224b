package output

import (
	"context"
	"log/slog"
	"strings"
)

// Log returns the logger for what stores find outside of calls that return errors. A
// warning becomes a message for people.
func (p *Printer) Log() *slog.Logger { return slog.New(noter{p: p}) }

// noter writes each warning as a message on one line.
type noter struct {
	p     *Printer
	attrs []slog.Attr
}

func (n noter) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && !n.p.Quiet
}

func (n noter) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	add := func(attr slog.Attr) bool {
		b.WriteString(" (" + attr.Key + " " + attr.Value.String() + ")")
		return true
	}
	for _, attr := range n.attrs {
		add(attr)
	}
	r.Attrs(add)
	n.p.Notef("%s", b.String())
	return nil
}

func (n noter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return noter{n.p, append(n.attrs[:len(n.attrs):len(n.attrs)], attrs...)}
}

func (n noter) WithGroup(string) slog.Handler { return n }

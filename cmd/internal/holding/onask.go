package holding

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// What a command does when another client asks for its lock.
const (
	askTerm   = "term"   // its child gets TERM
	askRefuse = "refuse" // the request is refused, and the asker sees why
)

// addOnAsk adds the flag of commands that run a child under a lock.
func (f *runFlags) addOnAsk(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.onAsk, "on-ask", askTerm, "answer to \"holdfast ask\": term (stop COMMAND) or refuse")
	cmdline.CompleteFlag(cmd, "on-ask", askTerm, askRefuse)
}

// guardsWithRequests returns a channel of the guards whose holder has read a request to yield.
func guardsWithRequests(set *lease.GuardSet) <-chan *lease.Guard {
	guards := set.Guards()
	asked := make(chan *lease.Guard, len(guards))
	for _, g := range guards {
		go func() {
			select {
			case <-g.YieldRequested():
				asked <- g
			case <-set.Context().Done():
			}
		}()
	}
	return asked
}

// requestText says who has asked for a lock, and why.
func requestText(g *lease.Guard) string {
	asked, _ := g.YieldRequest()
	text := fmt.Sprintf("%s asks for lock %q", asked.By, g.Name())
	if asked.Reason != "" {
		text += fmt.Sprintf(" (%q)", asked.Reason)
	}
	return text
}

// refuse writes a refusal for the asker, if the lock has one holder: one of several
// cannot answer for the others.
func (a *access) refuse(ctx context.Context, g *lease.Guard) {
	a.Notef("%s: the command continues (--on-ask %s)", requestText(g), askRefuse)
	go func() {
		if err := g.RefuseYield(ctx, "the holder runs with --on-ask "+askRefuse); err != nil && g.Err() == nil && !errors.Is(err, store.ErrInvalid) {
			a.Notef("the refusal could not be written: %s", output.OneLine(err))
		}
	}()
}

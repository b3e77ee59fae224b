package webpage

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/adapters/tofustate"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/serving"
)

// serveTofu serves the states of OpenTofu until the context ends.
func serveTofu(ctx context.Context, in *cmdline.Invocation, o *serving.TofuOptions) error {
	if o.Keep < 1 || o.Keep > tofustate.MaxKeep {
		return exit.Usagef("--keep must be a whole number from 1 to %d", tofustate.MaxKeep)
	}
	listener, err := listen(&o.Access)
	if err != nil {
		return err
	}
	defer listener.Close()
	st, err := in.OpenURL(ctx, in.StoreURL)
	if err != nil {
		return err
	}
	defer st.Close()
	states, err := tofustate.New(st.Store, &tofustate.Options{Keep: o.Keep, Logger: in.Log()})
	if err != nil {
		return err
	}
	// A browser must not write states for the page of another site.
	protected := http.NewCrossOriginProtection().Handler(states)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			protected.ServeHTTP(w, r)
		}
	})
	// A large state, a slow network and a slow store take minutes.
	server := &http.Server{Handler: handler, ReadTimeout: 5 * time.Minute, WriteTimeout: 10 * time.Minute}
	return serve(ctx, listener, &o.Access, server, func() {
		in.Notef("the address of a state is http://%s/state/NAME", listener.Addr())
	}, func() {})
}

package metrics_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/metrics"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// A program serves the metrics of its client and store.
func Example() {
	m := metrics.New(&metrics.Options{Store: "memory"})
	client, err := lease.New(m.Store(memstore.New()), &lease.Options{OnEvent: m.OnEvent})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m)
	server := httptest.NewServer(mux) // in a program: http.Server with ReadHeaderTimeout
	defer server.Close()

	ctx := context.Background()
	for _, name := range []string{"jobs/nightly", "jobs/hourly", "report"} {
		if err := client.Do(ctx, name, func(context.Context, *lease.Guard) error { return nil }, nil); err != nil {
			log.Fatal(err)
		}
	}
	if err := client.FlushEvents(ctx); err != nil { // only for this example
		log.Fatal(err)
	}
	response, err := http.Get(server.URL + "/metrics")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	if err := response.Write(&text); err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, "holdfast_acquired_total") {
			fmt.Fprint(os.Stdout, line)
		}
	}
	// Output:
	// # HELP holdfast_acquired_total Grants of the lock.
	// # TYPE holdfast_acquired_total counter
	// holdfast_acquired_total{store="memory",lock="*"} 1
	// holdfast_acquired_total{store="memory",lock="jobs/*"} 2
}

// Each lock has its own label if the program has few locks.
func ExampleByName() {
	m := metrics.New(&metrics.Options{Label: metrics.ByName, MaxLabels: 20})
	m.OnEvent(lease.Event{Kind: lease.EventWaiting, Name: "jobs/nightly"})
	var text strings.Builder
	if _, err := m.WriteTo(&text); err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "holdfast_waiting") {
			fmt.Print(line)
		}
	}
	// Output: holdfast_waiting{lock="jobs/nightly"} 1
}

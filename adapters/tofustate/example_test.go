package tofustate_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast/adapters/tofustate"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func Example() {
	states, err := tofustate.New(memstore.New(), nil) // or a directory: filestore.Open
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(http.NewCrossOriginProtection().Handler(states))
	defer server.Close()
	address := server.URL + "/state/prod/network" // of the backend "http"

	reply, err := http.Post(address, "application/json", strings.NewReader(`{"version":4,"serial":1,"lineage":"a"}`))
	if err != nil {
		log.Fatal(err)
	}
	reply.Body.Close()
	fmt.Println(reply.Status)
	// Output: 200 OK
}

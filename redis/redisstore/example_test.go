package redisstore_test

import (
	"fmt"

	"github.com/holdfast-go/holdfast/redis/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// Open sends no request, so a wrong URL is the only error here.
func ExampleOpen() {
	s, err := redisstore.Open("redis://redis.example/0/app?unsafe=appendfsync", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	fmt.Println(store.TraitsOf(s).Name)

	_, err = redisstore.Open("redis://user:password@redis.example/0/app", nil)
	fmt.Println(err)
	// Output:
	// redis://redis.example/0/app
	// wrong set-up: the URL of the store: it contains credentials; put them into the environment or a profile, as for the store's own tools (see holdfast help environment)
}

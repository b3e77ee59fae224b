package resumekey_test

import (
	"fmt"

	"github.com/holdfast-go/holdfast/compat/resumekey"
)

func ExampleKey() {
	key, err := resumekey.Key("https://Aviso-Server.ecmwf.int", "mars", []byte(`{ "class": "od" }`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(key)
	// Output: 46fe3e30937478ae30527c74cb2f03a5e5419228a11051cdaccefe7d044b21c3
}

func ExampleBaseURL() {
	url, err := resumekey.BaseURL("HTTPS://user:secret@[0:0:0:0:0:0:0:1]:443?query")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(url)
	// Output: https://[::1]/
}

func ExampleFilter() {
	filter, err := resumekey.Filter([]byte(`{ "step": [ 1e1, 0.50 ], "class": "od" }`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(filter))
	// Output: {"class":"od","step":[10,0.5]}
}

package object_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
)

func ExampleFS() {
	ctx := context.Background()
	c := memory()
	for _, key := range []string{"pages/index.html", "pages/about.html", "pages/img/logo.svg"} {
		if _, err := c.Put(ctx, key, strings.NewReader("<p>"+key), nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	pages, err := fs.Sub(object.FS(ctx, c), "pages")
	if err != nil {
		fmt.Println(err)
		return
	}
	entries, err := fs.ReadDir(pages, ".")
	for _, e := range entries {
		fmt.Println(e)
	}
	fmt.Println(err)
	text, err := fs.ReadFile(pages, "about.html")
	fmt.Println(string(text), err)
	// Output:
	// - about.html
	// d img/
	// - index.html
	// <nil>
	// <p>pages/about.html <nil>
}

func ExampleListDir() {
	ctx := context.Background()
	b := membucket.New()
	for _, key := range []string{"logs/2026/a", "logs/2026/b", "logs/readme"} {
		if _, err := b.Put(ctx, key, strings.NewReader("x"), nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	for info, err := range object.ListDir(ctx, b, "logs/") {
		fmt.Println(info.Key, info.Size, err)
	}
	// Output:
	// logs/2026/ 0 <nil>
	// logs/readme 1 <nil>
}

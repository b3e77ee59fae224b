package main

import "github.com/holdfast-go/holdfast/store"

func main() { _ = store.MaxKey }
